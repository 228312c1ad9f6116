//! TLS of listeners: what a listener shows and whom it trusts (`settings`), and one connection's side of it (`session`).
//!
//! The session is rustls' without buffers of its own: records are decrypted where they were received and sealed into
//! one buffer of the thread's pool, so that an idle connection holds nothing but its keys.

mod principal;
mod refused;
mod session;
mod settings;

use std::sync::Arc;

use arc_swap::ArcSwap;

pub(crate) use refused::refusal;
pub(crate) use session::{PLAIN_BYTES_MAX, TlsProblem, TlsSession};
pub use settings::{ClientAuth, TlsError, TlsMaterial, TlsServer};

/// The TLS of one listener; it may be replaced while connections go on with what they began with.
#[derive(Clone, Debug)]
pub struct TlsListener(Arc<ArcSwap<TlsServer>>);

impl TlsListener {
    /// A listener that shows this.
    pub fn new(server: TlsServer) -> Self {
        TlsListener(Arc::new(ArcSwap::from_pointee(server)))
    }

    /// New connections see this from now on.
    pub fn replace(&self, server: TlsServer) {
        self.0.store(Arc::new(server));
    }

    pub(crate) fn load(&self) -> Arc<TlsServer> {
        self.0.load_full()
    }
}
