//! Configuration of the hosted partitions.

use std::path::PathBuf;
use std::sync::Arc;

use pybroker_storage::Layout;

use crate::{BrokerLogSettings, Clock};

/// A function that receives one line about a disk problem. It is called on any thread and must not block.
pub type Report = Arc<dyn Fn(&str) + Send + Sync>;

/// Configuration of [`crate::Replicas::start`].
#[derive(Clone)]
pub struct ReplicasConfig {
    /// Id of this broker.
    pub broker_id: i32,
    /// Id of the cluster that owns the data.
    pub cluster_id: String,
    /// `log.dirs`.
    pub log_dirs: Vec<PathBuf>,
    /// `log.dir.layout`.
    pub layout: Layout,
    /// `delete.topic.delay.ms`: how long a deleted partition stays in `deleting/`.
    pub delete_delay_ms: i64,
    /// `num.recovery.threads.per.data.dir`.
    pub threads_per_dir: usize,
    /// Broker settings that apply to each log.
    pub log_settings: BrokerLogSettings,
    /// Clock of the background threads.
    pub clock: Arc<dyn Clock>,
    /// Receives lines about failures for the broker's log.
    pub report: Report,
    /// Receives lines about the end of failures.
    pub inform: Report,
    /// Receives one line when the last log directory fails. The broker cannot serve anything and must halt.
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
