//! A node's identity and settings.

use pybroker_metadata_log::{Endpoint, LogOptions};
use pybroker_model::Uuid;
use pybroker_quorum::{ReplicaKey, Timeouts};

use crate::wire::Sender;

/// Default of `NodeSettings::fetch_bytes_max`.
pub const FETCH_BYTES_MAX: i32 = 1 << 20;

/// A node's identity and settings.
#[derive(Debug, Clone)]
pub struct NodeSettings {
    /// Node id, and directory id of the log's directory.
    pub key: ReplicaKey,
    /// `cluster.id`.
    pub cluster_id: String,
    /// Nodes to ask for the leader while the log names no voters. Negative ids represent addresses.
    pub bootstrap: Vec<i32>,
    /// Addresses of this node, which it sends to the others.
    pub endpoints: Vec<Endpoint>,
    /// Timeouts.
    pub timeouts: Timeouts,
    /// Size limits of the log.
    pub log: LogOptions,
    /// Maximum bytes of batches, or of a snapshot, that this node requests at a time.
    pub fetch_bytes_max: i32,
    /// Records below this offset were committed, as the owner remembers: they are never truncated.
    pub seen_offset: i64,
    /// Seed of the timeouts' jitter.
    pub seed: u64,
}

/// Return the identity that a node sends with each request.
pub(crate) fn sender_of(settings: &NodeSettings) -> Sender {
    Sender {
        cluster_key: cluster_key_of(&settings.cluster_id),
        cluster_id: settings.cluster_id.clone(),
        endpoints: settings.endpoints.clone(),
        fetch_bytes_max: settings.fetch_bytes_max,
    }
}

/// Convert a cluster id for the state machine. Cluster ids in Kafka's form are parsed; other texts are hashed (FNV-1a).
fn cluster_key_of(cluster_id: &str) -> Uuid {
    Uuid::parse(cluster_id).unwrap_or_else(|_| {
        let hash = cluster_id.bytes().fold(
            0x6c62_272e_07bb_0142_62b8_2175_6295_c58d_u128,
            |hash, byte| (hash ^ u128::from(byte)).wrapping_mul(0x0100_0000_0000_0000_0000_013b),
        );
        Uuid::from_u128(hash)
    })
}
