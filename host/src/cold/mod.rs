//! State on a local disk: the store of what operators have no room for in memory. It is a cache. What must survive is in checkpoints, so
//! nothing here is read by anyone but the attempt that wrote it.

mod dir;
mod store;
#[cfg(test)]
mod tests;

pub use dir::LocalDir;
pub use store::DiskStore;

use crate::error::{Error, Kind};
use crate::state::ColdFault;

impl From<ColdFault> for Error {
    fn from(fault: ColdFault) -> Self {
        Error::new(Kind::Storage, fault.to_string()).help(ColdFault::HELP)
    }
}
