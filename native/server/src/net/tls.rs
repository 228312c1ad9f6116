//! TLS of listeners: certificates and trust (`settings`), and the server side of one connection (`session`).
//!
//! rustls runs without buffers of its own: records are decrypted in the receive buffer and encrypted into one buffer of
//! the thread's pool, so that an idle connection holds only its keys.

mod principal;
mod refused;
mod session;
mod settings;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub(crate) use refused::refusal;
pub(crate) use session::{PLAIN_BYTES_MAX, TlsProblem, TlsSession};
pub use settings::{ClientAuth, TlsError, TlsMaterial, TlsServer};

/// The TLS configuration of one listener; connections keep the configuration that they started with.
#[derive(Clone, Debug)]
pub struct TlsListener(Arc<ArcSwap<TlsServer>>);

impl TlsListener {
    /// Create the configuration of a listener.
    pub fn new(server: TlsServer) -> Self {
        TlsListener(Arc::new(ArcSwap::from_pointee(server)))
    }

    /// Replace the configuration for new connections.
    pub fn replace(&self, server: TlsServer) {
        self.0.store(Arc::new(server));
    }

    pub(crate) fn load(&self) -> Arc<TlsServer> {
        self.0.load_full()
    }
}
