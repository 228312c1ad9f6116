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
    /// The disk, which outlives it.
    pub(crate) disk: SimulatedDisk,
    /// The clock.
    pub(crate) clock: Clock,
    /// Number of the process: what was meant for an earlier one does not arrive.
    pub(crate) life: u32,
    /// The process stands still until then.
    pub(crate) paused_until: Micros,
    /// When the next timer event comes.
    pub(crate) timer_at: Micros,
    /// The number of that event: others are out of date.
    pub(crate) timer: u64,
    /// What this process has applied.
    pub(crate) applied: i64,
    /// The node that the last fetch went to, and its correlation.
    pub(crate) fetches_from: Option<(i32, u64)>,
    /// When the leader that is followed answered a fetch last; `None` after what the process cannot see coming.
    pub(crate) heard_leader: Option<Micros>,
    /// The process dies at that many writes or flushes from now on.
    pub(crate) dies_in: Option<u64>,
    /// Factor for how long the disk takes.
    pub(crate) slowness: u64,
    /// Records after which a snapshot is written.
    pub(crate) snapshot_records: i64,
    /// When each node's last fetch arrived here.
    pub(crate) fetched_at: Vec<Option<Micros>>,
    /// Since when the node leads without reaching a majority.
    pub(crate) isolated_since: Option<Micros>,
}

impl Node {
    /// A node that has not started.
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

    /// Who the node is, with its present disk.
    #[must_use]
    pub(crate) fn key(&self) -> ReplicaKey {
        self.disk.key
    }

    /// Whether the process runs and leads.
    #[must_use]
    pub(crate) fn leads(&self) -> bool {
        self.quorum.as_ref().is_some_and(Quorum::is_leader)
    }
}
