//! Which code TLS uses, chosen once for the process. There is none that it would take by itself.

use std::sync::Once;

/// Chooses it, if that has not been done. Before TLS is used, be it by a client or a server.
pub fn choose_cryptography() {
    static CHOICE: Once = Once::new();
    CHOICE.call_once(|| {
        // It has been chosen already: then that is good as well.
        let _ = rustls::crypto::ring::default_provider().install_default();
    });
}
