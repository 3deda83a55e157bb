//! The one user of timely.
