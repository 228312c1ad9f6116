//! Roles of this broker for a partition. Each role has only the fields it needs.

use std::sync::Arc;

use crate::PartitionError;

/// The current role. A change replaces the whole value.
#[derive(Debug, Clone)]
pub enum Role {
    /// This broker leads: it appends and serves reads.
    Leader(Leader),
    /// This broker hosts the partition, but another broker leads it, or none.
    Follower {
        /// Epoch of the leader.
        leader_epoch: i32,
        /// Broker id of the leader; negative if there is none.
        leader: i32,
    },
    /// The log directory failed, or the log could not be opened.
    Offline {
        /// Last known leader epoch.
        leader_epoch: i32,
        /// The reason, for logs.
        reason: Arc<str>,
    },
    /// The broker no longer hosts the partition.
    Stopped {
        /// Whether the topic was deleted.
        deleted: bool,
    },
}

/// State of a leader.
#[derive(Debug, Clone)]
pub struct Leader {
    /// Epoch of this leadership.
    pub leader_epoch: i32,
    /// In-sync replicas, this broker included.
    pub isr: Arc<[i32]>,
    /// All replicas, preferred leader first.
    pub replicas: Arc<[i32]>,
    /// Version of the partition's state at the controller.
    pub version: i32,
    /// Log end when this leadership began. A follower whose log ends below it lacks records of older leaders.
    pub start_offset: i64,
}

impl Leader {
    /// Return whether the ISR meets `min.insync.replicas`.
    #[must_use]
    pub fn has_enough(&self, required: i32) -> bool {
        // A negative setting requires nothing.
        usize::try_from(required).map_or(true, |required| self.isr.len() >= required)
    }
}

impl Role {
    /// Return the leader's state, or the error if this broker does not lead.
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

    /// Return the known leader epoch, or -1 after the partition was stopped.
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

/// Check the leader epoch of a request (KIP-320) against the current one. A negative value means that the request names
/// none.
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
