//! Names of the roles and of the transitions between them.

/// The role of a replica, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleName {
    /// Knows no leader that it can follow.
    Unattached,
    /// Requests pre-votes (KIP-996).
    Prospective,
    /// Requests votes.
    Candidate,
    /// Leads the epoch.
    Leader,
    /// Fetches from the leader.
    Follower,
    /// Has led this epoch.
    Resigned,
    /// Has stopped after a storage error.
    Halted,
}

/// Why a role changes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Cause {
    /// The process started.
    Started,
    /// A message has a higher epoch.
    HigherEpoch,
    /// A message names the epoch's leader.
    LeaderFound,
    /// The leader resigned.
    LeaderResigned,
    /// The leader's port refuses connections.
    LeaderRefused,
    /// The leader was not reached in time, or there is none.
    TimedOut,
    /// The leader resigned and prefers this successor.
    Preferred,
    /// This replica is the only voter.
    OnlyVoter,
    /// A majority granted the votes or pre-votes.
    Won,
    /// No majority granted the votes in this ballot, or not in time.
    Lost,
    /// This replica voted for another one.
    Voted,
    /// A majority has stopped fetching.
    QuorumLost,
    /// This leader is not a voter any more.
    Removed,
    /// The owner asked the leader to resign.
    Asked,
    /// A write or a flush failed.
    StorageFailed,
}

/// A change of the role, or of the epoch or the leader within a role.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Transition {
    /// The role before.
    pub from: RoleName,
    /// The role after.
    pub to: RoleName,
    /// Why it changed.
    pub cause: Cause,
}
