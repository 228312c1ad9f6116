//! What the partitions hosted here need to start.

use std::path::PathBuf;
use std::sync::Arc;

use pybroker_storage::Layout;

use crate::{BrokerLogSettings, Clock};

/// Takes a line about trouble on the disk. Called on any thread; must not block.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// What [`crate::Replicas::start`] needs.
#[derive(Clone)]
pub struct ReplicasConfig {
    /// This broker.
    pub broker_id: i32,
    /// The cluster that the data must belong to.
    pub cluster_id: String,
    /// `log.dirs`.
    pub log_dirs: Vec<PathBuf>,
    /// `log.dir.layout`.
    pub layout: Layout,
    /// `delete.topic.delay.ms`: how long a deleted partition waits for removal.
    pub delete_delay_ms: i64,
    /// `num.recovery.threads.per.data.dir`.
    pub threads_per_dir: usize,
    /// Settings of the broker that go into each log.
    pub log_settings: BrokerLogSettings,
    /// The time, for background threads.
    pub clock: Arc<dyn Clock>,
    /// Lines for the log.
    pub report: Report,
    /// Gets one line when the last log directory has failed: the broker can do nothing any more and has to halt.
    pub on_all_failed: Report,
}

impl std::fmt::Debug for ReplicasConfig {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("ReplicasConfig")
            .field("broker_id", &self.broker_id)
            .field("log_dirs", &self.log_dirs)
            .finish_non_exhaustive()
    }
}
