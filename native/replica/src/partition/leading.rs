//! The leader's side: appends, commits with the in-sync replicas, and the write fence of a topic that is about to be
//! deleted.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::RwLockReadGuard;
use pybroker_model::{BatchHeader, ProduceRules, TimestampType, ValidBatches};
use pybroker_storage::{
    ActiveProducer, AppendOrigin, AttachResult, FlushMode, HeldFlushes, StorageError,
};

use super::Partition;
use super::refused::IdempotentBatch;
use crate::{
    AppendInfo, Commit, IsrProposal, Leader, PartitionError, Proposal, Role, check_leader_epoch,
};

impl Partition {
    /// Return the topic's current rules for `validate_produce`.
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        self.progress.config().produce_rules(zstd_allowed, now_ms)
    }

    /// Return whether an append would wait longer than `patience` for another writer or a role change.
    pub fn is_busy(&self, patience: Duration) -> bool {
        let changing = self.gate.try_read().is_none() && self.gate.try_read_for(patience).is_none();
        changing || self.log().is_some_and(|log| log.is_busy(patience))
    }

    /// Return [`pybroker_storage::Flusher::running`] of the partition's log directory.
    pub fn running_sync(&self) -> Option<u64> {
        self.hosted.as_ref()?.log_dir.flusher().running()
    }

    /// Append batches of a client, see [`Partition::append_from`].
    ///
    /// # Errors
    /// As [`Partition::append_from`].
    pub fn append(
        &self,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        self.append_from(AppendOrigin::Client, -1, batches, required_acks, now_ms)
    }

    /// Return whether a transactional batch of this producer would begin a transaction in this log.
    pub fn may_begin_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.log()
            .is_some_and(|log| !log.is_in_transaction(producer_id, epoch))
    }

    /// Return the producers that the log knows. Fails if this broker does not lead.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub fn producers(&self) -> Result<Vec<ActiveProducer>, PartitionError> {
        let role = self.progress.role();
        let (_, hosted) = self.led(&role)?;
        Ok(hosted.log.producers())
    }

    /// Return the error for a client whose transaction the coordinator could not confirm. Later batches of the producer
    /// get the same error until the client sends this batch again.
    pub fn unconfirmed(&self, header: &BatchHeader, ending: bool, now_ms: i64) -> PartitionError {
        let error = PartitionError::Unconfirmed { ending };
        match IdempotentBatch::of(header) {
            Some(batch) => self.refused.remember(batch, error, now_ms, &self.progress),
            None => error,
        }
    }

    /// Append as leader. `leader_epoch` is the epoch under which a coordinator loaded its state, or -1 for any. If
    /// `required_acks` is -1, `min.insync.replicas` must be met, and the caller then waits on [`Partition::committed`].
    /// In commit mode the function requests a flush of the batch, or of the original if the batch is a duplicate.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `Deleted`, `NotEnoughReplicas`, `Storage`, and errors of
    /// the producer state. After a batch failed with a retriable error, later batches of its producer fail with the
    /// same error until that batch is appended.
    pub fn append_from(
        &self,
        origin: AppendOrigin,
        leader_epoch: i32,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        let held = &mut HeldFlushes::default();
        self.append_with(origin, leader_epoch, batches, required_acks, now_ms, held)
    }

    /// Like [`Partition::append_from`]; `held` may delay the start of the flush.
    ///
    /// # Errors
    /// As [`Partition::append_from`].
    pub fn append_with(
        &self,
        origin: AppendOrigin,
        leader_epoch: i32,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
        held: &mut HeldFlushes,
    ) -> Result<AppendInfo, PartitionError> {
        let batch = IdempotentBatch::of(batches.first());
        let expects_next = |producer_id, epoch| {
            self.log()
                .is_some_and(|log| log.expects_next(producer_id, epoch))
        };
        if let Some(batch) = batch
            && let Some(refusal) = self.refused.of_earlier(batch, now_ms, expects_next)
        {
            return Err(refusal);
        }
        let appended = self.append_now(origin, leader_epoch, batches, required_acks, now_ms, held);
        match (batch, appended) {
            (Some(batch), Ok(info)) => {
                self.refused.appended(batch);
                Ok(info)
            }
            (Some(batch), Err(error)) => {
                Err(self.refused.remember(batch, error, now_ms, &self.progress))
            }
            (None, appended) => appended,
        }
    }

    fn append_now(
        &self,
        origin: AppendOrigin,
        leader_epoch: i32,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
        held: &mut HeldFlushes,
    ) -> Result<AppendInfo, PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        if self.is_fenced() {
            return Err(PartitionError::NotLeader);
        }
        check_leader_epoch(leader_epoch, leader.leader_epoch)?;
        let step_downs = self.progress.step_downs();
        if required_acks == -1 {
            self.check_isr(leader)?;
        }
        let appended = hosted
            .log
            .append_as_leader(batches, leader.leader_epoch, origin, now_ms)?;
        drop(gate);
        self.progress.log_end.raise(appended.last_offset + 1);
        let config = self.progress.config();
        match config.log.flush_mode {
            FlushMode::Commit => hosted.log_dir.flusher().request_with(&hosted.log, held),
            FlushMode::Os => {
                if hosted.log.unflushed_records() >= config.log.flush_messages {
                    hosted.log_dir.flusher().request(&hosted.log);
                }
                self.progress.advance(&hosted.log);
            }
        }
        Ok(AppendInfo {
            base_offset: appended.base_offset,
            last_offset: appended.last_offset,
            log_append_time: appended.log_append_time,
            log_start_offset: appended.log_start_offset,
            step_downs,
        })
    }

    /// Attach the staged records that the plan of the ingest's commit lists for this partition, as leader; durable here
    /// on return. Followers with the same staged files attach them at the same offsets. Blocks on the disk.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`: the caller can retry. `Missing` means that this broker does not have the plan
    /// and will never get it.
    pub fn attach(
        &self,
        directory: &str,
        plan: u32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<AttachResult, PartitionError> {
        let gate = self.gate.read();
        let role = self.progress.role();
        let (leader, hosted) = self.led(&role)?;
        if self.is_fenced() {
            return Err(PartitionError::NotLeader);
        }
        let place = hosted
            .log_dir
            .staged_partition(self.tip, directory)
            .with_plan(plan);
        if !hosted.log_dir.has_plan(&place)? {
            return Err(PartitionError::Missing);
        }
        let attached = hosted.log.attach_and_announce(
            &place,
            leader.leader_epoch,
            timestamps,
            now_ms,
            copy_bytes_max,
            &|told| self.attaches.announce(directory, told),
        )?;
        drop(gate);
        self.progress.log_end.raise(hosted.log.log_end_offset());
        self.progress.advance(&hosted.log);
        Ok(attached)
    }

    /// Stop announcing the ingest. Followers that have not attached it then copy its records. `left` means that the
    /// ingest's files are still on disk.
    pub(crate) fn forget_attach(&self, directory: &str, left: bool) {
        if left {
            self.attaches.end(directory);
        } else {
            self.attaches.announce(directory, None);
        }
    }

    /// Return a guard that keeps the partition's role and log directory unchanged while the broker hosts it.
    ///
    /// # Errors
    /// `NotLeader` if it is stopped, `Deleted`, `Storage`.
    pub(crate) fn hold_hosted(&self) -> Result<RwLockReadGuard<'_, ()>, PartitionError> {
        let gate = self.gate.read();
        match &**self.progress.role() {
            Role::Leader(_) | Role::Follower { .. } => Ok(gate),
            role => Err(role.leader().err().unwrap_or(PartitionError::NotLeader)),
        }
    }

    /// Return the other brokers that are, or may be, in the ISR. Fails if `min.insync.replicas` is not met.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`, `NotEnoughReplicas`.
    pub(crate) fn in_sync_followers(&self) -> Result<Vec<i32>, PartitionError> {
        let role = self.progress.role();
        let (leader, _) = self.led(&role)?;
        self.check_isr(leader)?;
        // A joining replica counts from the moment it is proposed.
        let mut others = self.progress.maximal_isr();
        others.retain(|&broker| broker != self.broker_id);
        Ok(others)
    }

    /// Return a guard that keeps the partition's role and log directory unchanged while this broker leads it. Without
    /// the guard, a move to another log directory could miss staged records.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub(crate) fn hold_led(&self) -> Result<RwLockReadGuard<'_, ()>, PartitionError> {
        let gate = self.gate.read();
        self.check_led()?;
        Ok(gate)
    }

    /// Check that this broker leads the partition, so that it may stage or attach records.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub fn check_led(&self) -> Result<(), PartitionError> {
        self.led(&self.progress.role()).map(|_| ())
    }

    /// Return a future for the commit of `appended`. It is ready once the high watermark is above its last offset, or
    /// with the reason why that will never happen. Dropping the future removes the waiter.
    pub fn committed(&self, appended: &AppendInfo) -> Commit {
        Commit::new(
            Arc::clone(&self.progress),
            appended.last_offset,
            appended.step_downs,
        )
    }

    /// Return a future for the commit of all current records if only this broker's flush is missing, otherwise `None`.
    /// Only after that flush do consumers see records that were acknowledged with acks=1.
    pub fn flush_under_way(&self) -> Option<Commit> {
        let step_downs = self.progress.step_downs();
        let end = self.progress.after_flush(self.log()?)?;
        Some(Commit::new(Arc::clone(&self.progress), end - 1, step_downs))
    }

    /// Set or clear the write fence, which refuses appends with `NotLeader` (retriable). On return no append is
    /// running, and the log end stays constant while the fence is set.
    pub fn set_fenced(&self, fenced: bool) {
        self.fenced.store(fenced, Ordering::Release);
        drop(self.gate.write());
    }

    /// Return whether the write fence is set. Check it while holding `gate`.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Raise the log start to `offset`, or to the high watermark for -1. Return the new log start. Blocks on the disk.
    ///
    /// # Errors
    /// As [`Partition::read`], and `Policy` if the topic is compacted only.
    pub fn delete_records(&self, offset: i64) -> Result<i64, PartitionError> {
        let role = self.progress.role();
        let (_, hosted) = self.led(&role)?;
        let policy = self.progress.config().log.cleanup_policy;
        if policy.compact && !policy.delete {
            return Err(PartitionError::Policy(
                "records of a compacted topic cannot be deleted",
            ));
        }
        let high_watermark = self.progress.high_watermark.get();
        let offset = if offset == -1 { high_watermark } else { offset };
        let log_start = hosted.log.delete_records(offset, high_watermark)?;
        self.progress.log_start_raised(&hosted.log);
        Ok(log_start)
    }

    /// Remove segments by age and size, as leader; see [`pybroker_storage::Log::apply_retention`].
    ///
    /// # Errors
    /// As [`pybroker_storage::Log::apply_retention`].
    pub(crate) fn apply_retention(&self, now_ms: i64) -> Result<(), StorageError> {
        let role = self.progress.role();
        let Ok((_, hosted)) = self.led(&role) else {
            return Ok(());
        };
        let retained = hosted.log.apply_retention(self.high_watermark(), now_ms)?;
        if retained.segments > 0 {
            self.progress.log_start_raised(&hosted.log);
        }
        Ok(())
    }

    /// Propose to remove followers from the ISR that have been behind for longer than `lag_max`.
    pub(crate) fn judge_followers(&self, now: Instant, lag_max: Duration) {
        if let Some(log) = self.log()
            && let Some((leader_epoch, proposal)) = self.progress.shrink(log, now, lag_max)
        {
            self.propose(leader_epoch, proposal);
        }
    }

    pub(super) fn propose(&self, leader_epoch: i32, proposal: Proposal) {
        self.proposals.put(IsrProposal {
            tip: self.tip,
            leader_epoch,
            proposal,
        });
    }

    /// Apply an ISR that the controller has written for the leadership of `leader_epoch`.
    pub fn set_isr(&self, leader_epoch: i32, isr: &[i32], version: i32) {
        if let Some(log) = self.log() {
            self.progress.set_isr(leader_epoch, isr, version, log);
        }
    }

    /// Drop a proposal for this version: the controller refused it and will not write it later.
    pub fn isr_refused(&self, leader_epoch: i32, version: i32) {
        if let Some(log) = self.log() {
            self.progress.isr_refused(leader_epoch, version, log);
        }
    }

    fn check_isr(&self, leader: &Leader) -> Result<(), PartitionError> {
        let required = self.progress.config().min_insync_replicas;
        if leader.has_enough(required) {
            Ok(())
        } else {
            Err(PartitionError::NotEnoughReplicas {
                isr: leader.isr.len(),
                required,
            })
        }
    }
}
