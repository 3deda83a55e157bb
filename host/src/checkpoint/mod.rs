//! Where snapshots live: the pure protocol of checkpoints (manifests, pending, decisions, paths), the format of state files, and the
//! store over object_store.

pub mod file;
pub mod manifest;
pub mod paths;
