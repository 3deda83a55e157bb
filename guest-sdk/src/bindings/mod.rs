//! The contract in Rust, as `guest-sdk/bindgen` generates it: running the generator in every build would cost half a minute each.
//!
//! Everything else in the SDK is written by hand and without `unsafe`.
#![allow(unsafe_code, missing_docs, clippy::allow_attributes_without_reason, clippy::unwrap_used, reason = "generated")]

pub mod checkpoint_aborted_hook;
pub mod checkpoint_hooks;
pub mod close_hook;
pub mod finish_hook;
pub mod migration;
pub mod operator;
pub mod snapshot_hook;

pub use operator::cofferdam::operator::{descriptor, records};

#[cfg(test)]
mod tests {
    /// As in `guest-sdk/bindgen`.
    fn fnv1a(text: &str) -> u64 {
        text.bytes().fold(0xcbf2_9ce4_8422_2325, |hash, byte| (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01b3))
    }

    const HELP: &str = "run `cargo run` in guest-sdk/bindgen";

    #[test]
    fn the_vendored_contract_is_the_repositorys() {
        let ours = include_str!("../../wit/operator.wit");
        let path = concat!(env!("CARGO_MANIFEST_DIR"), "/../wit/operator.wit");
        // A published crate has no surroundings.
        if let Ok(theirs) = std::fs::read_to_string(path) {
            assert_eq!(ours, theirs, "{HELP}");
        }
    }

    #[test]
    fn the_bindings_are_of_the_vendored_contract() {
        let hash = format!("{:016x}.", fnv1a(include_str!("../../wit/operator.wit")));
        let all = [
            include_str!("operator.rs"),
            include_str!("finish_hook.rs"),
            include_str!("snapshot_hook.rs"),
            include_str!("checkpoint_hooks.rs"),
            include_str!("checkpoint_aborted_hook.rs"),
            include_str!("close_hook.rs"),
            include_str!("migration.rs"),
        ];
        for bindings in all {
            let first = bindings.lines().next().unwrap();
            assert!(first.ends_with(&hash), "{first}: {HELP}");
        }
    }
}
