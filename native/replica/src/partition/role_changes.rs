//! Role changes. Each holds the gate for writing, so that no append is running.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Instant;

use super::Partition;
use crate::{Leader, PartitionError, Role};

impl Partition {
    /// Take the leadership of `leader.leader_epoch`. Its epoch is durable in the log's epoch cache before any record is
    /// appended under it.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` if the epoch is older than the current one; `Storage` if the disk fails.
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
            // Announce the ingests that earlier leaders attached and that followers may lack.
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

    /// Follow `leader`.
    ///
    /// # Errors
    /// `FencedLeaderEpoch` if the epoch is older than the current one.
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

    /// Return whether this replica declines the leadership because records were damaged when its log was opened and
    /// another replica may have them. It declines only once: a second order means that there is no better replica.
    pub(crate) fn declines_to_lead(&self, isr: &[i32]) -> bool {
        let damaged = self.log().is_some_and(|log| log.lost_from().is_some());
        damaged && isr.len() > 1 && !self.declined.swap(true, Ordering::AcqRel)
    }

    /// Go offline because the log directory failed.
    pub(crate) fn go_offline(&self, reason: &Arc<str>) {
        let leader_epoch = self.leader_epoch();
        self.step_down(Role::Offline {
            leader_epoch,
            reason: Arc::clone(reason),
        });
    }

    /// Go offline because the data is damaged, so that another replica becomes leader. This replica serves no requests
    /// until its log is opened again.
    pub(super) fn give_up(&self, reason: &str) {
        self.go_offline(&Arc::from(reason));
        self.proposals.give_up(self.tip);
    }

    /// Stop leading and take `role`. Afterwards no append takes effect; waiters are woken.
    pub(crate) fn step_down(&self, role: Role) {
        let gate = self.gate.write();
        self.progress.step_down(role);
        drop(gate);
    }

    /// Take over the role of another instance of this partition.
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

    /// Hand the partition over to another instance. `work` runs while appends are blocked, and receives the role for
    /// that instance. Afterwards this instance no longer leads; if `work` fails, it keeps its role.
    pub(crate) fn hand_over<T, E>(&self, work: impl FnOnce(&Role) -> Result<T, E>) -> Result<T, E> {
        let gate = self.gate.write();
        let role = self.progress.role();
        let done = work(&role)?;
        self.progress.step_down(Role::Stopped { deleted: false });
        drop(gate);
        Ok(done)
    }
}
