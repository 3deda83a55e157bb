//! State files: the changes of one operator over a range of key groups, for one snapshot or, merged, for several. And, apart from
//! them, files of operator state (`operator`).
//!
//! ```text
//! frame: start    the form of the file, by its version
//! frame: block    about 64 KiB of changes, compressed
//! frame: block    …
//! frame: head     operator, key groups, epochs, states by name, and where each block lies
//! frame: end      how long the head is
//! ```
//!
//! The head comes late, so that a file can be written while it is being made (`output`), however large it becomes. In the first form it
//! stood at the start; such files are read, and none is written.
//!
//! Changes stand in the order of key group, state, key, each entry at most once. States are numbered by their place in the head, where
//! they stand by name: so the numbers mean something without the component, and the order is the same in all files of an operator.
//! Of a map each field is an entry of its own: its key is the key and the field as `wit/keys.md` makes a tuple of two byte strings, so that
//! the order is that of (key, field). Where values have a time to live, each begins with its stamp (i64, little-endian, milliseconds), and
//! of a list each element.
//! Blocks follow each other up to the head, so that a reader of some key groups finds the blocks that it needs from the head.

mod block;
mod broadcast;
mod content;
mod head;
mod merge;
mod operator;
mod output;
mod read;
mod write;

#[cfg(test)]
mod state_tests;
#[cfg(test)]
pub(crate) mod tests;

use crate::codec::CodecError;

pub use broadcast::{BroadcastReader, write_broadcast};
pub use content::{Content, LocalFile, within};
pub use head::Head;
pub use merge::{each_entry, merge};
pub use operator::{OperatorStateFacts, OperatorStateReader, WrittenOperatorState, write_operator};
pub use output::{PIECE, Take, Unwanted, next_piece};
pub use read::{ChangeCursor, StateReader};
pub use write::{FileFacts, Grouped, Written};

/// Why a state file can't be read or written. One line each, without the file's path.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
enum FileError {
    /// A frame, or what it holds, is not as it should be.
    #[error("{0}")]
    Codec(#[from] CodecError),
    /// Everything can be decoded, but does not hold together.
    #[error("the state file does not hold together: {0}")]
    Inconsistent(String),
    /// It lies on a local disk and can't be read there.
    #[error("can't be read: {0}")]
    Unreadable(String),
    /// What is to be written breaks a rule.
    #[error("{0}")]
    Refused(String),
    /// Nobody takes what is being written.
    #[error(transparent)]
    Unwanted(#[from] Unwanted),
}

impl From<std::io::Error> for FileError {
    fn from(error: std::io::Error) -> Self {
        FileError::Unreadable(error.to_string())
    }
}

impl FileError {
    fn inconsistent(reason: impl Into<String>) -> Self {
        FileError::Inconsistent(reason.into())
    }
}
