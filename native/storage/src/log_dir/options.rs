//! Options for opening a log directory.

use crate::clock::Clock;
use crate::flusher::SYNCFS_LOGS;
use crate::handles::OPEN_FILES_MAX;
use crate::producer_state::ProducerCount;
use std::sync::Arc;

/// `log.dir.layout`: names of new partition directories. Directories of both layouts can be read.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `{topic}-{partition}`, as in Apache Kafka.
    #[default]
    TopicName,
    /// `{first two digits}/{topic id in hex}_{partition}` (KIP-516).
    TopicId,
}

/// Size of each of the journal's two files: enough for some seconds of small appends; a start after a crash reads it in
/// a tenth of a second.
const JOURNAL_BYTES: u64 = 64 << 20;

/// Options for opening a log directory.
#[derive(Clone, Debug)]
pub struct LogDirOptions {
    /// Id of this broker.
    pub broker_id: i32,
    /// Id of the cluster. Data of another cluster is refused.
    pub cluster_id: String,
    /// Largest number of open segment files.
    pub open_files_max: usize,
    /// Threads that sync single logs in parallel.
    pub flush_threads: usize,
    /// Names of new partition directories.
    pub layout: Layout,
    /// Number of waiting logs from which one `syncfs` syncs all.
    pub syncfs_logs: usize,
    /// Size of each of the journal's two files; 0: no journal.
    pub journal_bytes: u64,
    /// Clock to measure syncs and the waits of appends; `None`: no measurements.
    pub clock: Option<Arc<dyn Clock>>,
    /// Counter of the producers of all logs, which the log directories of a broker share.
    pub producers: Arc<ProducerCount>,
}

impl LogDirOptions {
    /// Return options with the usual limits.
    #[must_use]
    pub fn new(broker_id: i32, cluster_id: String) -> Self {
        Self {
            broker_id,
            cluster_id,
            open_files_max: OPEN_FILES_MAX,
            flush_threads: 4,
            layout: Layout::TopicName,
            syncfs_logs: SYNCFS_LOGS,
            journal_bytes: JOURNAL_BYTES,
            clock: None,
            producers: Arc::default(),
        }
    }
}
