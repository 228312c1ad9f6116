//! State of the server that the metrics are read from.

use std::sync::Arc;

use parking_lot::Mutex;

use super::recent::Recent;
use crate::metrics::{Counter, ThreadMetrics};
use crate::shared::ServerState;

/// Data that the metrics show.
pub(crate) struct Sources<'a> {
    pub(crate) shared: &'a ServerState,
    pub(crate) threads: &'a [Arc<ThreadMetrics>],
    pub(crate) recent: &'a Mutex<Recent>,
}

impl Sources<'_> {
    /// Return the sum of the counter over all threads.
    pub(super) fn sum(&self, read: impl Fn(&ThreadMetrics) -> &Counter) -> u64 {
        self.threads.iter().map(|thread| read(thread).get()).sum()
    }
}
