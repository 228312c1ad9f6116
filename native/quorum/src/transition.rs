//! Names of the roles and of the transitions between them.

/// The role of a replica, without its data.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum RoleName {
    /// Knows no leader that it can follow.
    Unattached,
    /// Asks whether an election would be won (KIP-996).
    Prospective,
    /// Asks for votes.
    Candidate,
    /// Leads.
    Leader,
    /// Fetches from the leader.
    Follower,
    /// Has led in this epoch.
    Resigned,
    /// Has met a storage error and does nothing any more.
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
    /// A majority cannot be had, or not in time.
    Lost,
    /// Votes for another.
    Voted,
    /// A majority does not fetch.
    QuorumLost,
    /// This leader is no voter any more.
    Removed,
    /// The owner asked for it.
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
    /// Why.
    pub cause: Cause,
}
