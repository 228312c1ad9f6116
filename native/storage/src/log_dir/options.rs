//! How a log directory is opened.

use crate::clock::Clock;
use crate::flusher::SYNCFS_LOGS;
use crate::handles::OPEN_FILES_MAX;
use std::sync::Arc;

/// `log.dir.layout`: how partitions' directories are named. Both are read, whatever is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `{topic}-{partition}`, as Apache Kafka does.
    #[default]
    TopicName,
    /// `{first two digits}/{topic id in hex}_{partition}` (KIP-516).
    TopicId,
}

/// Of each of the journal's two files: some seconds of small appends, and what a start after a crash reads in a tenth of
/// a second.
const JOURNAL_BYTES: u64 = 64 << 20;

/// How to open a log directory.
#[derive(Clone, Debug)]
pub struct LogDirOptions {
    /// This broker.
    pub broker_id: i32,
    /// The cluster; data of another one is refused.
    pub cluster_id: String,
    /// Most segment files kept open.
    pub open_files_max: usize,
    /// Threads that sync single logs at the same time.
    pub flush_threads: usize,
    /// How new partitions' directories are named.
    pub layout: Layout,
    /// Logs waiting from which on one `syncfs` syncs all.
    pub syncfs_logs: usize,
    /// Bytes of each of the journal's two files; 0: no journal.
    pub journal_bytes: u64,
    /// Tells how long appends wait for the journal, and when the next group may follow; without one nobody measures that,
    /// and each follows at once.
    pub clock: Option<Arc<dyn Clock>>,
}

impl LogDirOptions {
    /// Usual limits.
    #[must_use]
    pub const fn new(broker_id: i32, cluster_id: String) -> Self {
        Self {
            broker_id,
            cluster_id,
            open_files_max: OPEN_FILES_MAX,
            flush_threads: 4,
            layout: Layout::TopicName,
            syncfs_logs: SYNCFS_LOGS,
            journal_bytes: JOURNAL_BYTES,
            clock: None,
        }
    }
}
