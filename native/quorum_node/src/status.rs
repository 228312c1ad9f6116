//! A node's view of the quorum, for administrators.

use bytes::Bytes;
use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_quorum::{EpochEnd, Quorum, ReplicaKey, ReplicaProgress, RoleName};

use crate::addresses::Addresses;
use crate::clock::Clock;

/// This node's view of the quorum.
#[derive(Debug, Clone)]
pub struct NodeStatus {
    /// This node.
    pub key: ReplicaKey,
    /// This node's role.
    pub role: RoleName,
    /// The epoch.
    pub epoch: i32,
    /// The leader of the epoch, if it is known and has not resigned.
    pub leader: Option<i32>,
    /// All records below this offset are committed.
    pub high_watermark: i64,
    /// Start of the log.
    pub log_start: i64,
    /// Offset after the last record.
    pub log_end: i64,
    /// The end of the latest snapshot.
    pub snapshot: EpochEnd,
    /// The metadata topic's id, once it is committed.
    pub topic_id: Option<Uuid>,
    /// The voters. Only the leader knows their progress.
    pub voters: Vec<ReplicaStatus>,
    /// Replicas that fetch but do not vote. Only the leader knows them.
    pub observers: Vec<ReplicaStatus>,
}

/// A replica of the log. Times are milliseconds since 1970.
#[derive(Debug, Clone)]
pub struct ReplicaStatus {
    /// The replica.
    pub key: ReplicaKey,
    /// The end of the replica's log, or -1 if unknown.
    pub end_offset: i64,
    /// Time of the replica's last fetch.
    pub fetched_ms: Option<i64>,
    /// The last time at which the replica had all records that the leader had at that time.
    pub caught_up_ms: Option<i64>,
    /// The replica's known addresses.
    pub endpoints: Vec<Endpoint>,
}

/// Return the view that the node `key` has of the quorum.
pub(crate) fn status(
    quorum: &Quorum<Bytes>,
    key: ReplicaKey,
    addresses: &Addresses,
    clock: &Clock,
) -> NodeStatus {
    let (now, wall) = (clock.monotonic_ms(), clock.wall_ms());
    let wall_of = |at: u64| wall - now.saturating_sub(at).cast_signed();
    let progress = quorum.progress();
    let replica = |key: ReplicaKey, progress: Option<&ReplicaProgress>| ReplicaStatus {
        key,
        end_offset: progress.map_or(-1, |progress| progress.end_offset),
        fetched_ms: progress.map(|progress| wall_of(progress.fetched_at)),
        caught_up_ms: progress
            .and_then(|progress| progress.caught_up_at)
            .map(wall_of),
        endpoints: addresses.all_of(key.id),
    };
    let voters = quorum.voters();
    let log = quorum.log();
    let status_of = |voter: ReplicaKey| {
        if voter == key && quorum.is_leader() {
            let own = ReplicaProgress {
                key,
                end_offset: log.end_offset(),
                fetched_at: now,
                caught_up_at: Some(now),
            };
            return replica(key, Some(&own));
        }
        replica(
            voter,
            progress.iter().find(|progress| progress.key == voter),
        )
    };
    let observers = progress
        .iter()
        .filter(|progress| !voters.contains(progress.key));
    NodeStatus {
        key,
        role: quorum.role(),
        epoch: quorum.state().epoch,
        leader: quorum.leader(),
        high_watermark: quorum.high_watermark(),
        log_start: log.start().offset,
        log_end: log.end_offset(),
        snapshot: log.snapshot(),
        topic_id: quorum.state().topic_id,
        voters: voters.iter().map(status_of).collect(),
        observers: observers
            .map(|progress| replica(progress.key, Some(progress)))
            .collect(),
    }
}
