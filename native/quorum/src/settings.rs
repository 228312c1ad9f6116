//! A replica's identity and timeouts.

use pybroker_model::Uuid;

#[cfg(feature = "planted")]
use crate::fault::Fault;
use crate::keys::ReplicaKey;

/// Timeouts in milliseconds, under Kafka's names. Shorter than Kafka's defaults.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// `controller.quorum.election.timeout.ms`: minimum time for which a voter waits for a leader, and minimum duration
    /// of a ballot. The maximum of both is twice as long.
    pub election_ms: u64,
    /// `controller.quorum.fetch.timeout.ms`: a voter that cannot fetch for this time starts an election. A leader
    /// resigns if no majority fetches from it for one and a half times this time.
    pub fetch_ms: u64,
    /// `controller.quorum.election.backoff.max.ms`: the longest pause before the next ballot, and before an election
    /// that starts because the leader's port refuses connections.
    pub backoff_max_ms: u64,
    /// The longest time for which a leader holds a fetch while it has no new records. With `retry_ms` it must be
    /// shorter than `fetch_ms`, so that a lost response causes no election.
    pub fetch_wait_ms: u64,
    /// A request without a response is sent again after this time.
    pub retry_ms: u64,
    /// The pause after a response without progress, such as an error.
    pub pause_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            election_ms: 1000,
            fetch_ms: 1000,
            backoff_max_ms: 100,
            fetch_wait_ms: 500,
            retry_ms: 300,
            pause_ms: 20,
        }
    }
}

impl Timeouts {
    /// Return how long a leader continues without a majority that fetches.
    #[must_use]
    pub const fn check_quorum_ms(&self) -> u64 {
        self.fetch_ms + self.fetch_ms / 2
    }
}

/// A replica's identity and settings.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This replica.
    pub key: ReplicaKey,
    /// The cluster's id. The replica refuses requests of other clusters.
    pub cluster_id: Uuid,
    /// Nodes to ask for the leader while the log has no voters (`controller.quorum.bootstrap.servers`).
    pub bootstrap: Vec<i32>,
    /// A fresh random id. It becomes the topic's id if this replica leads and the log has none.
    pub new_topic_id: Uuid,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Seed of the timeouts' jitter.
    pub seed: u64,
    /// The fault that the simulator has planted in this replica.
    #[cfg(feature = "planted")]
    pub fault: Option<Fault>,
}

impl Settings {
    /// Return the settings of a replica with default timeouts and without bootstrap nodes.
    #[must_use]
    pub fn new(key: ReplicaKey, cluster_id: Uuid, new_topic_id: Uuid, seed: u64) -> Self {
        Self {
            key,
            cluster_id,
            bootstrap: Vec::new(),
            new_topic_id,
            timeouts: Timeouts::default(),
            seed,
            #[cfg(feature = "planted")]
            fault: None,
        }
    }
}
