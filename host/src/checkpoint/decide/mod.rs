//! Decisions about a log and the files beside it: facts in, decision out. Nothing here reads a file or a clock.

mod lists;
mod restore;
mod retain;
mod savepoint;

#[cfg(test)]
mod tests;

pub use lists::{FileLists, MAX_FILES, Merge, MergeOutput, Merged};
pub use restore::{Before, RestorePoint, by_number, newest_point, next_attempt, next_epoch, point_at, restore_point};
pub use retain::{Live, Outline, Superseded, abandoned, superseded};
pub use savepoint::{bases, savepoint};
