//! Taking a role and giving it up, with no append under way: all of it holds the gate for writing.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Partition;
use crate::{Leader, PartitionError, Role};

impl Partition {
    /// Takes the leadership of `leader.leader_epoch`. The epoch is in the log's epoch cache, durably, before any
    /// record can be appended under it.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch than the current; `Storage`.
    pub(crate) fn become_leader(
        &self,
        mut leader: Leader,
        now: Instant,
    ) -> Result<(), PartitionError> {
        let gate = self.gate.write();
        let Some(hosted) = &self.hosted else {
            let role = self.progress.role();
            return Err(role.leader().err().unwrap_or(PartitionError::NotLeader));
        };
        let current = self.progress.role().leader_epoch();
        if leader.leader_epoch < current {
            return Err(PartitionError::FencedLeaderEpoch {
                requested: leader.leader_epoch,
                current,
            });
        }
        if leader.leader_epoch > current {
            // What older leaders attached, and followers may not have yet.
            self.attaches
                .set(hosted.log.attached(hosted.log_dir.path())?);
            hosted.log.begin_epoch(leader.leader_epoch)?;
        }
        leader.start_offset = match &**self.progress.role() {
            Role::Leader(before) if before.leader_epoch == leader.leader_epoch => {
                before.start_offset
            }
            _ => hosted.log.log_end_offset(),
        };
        self.progress.lead(self.broker_id, leader, &hosted.log, now);
        drop(gate);
        self.progress.advance(&hosted.log);
        Ok(())
    }

    /// Follows `leader` from now on.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` for an older epoch than the current.
    pub(crate) fn follow(&self, leader: i32, leader_epoch: i32) -> Result<(), PartitionError> {
        let role = self.progress.role();
        let current = role.leader_epoch();
        if leader_epoch < current {
            return Err(PartitionError::FencedLeaderEpoch {
                requested: leader_epoch,
                current,
            });
        }
        if let Role::Offline { reason, .. } = &**role {
            return Err(PartitionError::Storage(Arc::clone(reason)));
        }
        self.step_down(Role::Follower {
            leader_epoch,
            leader,
        });
        Ok(())
    }

    /// Whether it is not to lead though it was ordered to: records were damaged when its log was opened, and another
    /// replica may have them. Said once: who is asked again is the best that there is.
    pub(crate) fn declines_to_lead(&self, isr: &[i32]) -> bool {
        let damaged = self.log().is_some_and(|log| log.lost_from().is_some());
        damaged && isr.len() > 1 && !self.declined.swap(true, Ordering::AcqRel)
    }

    /// Its log directory failed.
    pub(crate) fn go_offline(&self, reason: &Arc<str>) {
        let leader_epoch = self.leader_epoch();
        self.step_down(Role::Offline {
            leader_epoch,
            reason: Arc::clone(reason),
        });
    }

    /// Its data is damaged: others are to lead, and this replica serves nothing before it is opened anew.
    pub(super) fn give_up(&self, reason: &str) {
        self.go_offline(&Arc::from(reason));
        self.proposals.give_up(self.tip);
    }

    /// Leads no more: `role` says what it is now. After it no append takes effect; those who wait are told.
    pub(crate) fn step_down(&self, role: Role) {
        let gate = self.gate.write();
        self.progress.step_down(role);
        drop(gate);
    }

    /// Takes the place of a partition with this role.
    ///
    /// # Errors
    /// As [`Partition::become_leader`] and [`Partition::follow`].
    pub(crate) fn take_role(&self, role: &Role, now: Instant) -> Result<(), PartitionError> {
        match role {
            Role::Leader(leader) => self.become_leader(leader.clone(), now),
            Role::Follower {
                leader_epoch,
                leader,
            } => self.follow(*leader, *leader_epoch),
            Role::Offline { .. } | Role::Stopped { .. } => Ok(()),
        }
    }

    /// Lets another take its place: `work` runs with appends held, and gets the role that the other takes on. After
    /// it this one leads no more; if `work` fails it goes on as it was.
    pub(crate) fn hand_over<T, E>(&self, work: impl FnOnce(&Role) -> Result<T, E>) -> Result<T, E> {
        let gate = self.gate.write();
        let role = self.progress.role();
        let done = work(&role)?;
        self.progress.step_down(Role::Stopped { deleted: false });
        drop(gate);
        Ok(done)
    }
}
