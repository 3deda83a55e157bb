//! What flows and what is noted about it: batches of records packed by column, positions of sources, staged output of sinks.

mod batch;
mod column;
mod commit;
mod dictionary;
mod key_group;
mod outbox;

pub use batch::{Batch, hash_key, hash_record};
pub use column::{Column, MalformedColumn, append, copy, slice};
pub use commit::{AttemptId, Position, SplitPosition, Staged};
pub use key_group::{KeyGroups, key_group, subtask_of};
pub use outbox::{BATCH_BYTES, BATCH_RECORDS, Outbox, Shape, Spread};
