//! Roles with their data.

use std::collections::VecDeque;

use crate::keys::ReplicaKey;
use crate::transition::RoleName;

/// The role of a replica. Times are milliseconds of the owner's clock.
#[derive(Debug, Clone)]
pub(crate) enum Role {
    Unattached { election_at: u64 },
    Prospective(Ballot),
    Candidate(Ballot),
    Leader(Box<Leadership>),
    Follower(LeaderView),
    Resigned { election_at: u64 },
    Halted,
}

impl Role {
    pub(crate) const fn name(&self) -> RoleName {
        match self {
            Self::Unattached { .. } => RoleName::Unattached,
            Self::Prospective(_) => RoleName::Prospective,
            Self::Candidate(_) => RoleName::Candidate,
            Self::Leader(_) => RoleName::Leader,
            Self::Follower(_) => RoleName::Follower,
            Self::Resigned { .. } => RoleName::Resigned,
            Self::Halted => RoleName::Halted,
        }
    }
}

/// One round of Vote requests.
#[derive(Debug, Clone)]
pub(crate) struct Ballot {
    /// The requests of this round: the correlation of each, and the voter that it was sent to.
    pub(crate) asked: Vec<(u64, ReplicaKey)>,
    pub(crate) granted: Vec<ReplicaKey>,
    pub(crate) refused: Vec<ReplicaKey>,
    /// When to repeat the requests to voters that have not answered.
    pub(crate) retry_at: u64,
    /// When the round ends.
    pub(crate) ends_at: u64,
}

/// A leader's state in its epoch.
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    /// Offset of the epoch's first record. The high watermark only advances beyond this offset.
    pub(crate) first_offset: i64,
    pub(crate) since: u64,
    /// Progress of each replica that has fetched in this epoch.
    pub(crate) replicas: Vec<Progress>,
    /// Fetches that the leader has not answered.
    pub(crate) waiting: Vec<WaitingFetch>,
    /// Uncommitted proposals and voter changes: the offset after the last record of each (ascending), and the owner's
    /// name for it.
    pub(crate) undecided: VecDeque<(i64, u64)>,
    /// When to announce the epoch again to voters that do not fetch.
    pub(crate) announce_at: u64,
}

impl Leadership {
    pub(crate) fn progress(&self, key: ReplicaKey) -> Option<&Progress> {
        self.replicas.iter().find(|replica| replica.key == key)
    }
}

/// A replica's progress.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) key: ReplicaKey,
    /// The replica's log agrees with the leader's up to this offset and is on disk; -1 if they have not agreed yet.
    pub(crate) end_offset: i64,
    pub(crate) fetched_at: u64,
    /// The last time at which the replica had all records that the leader had at that time.
    pub(crate) caught_up_at: Option<u64>,
    /// The end of the leader's log at the replica's last fetch, and the time of that fetch.
    pub(crate) leader_end: (i64, u64),
}

/// A Fetch that the leader has not answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingFetch {
    pub(crate) handle: u64,
    pub(crate) key: ReplicaKey,
    pub(crate) from: i64,
    /// The follower's high watermark.
    pub(crate) high_watermark: i64,
    pub(crate) until: u64,
    /// From this time on, the leader may answer it together with another fetch.
    pub(crate) may_end_at: u64,
}

/// A follower's view of its leader.
#[derive(Debug, Clone)]
pub(crate) struct LeaderView {
    pub(crate) leader: i32,
    /// When the follower gives up waiting for the leader.
    pub(crate) until: u64,
    /// Whether the leader has answered a fetch in this epoch.
    pub(crate) fetched: bool,
    /// The leader's high watermark.
    pub(crate) high_watermark: i64,
    /// The snapshot to fetch before the next batches.
    pub(crate) snapshot: Option<crate::batch::EpochEnd>,
}
