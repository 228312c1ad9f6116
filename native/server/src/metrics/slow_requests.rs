//! Requests that took `slow.request.log.ms` or longer, kept for tracing.

use std::collections::VecDeque;
use std::mem;
use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::SystemTime;

use parking_lot::Mutex;

/// A slow request.
#[derive(Debug, Clone)]
pub struct SlowRequest {
    /// API key.
    pub api_key: i16,
    /// API version.
    pub version: i16,
    /// When its last byte arrived.
    pub received: SystemTime,
    /// Microseconds per stage: queue, local, remote, response queue, response send.
    pub stages_us: [u64; 5],
    /// Client id.
    pub client_id: Box<str>,
    /// Principal.
    pub principal: Arc<str>,
    /// Listener.
    pub listener: Arc<str>,
    /// The client's address.
    pub address: SocketAddr,
}

/// Recent slow requests. None are kept before the first `take`; afterwards the last `KEPT_MAX` are.
#[derive(Default)]
pub(crate) struct SlowRequests {
    wanted: AtomicBool,
    kept: Mutex<VecDeque<SlowRequest>>,
}

const KEPT_MAX: usize = 1_000;

impl SlowRequests {
    pub(crate) fn note(&self, make: impl FnOnce() -> SlowRequest) {
        if !self.wanted.load(Ordering::Relaxed) {
            return;
        }
        let request = make();
        let mut kept = self.kept.lock();
        if kept.len() >= KEPT_MAX {
            kept.pop_front();
        }
        kept.push_back(request);
    }

    /// Return the slow requests since the last call, the oldest first.
    pub(crate) fn take(&self) -> VecDeque<SlowRequest> {
        self.wanted.store(true, Ordering::Relaxed);
        mem::take(&mut *self.kept.lock())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request(version: i16) -> SlowRequest {
        SlowRequest {
            api_key: 0,
            version,
            received: SystemTime::UNIX_EPOCH,
            stages_us: [0; 5],
            client_id: "".into(),
            principal: "User:ANONYMOUS".into(),
            listener: "PLAINTEXT".into(),
            address: SocketAddr::from(([127, 0, 0, 1], 1)),
        }
    }

    #[test]
    fn the_last_are_kept_once_somebody_asks() {
        let slow = SlowRequests::default();
        slow.note(|| unreachable!("nobody asks"));
        assert!(slow.take().is_empty());
        for version in 0..1_500 {
            slow.note(|| request(version));
        }
        let kept = slow.take();
        assert_eq!(kept.len(), KEPT_MAX);
        assert_eq!(kept[0].version, 500);
        assert_eq!(kept[KEPT_MAX - 1].version, 1_499);
        assert!(slow.take().is_empty());
    }
}
