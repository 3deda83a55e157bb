//! The one user of bincode.
