//! The queue of outputs. Messages are few; committed records wait in the log while the owner has not taken what is there.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::output::Output;

/// Bytes of committed records that wait for the owner.
const DELIVERED_BYTES_MAX: usize = 4 << 20;

/// Called when the queue is not empty any more.
pub(crate) type Wake = Box<dyn Fn() + Send + Sync>;

#[derive(Clone)]
pub(crate) struct Outbox {
    inner: Arc<Mutex<Inner>>,
    wake: Arc<Wake>,
}

#[derive(Default)]
struct Inner {
    outputs: Vec<Output>,
    delivered_bytes: usize,
    /// Records were held back.
    full: bool,
}

impl fmt::Debug for Outbox {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Outbox")
    }
}

impl Outbox {
    pub(crate) fn new(wake: Wake) -> Self {
        Self {
            inner: Arc::default(),
            wake: Arc::new(wake),
        }
    }

    pub(crate) fn push(&self, output: Output) {
        let mut inner = self.inner.lock();
        if output.is_delivery() {
            inner.delivered_bytes += output.size();
        }
        inner.outputs.push(output);
        if inner.outputs.len() == 1 {
            (self.wake)();
        }
    }

    /// Whether more records may be delivered. If not, [`Outbox::take`] says so.
    pub(crate) fn has_room(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.full = inner.delivered_bytes >= DELIVERED_BYTES_MAX;
        !inner.full
    }

    /// Take everything; whether records were held back.
    pub(crate) fn take(&self) -> (Vec<Output>, bool) {
        let mut inner = self.inner.lock();
        inner.delivered_bytes = 0;
        let full = std::mem::take(&mut inner.full);
        (std::mem::take(&mut inner.outputs), full)
    }
}
