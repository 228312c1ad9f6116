//! What this broker is for a partition. Each role has only the fields it needs.

use std::sync::Arc;

use crate::PartitionError;

/// The role now; replaced whole.
#[derive(Debug, Clone)]
pub enum Role {
    /// Appends and serves.
    Leader(Leader),
    /// Hosted, but led elsewhere (or by nobody).
    Follower {
        /// Epoch of the leader it follows.
        leader_epoch: i32,
        /// Broker id, negative: none.
        leader: i32,
    },
    /// Its log directory failed, or it could not be opened.
    Offline {
        /// Last epoch known.
        leader_epoch: i32,
        /// For logs.
        reason: Arc<str>,
    },
    /// No longer hosted.
    Stopped {
        /// Because its topic was deleted.
        deleted: bool,
    },
}

/// The fields of a leader.
#[derive(Debug, Clone)]
pub struct Leader {
    /// This leadership.
    pub leader_epoch: i32,
    /// In-sync replicas, this broker included.
    pub isr: Arc<[i32]>,
    /// All replicas, preferred leader first.
    pub replicas: Arc<[i32]>,
    /// Version of the partition's state with the controller.
    pub version: i32,
    /// Where this leadership began: a follower that has not come so far lacks what older leaders wrote.
    pub start_offset: i64,
}

impl Leader {
    /// Whether `min.insync.replicas` is met.
    #[must_use]
    pub fn has_enough(&self, required: i32) -> bool {
        // A negative setting asks for nothing.
        usize::try_from(required).map_or(true, |required| self.isr.len() >= required)
    }
}

impl Role {
    /// The leader's fields, or why there are none.
    ///
    /// # Errors
    /// `NotLeader`, `Storage`, `Deleted`.
    pub fn leader(&self) -> Result<&Leader, PartitionError> {
        match self {
            Role::Leader(leader) => Ok(leader),
            Role::Follower { .. } | Role::Stopped { deleted: false } => {
                Err(PartitionError::NotLeader)
            }
            Role::Offline { reason, .. } => Err(PartitionError::Storage(Arc::clone(reason))),
            Role::Stopped { deleted: true } => Err(PartitionError::Deleted),
        }
    }

    /// The leader epoch known here; -1 once stopped.
    #[must_use]
    pub fn leader_epoch(&self) -> i32 {
        match self {
            Role::Leader(leader) => leader.leader_epoch,
            Role::Follower { leader_epoch, .. } | Role::Offline { leader_epoch, .. } => {
                *leader_epoch
            }
            Role::Stopped { .. } => -1,
        }
    }
}

/// Compares the epoch that a request names (KIP-320) with the current one; negative = the request names none.
///
/// # Errors
/// `FencedLeaderEpoch` if it is older, `UnknownLeaderEpoch` if it is newer.
pub fn check_leader_epoch(requested: i32, current: i32) -> Result<(), PartitionError> {
    if requested < 0 || requested == current {
        Ok(())
    } else if requested < current {
        Err(PartitionError::FencedLeaderEpoch { requested, current })
    } else {
        Err(PartitionError::UnknownLeaderEpoch { requested, current })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn epochs() {
        assert_eq!(check_leader_epoch(-1, 5), Ok(()));
        assert_eq!(check_leader_epoch(5, 5), Ok(()));
        assert_eq!(
            check_leader_epoch(4, 5),
            Err(PartitionError::FencedLeaderEpoch {
                requested: 4,
                current: 5
            })
        );
        assert_eq!(
            check_leader_epoch(6, 5),
            Err(PartitionError::UnknownLeaderEpoch {
                requested: 6,
                current: 5
            })
        );
    }

    #[test]
    fn only_a_leader_has_its_fields() {
        let offline = Role::Offline {
            leader_epoch: 3,
            reason: "disk".into(),
        };
        assert_eq!(offline.leader_epoch(), 3);
        assert_eq!(
            offline.leader().err(),
            Some(PartitionError::storage("disk"))
        );
        let follower = Role::Follower {
            leader_epoch: 2,
            leader: 7,
        };
        assert_eq!(follower.leader().err(), Some(PartitionError::NotLeader));
        assert_eq!(
            Role::Stopped { deleted: true }.leader().err(),
            Some(PartitionError::Deleted)
        );
        assert_eq!(
            Role::Stopped { deleted: false }.leader().err(),
            Some(PartitionError::NotLeader)
        );
    }
}
