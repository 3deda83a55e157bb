//! Jobs: the controller, restore and publication.

mod summary;

pub use summary::{NodeTotals, Outcome, Progress, Restored, Summary};
