//! The queue of outputs. Only committed records count towards its limit: while the queue is full, further records stay
//! in the log. Messages are few and always queued.

use std::fmt;
use std::sync::Arc;

use parking_lot::Mutex;

use crate::output::Output;

/// Once the queued records exceed this size, no more are delivered.
const DELIVERED_BYTES_MAX: usize = 4 << 20;

/// A function that the outbox calls when the empty queue gets its first output.
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
    /// Whether records were held back because the queue was full.
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

    /// Return whether more records may be queued. After a false answer, the next [`Outbox::take`] reports that records
    /// were held back.
    pub(crate) fn has_room(&self) -> bool {
        let mut inner = self.inner.lock();
        inner.full = inner.delivered_bytes >= DELIVERED_BYTES_MAX;
        !inner.full
    }

    /// Take all outputs. Also return whether records were held back.
    pub(crate) fn take(&self) -> (Vec<Output>, bool) {
        let mut inner = self.inner.lock();
        inner.delivered_bytes = 0;
        let full = std::mem::take(&mut inner.full);
        (std::mem::take(&mut inner.outputs), full)
    }
}
