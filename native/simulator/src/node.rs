//! A node: a process with a clock and a disk.

use pybroker_quorum::{Quorum, ReplicaKey};

use crate::clock::Clock;
use crate::disk::SimulatedDisk;
use crate::network::Micros;

/// A node.
#[derive(Debug)]
pub(crate) struct Node {
    /// The running process.
    pub(crate) quorum: Option<Quorum<u64>>,
    /// The disk, which survives the process.
    pub(crate) disk: SimulatedDisk,
    /// The clock.
    pub(crate) clock: Clock,
    /// Sequence number of the process on this node. Messages to an earlier process are dropped.
    pub(crate) life: u32,
    /// Time at which the pause of the process ends.
    pub(crate) paused_until: Micros,
    /// Time of the next timer event.
    pub(crate) timer_at: Micros,
    /// Sequence number of the next timer event. Timer events with other numbers are obsolete.
    pub(crate) timer: u64,
    /// End of the records that this process has applied.
    pub(crate) applied: i64,
    /// The node to which this process sent its last fetch, and the fetch's correlation.
    pub(crate) fetches_from: Option<(i32, u64)>,
    /// When the leader last answered a fetch of this follower. `None` after an event that may make the process give up
    /// its leader.
    pub(crate) heard_leader: Option<Micros>,
    /// Number of writes or flushes after which the process dies.
    pub(crate) dies_in: Option<u64>,
    /// Factor of the disk's delays.
    pub(crate) slowness: u64,
    /// Number of records after which the process writes a snapshot.
    pub(crate) snapshot_records: i64,
    /// When each node's last fetch arrived here.
    pub(crate) fetched_at: Vec<Option<Micros>>,
    /// Since when the node has led without reaching a majority.
    pub(crate) isolated_since: Option<Micros>,
}

impl Node {
    /// Create a node that has not started.
    #[must_use]
    pub(crate) fn new(disk: SimulatedDisk, clock: Clock, snapshot_records: i64) -> Self {
        Self {
            quorum: None,
            disk,
            clock,
            life: 0,
            paused_until: 0,
            timer_at: Micros::MAX,
            timer: 0,
            applied: 0,
            fetches_from: None,
            heard_leader: None,
            dies_in: None,
            slowness: 1,
            snapshot_records,
            fetched_at: Vec::new(),
            isolated_since: None,
        }
    }

    /// Return the replica: the node with its present disk.
    #[must_use]
    pub(crate) fn key(&self) -> ReplicaKey {
        self.disk.key
    }

    /// Return whether the process runs and leads.
    #[must_use]
    pub(crate) fn leads(&self) -> bool {
        self.quorum.as_ref().is_some_and(Quorum::is_leader)
    }
}
