//! What a leader does: takes appends, commits them with its in-sync replicas, refuses them while its topic is about to
//! go.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use parking_lot::RwLockReadGuard;
use pybroker_model::{BatchHeader, ProduceRules, TimestampType, ValidBatches};
use pybroker_storage::{
    ActiveProducer, AppendOrigin, Attached, FlushMode, HeldFlushes, StorageError,
};

use super::Partition;
use super::refused::Sequenced;
use crate::{
    AppendInfo, Commit, IsrProposal, Leader, PartitionError, Proposal, Role, check_leader_epoch,
};

impl Partition {
    /// What `validate_produce` must check for this topic, now.
    pub fn produce_rules(&self, zstd_allowed: bool, now_ms: i64) -> ProduceRules {
        self.progress.config().produce_rules(zstd_allowed, now_ms)
    }

    /// Whether an append would wait longer than `patience` for somebody who writes to the log or changes the role.
    pub fn is_busy(&self, patience: Duration) -> bool {
        let changing = self.gate.try_read().is_none() && self.gate.try_read_for(patience).is_none();
        changing || self.log().is_some_and(|log| log.is_busy(patience))
    }

    /// [`pybroker_storage::Flusher::running`] of its log directory.
    pub fn running_sync(&self) -> Option<u64> {
        self.hosted.as_ref()?.log_dir.flusher().running()
    }

    /// Appends what a client sent, see [`Partition::append_from`].
    ///
    /// # Errors
    /// As there.
    pub fn append(
        &self,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
    ) -> Result<AppendInfo, PartitionError> {
        self.append_from(AppendOrigin::Client, -1, batches, required_acks, now_ms)
    }

    /// Whether a transactional batch of this producer would begin a transaction here, as leader.
    pub fn may_begin_transaction(&self, producer_id: i64, epoch: i16) -> bool {
        self.log()
            .is_some_and(|log| !log.is_in_transaction(producer_id, epoch))
    }

    /// The producers that its log knows, as leader.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub fn producers(&self) -> Result<Vec<ActiveProducer>, PartitionError> {
        let role = self.progress.role();
        let (_, hosted) = self.led(&role)?;
        Ok(hosted.log.producers())
    }

    /// What a client is told whose transaction's coordinator could not confirm it now. Batches behind this one hear the
    /// same until it has come again.
    pub fn unconfirmed(&self, header: &BatchHeader, ending: bool, now_ms: i64) -> PartitionError {
        let error = PartitionError::Unconfirmed { ending };
        match Sequenced::of(header) {
            Some(batch) => self.refused.told(batch, error, now_ms, &self.progress),
            None => error,
        }
    }

    /// Appends as leader. `leader_epoch`: the one under which a coordinator has loaded what it writes upon, -1: any.
    /// `required_acks` -1 asks for `min.insync.replicas`; the caller then waits on
    /// [`Partition::committed`]. Schedules the flush of commit mode, for a duplicate that of its original.
    ///
    /// # Errors
    /// `NotLeader`, `FencedLeaderEpoch`, `UnknownLeaderEpoch`, `Deleted`, `NotEnoughReplicas`, `Storage`, and what the
    /// producer state refuses; a batch behind one that was refused for now hears the same as that.
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

    /// As [`Partition::append_from`]; the flush may begin as late as `held` says.
    ///
    /// # Errors
    /// As there.
    pub fn append_with(
        &self,
        origin: AppendOrigin,
        leader_epoch: i32,
        batches: ValidBatches<'_>,
        required_acks: i16,
        now_ms: i64,
        held: &mut HeldFlushes,
    ) -> Result<AppendInfo, PartitionError> {
        let sequenced = Sequenced::of(batches.first());
        let expects_next = |producer_id, epoch| {
            self.log()
                .is_some_and(|log| log.expects_next(producer_id, epoch))
        };
        if let Some(batch) = sequenced
            && let Some(refusal) = self.refused.of_earlier(batch, now_ms, expects_next)
        {
            return Err(refusal);
        }
        let appended = self.append_now(origin, leader_epoch, batches, required_acks, now_ms, held);
        match (sequenced, appended) {
            (Some(batch), Ok(info)) => {
                self.refused.appended(batch);
                Ok(info)
            }
            (Some(batch), Err(error)) => {
                Err(self.refused.told(batch, error, now_ms, &self.progress))
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

    /// Attaches what an ingest has staged for this partition and its commit lists in that plan, as leader; on disk here
    /// when it returns. Followers that have it staged hear where. Blocks on the disk.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`; it can be tried again. `Missing`: it never will be here.
    pub fn attach(
        &self,
        directory: &str,
        plan: u32,
        timestamps: TimestampType,
        now_ms: i64,
        copy_bytes_max: u64,
    ) -> Result<Attached, PartitionError> {
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

    /// The ingest is over: whoever has not attached it copies its records. `left`: its files still lie there.
    pub(crate) fn forget_attach(&self, directory: &str, left: bool) {
        if left {
            self.attaches.end(directory);
        } else {
            self.attaches.announce(directory, None);
        }
    }

    /// Holds the partition as it is hosted here: neither its role nor its log directory changes until the guard is
    /// dropped.
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

    /// The other brokers that are, or may be, in sync, of a leader that has enough of them.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`, `NotEnoughReplicas`.
    pub(crate) fn in_sync_followers(&self) -> Result<Vec<i32>, PartitionError> {
        let role = self.progress.role();
        let (leader, _) = self.led(&role)?;
        self.check_isr(leader)?;
        // Who is to join counts from the moment it is asked for.
        let mut others = self.progress.maximal_isr();
        others.retain(|&broker| broker != self.broker_id);
        Ok(others)
    }

    /// Holds the partition as it is led here: neither its role nor its log directory changes until the guard is
    /// dropped. Moves rely on it, which must see what is staged beside the log.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub(crate) fn hold_led(&self) -> Result<RwLockReadGuard<'_, ()>, PartitionError> {
        let gate = self.gate.read();
        self.check_led()?;
        Ok(gate)
    }

    /// Whether it is led here, so that records may be staged for it or attached.
    ///
    /// # Errors
    /// `NotLeader`, `Deleted`, `Storage`.
    pub fn check_led(&self) -> Result<(), PartitionError> {
        self.led(&self.progress.role()).map(|_| ())
    }

    /// Ready once `appended` is committed (high watermark above its last offset), or with the reason why it never
    /// will be. A plain future; dropping it takes the waiter out.
    pub fn committed(&self, appended: &AppendInfo) -> Commit {
        Commit::new(
            Arc::clone(&self.progress),
            appended.last_offset,
            appended.step_downs,
        )
    }

    /// Ready once what is appended now is committed, as far as only this broker's flush is missing; `None` if none is.
    /// Records acknowledged with acks=1 are on their way to the disk then, and shown when they are there.
    pub fn flush_under_way(&self) -> Option<Commit> {
        let step_downs = self.progress.step_downs();
        let end = self.progress.after_flush(self.log()?)?;
        Some(Commit::new(Arc::clone(&self.progress), end - 1, step_downs))
    }

    /// Refuses appends (`NotLeader`, which clients try again) from now on, or takes them again. When it returns no
    /// append is under way: the log's end stays where it is while the partition is fenced.
    pub fn set_fenced(&self, fenced: bool) {
        self.fenced.store(fenced, Ordering::Release);
        drop(self.gate.write());
    }

    /// Whether appends are refused because the topic is about to be deleted. Look at it while holding what keeps the
    /// append and the role together.
    pub(crate) fn is_fenced(&self) -> bool {
        self.fenced.load(Ordering::Acquire)
    }

    /// Moves the log start up to `offset`, -1: to the high watermark. Gives the new log start. Blocks on the disk.
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

    /// Removes segments by time and size, as leader; see [`pybroker_storage::Log::apply_retention`].
    ///
    /// # Errors
    /// As there.
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

    /// Proposes to go on without followers that have been behind for longer than `lag_max`.
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

    /// The controller has written this ISR for the leadership of `leader_epoch`.
    pub fn set_isr(&self, leader_epoch: i32, isr: &[i32], version: i32) {
        if let Some(log) = self.log() {
            self.progress.set_isr(leader_epoch, isr, version, log);
        }
    }

    /// The controller has refused what was proposed for this version, and will not write it later.
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
