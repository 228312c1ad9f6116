//! Who a replica is, and its time-outs.

use pybroker_model::Uuid;

#[cfg(feature = "planted")]
use crate::fault::Fault;
use crate::keys::ReplicaKey;

/// Time-outs in milliseconds, under Kafka's names. Shorter than Kafka's defaults.
#[derive(Debug, Clone, Copy)]
pub struct Timeouts {
    /// `controller.quorum.election.timeout.ms`: how long a voter without a leader waits, and a ballot lasts, at least;
    /// at most twice that.
    pub election_ms: u64,
    /// `controller.quorum.fetch.timeout.ms`: a voter that cannot fetch for so long starts an election. Half as long
    /// again, and a leader that a majority does not fetch from resigns.
    pub fetch_ms: u64,
    /// `controller.quorum.election.backoff.max.ms`: the longest pause before the next ballot, and before an election
    /// because the leader's port refuses connections.
    pub backoff_max_ms: u64,
    /// How long a leader keeps a fetch that it has nothing for.
    pub fetch_wait_ms: u64,
    /// After this, a request without a response is sent again.
    pub retry_ms: u64,
    /// The pause after a response that brings nothing, such as an error.
    pub pause_ms: u64,
}

impl Default for Timeouts {
    fn default() -> Self {
        Self {
            election_ms: 1000,
            fetch_ms: 1000,
            backoff_max_ms: 100,
            fetch_wait_ms: 300,
            retry_ms: 300,
            pause_ms: 20,
        }
    }
}

impl Timeouts {
    /// How long a leader leads without a majority that fetches.
    #[must_use]
    pub const fn check_quorum_ms(&self) -> u64 {
        self.fetch_ms + self.fetch_ms / 2
    }
}

/// Who a replica is.
#[derive(Debug, Clone)]
pub struct Settings {
    /// This replica.
    pub key: ReplicaKey,
    /// Requests of other clusters are refused.
    pub cluster_id: Uuid,
    /// Nodes to ask for the leader as long as the log names no voters (`controller.quorum.bootstrap.servers`).
    pub bootstrap: Vec<i32>,
    /// A fresh random id; the topic's id if this replica leads and the log has none.
    pub new_topic_id: Uuid,
    /// Time-outs.
    pub timeouts: Timeouts,
    /// Seed of the time-outs' jitter.
    pub seed: u64,
    /// The fault that the simulator has planted.
    #[cfg(feature = "planted")]
    pub fault: Option<Fault>,
}

impl Settings {
    /// The settings of a replica with default time-outs and without bootstrap nodes.
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
