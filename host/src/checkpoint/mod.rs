//! Where snapshots live: the pure protocol of checkpoints (manifests, pending, decisions, paths), the format of state files, and the
//! store over object_store.

pub mod decide;
pub mod file;
pub mod inspect;
pub mod listing;
pub mod log;
pub mod manifest;
pub mod paths;
pub mod pending;
pub mod store;
