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
    Follower(Following),
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
    /// The requests that were sent, and to whom.
    pub(crate) asked: Vec<(u64, ReplicaKey)>,
    pub(crate) granted: Vec<ReplicaKey>,
    pub(crate) refused: Vec<ReplicaKey>,
    /// When voters that did not answer are asked again.
    pub(crate) retry_at: u64,
    /// When the round is over.
    pub(crate) ends_at: u64,
}

/// What a leader knows of its epoch.
#[derive(Debug, Clone)]
pub(crate) struct Leadership {
    /// Offset of the epoch's first record. Only what is committed behind it is known to be committed.
    pub(crate) first_offset: i64,
    pub(crate) since: u64,
    /// Of each replica that has fetched in this epoch.
    pub(crate) replicas: Vec<Progress>,
    /// Fetches that wait for something to answer.
    pub(crate) waiting: Vec<WaitingFetch>,
    /// Proposals and voter changes that are not committed: the offset after them, ascending, and their name.
    pub(crate) undecided: VecDeque<(i64, u64)>,
    /// When voters that do not fetch hear of the epoch again.
    pub(crate) announce_at: u64,
}

impl Leadership {
    pub(crate) fn progress(&self, key: ReplicaKey) -> Option<&Progress> {
        self.replicas.iter().find(|replica| replica.key == key)
    }
}

/// How far a replica is.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Progress {
    pub(crate) key: ReplicaKey,
    /// Its log agrees with the leader's up to there and is on its disk; -1 if it did not agree yet.
    pub(crate) end_offset: i64,
    pub(crate) fetched_at: u64,
    /// When it had everything that the leader had then.
    pub(crate) caught_up_at: Option<u64>,
    /// The end of the leader's log at its last fetch, and when that was.
    pub(crate) leader_end: (i64, u64),
}

/// A Fetch that the leader has not answered.
#[derive(Debug, Clone, Copy)]
pub(crate) struct WaitingFetch {
    pub(crate) handle: u64,
    pub(crate) key: ReplicaKey,
    pub(crate) from: i64,
    /// The follower's.
    pub(crate) high_watermark: i64,
    pub(crate) until: u64,
}

/// What a follower knows of its leader.
#[derive(Debug, Clone)]
pub(crate) struct Following {
    pub(crate) leader: i32,
    /// When the leader is given up.
    pub(crate) until: u64,
    /// Whether the leader has answered a fetch in this epoch.
    pub(crate) fetched: bool,
    /// The leader's high watermark.
    pub(crate) high_watermark: i64,
    /// The snapshot that comes before the next fetch.
    pub(crate) snapshot: Option<crate::batch::EpochEnd>,
}
