//! Checkpoints in the memory of this process, where all attempts of it find them, and nobody else.

use std::sync::{Arc, LazyLock};

use object_store::memory::InMemory;
use object_store::path::Path as Key;
use object_store::prefix::PrefixStore;

use super::local::PATIENCE;
use super::objects::Objects;

static MEMORY: LazyLock<Arc<InMemory>> = LazyLock::new(Arc::default);

/// The objects whose keys begin with `prefix`.
pub(super) fn objects(prefix: &str) -> object_store::Result<Objects> {
    Ok(Objects::new(PrefixStore::new(Arc::clone(&MEMORY), Key::parse(prefix)?), PATIENCE))
}
