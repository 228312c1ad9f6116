//! Progress of a partition (role, high watermark, ISR) and the tasks that wait for it. The partition, the log's flush
//! callback and waiting Produce requests share this object. It owns neither the log nor its directory, so dropping the
//! last reference closes no files.

use std::sync::Arc;
use std::sync::atomic::{AtomicI64, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pybroker_storage::{FlushMode, Log, WakerBatch};

use crate::{Leader, PartitionError, Role, TopicConfig, check_leader_epoch};
use in_sync::{Claim, InSync};

mod commit;
mod flush_waiter;
mod in_sync;
mod proposals;
mod waiting;

pub use commit::Commit;
use flush_waiter::FlushWaiter;
pub use in_sync::{Member, Proposal};
pub use proposals::{IsrProposal, Proposals};
pub use waiting::{Registration, WatchedOffset};

/// The sender of a replica fetch.
#[derive(Debug, Clone, Copy)]
pub struct Follower {
    /// The follower's broker id.
    pub broker: i32,
    /// The follower's broker epoch (KIP-903), or -1 if the request has none.
    pub broker_epoch: i64,
    /// Arrival time of the request. It stays the same each time the request is evaluated again.
    pub received: Instant,
}

#[derive(Debug)]
pub(crate) struct Progress {
    role: ArcSwap<Role>,
    config: ArcSwap<TopicConfig>,
    /// Progress of the followers, if this broker leads. The leader's own end comes from the log. The lock orders
    /// changes of role, settings and high watermark.
    led: Mutex<Option<InSync>>,
    /// How often this broker has stopped leading; changed under `led`. While it is unchanged, an offset still names the
    /// same record. Afterwards the log may have been truncated, because the broker was a follower.
    step_downs: AtomicU64,
    /// The high watermark when this broker last stopped leading.
    committed_by_me: AtomicI64,
    /// Number of fetch requests from followers.
    requests: AtomicU64,
    pub(crate) high_watermark: Arc<WatchedOffset>,
    pub(crate) last_stable: Arc<WatchedOffset>,
    /// The end of the records that followers may read.
    pub(crate) log_end: Arc<WatchedOffset>,
    /// The waiting fetcher, if this broker is a follower.
    pub(crate) flush_waiter: FlushWaiter,
}

impl Progress {
    pub(crate) fn new(role: Role, config: Arc<TopicConfig>, high_watermark: i64) -> Self {
        Self {
            role: ArcSwap::from_pointee(role),
            config: ArcSwap::new(config),
            led: Mutex::new(None),
            step_downs: AtomicU64::new(0),
            committed_by_me: AtomicI64::new(high_watermark),
            requests: AtomicU64::new(0),
            high_watermark: Arc::new(WatchedOffset::new(high_watermark)),
            last_stable: Arc::new(WatchedOffset::new(high_watermark)),
            log_end: Arc::new(WatchedOffset::new(high_watermark)),
            flush_waiter: FlushWaiter::default(),
        }
    }

    pub(crate) fn role(&self) -> Guard<Arc<Role>> {
        self.role.load()
    }

    pub(crate) fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.config.load()
    }

    /// Use the settings if they are newer. Return the settings that are then current.
    pub(crate) fn set_config(&self, config: &Arc<TopicConfig>) -> Arc<TopicConfig> {
        // The lock orders concurrent calls, so that the newest settings stay.
        let _one = self.led.lock();
        if config.sequence >= self.config.load().sequence {
            self.config.store(Arc::clone(config));
        }
        self.config.load_full()
    }

    /// Return the log end that this replica may claim: the flushed end in commit mode, else the log end.
    fn local_end(&self, log: &Log) -> i64 {
        match self.config.load().log.flush_mode {
            FlushMode::Commit => log.flushed_end_offset(),
            FlushMode::Os => log.log_end_offset(),
        }
    }

    /// As leader, raise the high watermark to the smallest log end in the ISR. Called after each flush (commit mode) or
    /// append (os mode). Does nothing on a follower.
    pub(crate) fn advance(&self, log: &Log) {
        self.advance_with(log, &mut WakerBatch::default());
    }

    /// Like `advance`, but the waiters wake up when `woken` is dropped.
    pub(crate) fn advance_with(&self, log: &Log, woken: &mut WakerBatch) {
        let local = self.local_end(log);
        let led = self.led.lock();
        if let Some(minimum) = led.as_ref().and_then(|ends| ends.minimum(local)) {
            self.raise_to(minimum, log, woken);
        }
    }

    /// Return the high watermark that a flush of only this log would give, if it is higher than the current one.
    pub(crate) fn after_flush(&self, log: &Log) -> Option<i64> {
        let (end, now) = (log.log_end_offset(), self.high_watermark.get());
        if end <= now {
            return None;
        }
        let led = self.led.lock();
        let committed = led.as_ref()?.minimum(end)?;
        (committed > now).then_some(committed)
    }

    /// Update the last stable offset after the log start was raised, perhaps into an open transaction.
    pub(crate) fn log_start_raised(&self, log: &Log) {
        let _one = self.led.lock();
        let stable = log.last_stable_offset(self.high_watermark.get());
        self.last_stable.raise(stable);
    }

    /// Raise the high watermark and collect its waiters.
    fn raise_to(&self, high_watermark: i64, log: &Log, woken: &mut WakerBatch) {
        // Raise the last stable offset first, so that a producer whose records are acknowledged finds both raised.
        self.last_stable
            .raise_with(log.last_stable_offset(high_watermark), woken);
        self.high_watermark.raise_with(high_watermark, woken);
    }

    /// Record a follower's claim, under `leader_epoch`, that it has all records below `end`. Raise the high watermark.
    /// If the follower has caught up, propose to add it to the ISR; if it lost records, propose to remove it.
    pub(crate) fn claimed(
        &self,
        log: &Log,
        follower: Follower,
        leader_epoch: i32,
        end: i64,
        now: Instant,
    ) -> Result<Option<Proposal>, PartitionError> {
        let local = self.local_end(log);
        let mut led = self.led.lock();
        let role = self.role.load();
        let leader = role.leader()?;
        check_leader_epoch(leader_epoch, leader.leader_epoch)?;
        let in_sync = led.as_mut().ok_or(PartitionError::NotLeader)?;
        let (broker, epoch) = (follower.broker, follower.broker_epoch);
        match in_sync.fetched(broker, epoch, end, log.log_end_offset(), now) {
            Claim::Noted => {
                let number = self.requests.fetch_add(1, Ordering::Relaxed) + 1;
                in_sync.came(broker, follower.received, number);
            }
            Claim::Stranger => return Err(PartitionError::NotLeader),
            Claim::Stale => return Err(PartitionError::StaleBrokerEpoch { broker, epoch }),
        }
        if let Some(minimum) = in_sync.minimum(local) {
            self.raise_to(minimum, log, &mut WakerBatch::default());
        }
        let watermark = self.high_watermark.get();
        Ok(in_sync
            .without_who_lost(broker, watermark)
            .or_else(|| in_sync.expand(broker, watermark, leader.start_offset)))
    }

    /// Return the number of the last follower request, for [`Progress::is_followed_since`].
    pub(crate) fn requests(&self) -> u64 {
        self.requests.load(Ordering::Relaxed)
    }

    /// Return whether all in-sync replicas have sent a fetch since the request with this number, which proves that no
    /// other broker led until then.
    pub(crate) fn is_followed_since(&self, number: u64) -> bool {
        let led = self.led.lock();
        led.as_ref()
            .is_some_and(|in_sync| in_sync.all_came_since(number))
    }

    /// Return all brokers that are, or may be, in the ISR, including the leader. Empty if this broker does not lead.
    pub(crate) fn maximal_isr(&self) -> Vec<i32> {
        let led = self.led.lock();
        led.as_ref().map_or_else(Vec::new, InSync::maximal)
    }

    /// Return the most advanced in-sync follower for which `wanted` holds and that has all records below `offset`.
    pub(crate) fn most_advanced(&self, offset: i64, wanted: impl Fn(i32) -> bool) -> Option<i32> {
        self.led.lock().as_ref()?.most_advanced(offset, wanted)
    }

    /// Record that a follower receives records from `offset`. Return whether it received them before and fetches them
    /// again.
    pub(crate) fn gives(&self, broker: i32, offset: i64) -> bool {
        let mut led = self.led.lock();
        led.as_mut()
            .is_some_and(|known| known.gives(broker, offset))
    }

    /// Propose to remove followers that have been behind for too long.
    pub(crate) fn shrink(
        &self,
        log: &Log,
        now: Instant,
        lag_max: Duration,
    ) -> Option<(i32, Proposal)> {
        let mut led = self.led.lock();
        let proposal = led.as_mut()?.shrink(log.log_end_offset(), now, lag_max)?;
        Some((self.role.load().leader_epoch(), proposal))
    }

    /// Apply an ISR that the controller has written for the leadership of `leader_epoch`.
    pub(crate) fn set_isr(&self, leader_epoch: i32, isr: &[i32], version: i32, log: &Log) {
        let mut led = self.led.lock();
        let role = self.role.load_full();
        if let (Role::Leader(leader), Some(in_sync)) = (&*role, led.as_mut())
            && leader.leader_epoch == leader_epoch
            && in_sync.written(isr, version)
        {
            self.role.store(Arc::new(Role::Leader(Leader {
                isr: Arc::from(isr),
                version,
                ..leader.clone()
            })));
            drop(led);
            self.advance(log);
            self.wake_all();
        }
    }

    /// Drop a proposal for this version, which the controller refused and will not write later. The replica that it
    /// would have added no longer counts.
    pub(crate) fn isr_refused(&self, leader_epoch: i32, version: i32, log: &Log) {
        let mut led = self.led.lock();
        if let (Role::Leader(leader), Some(in_sync)) = (&**self.role.load(), led.as_mut())
            && leader.leader_epoch == leader_epoch
        {
            in_sync.refused(version);
            drop(led);
            self.advance(log);
        }
    }

    /// Begin to lead, or continue to lead with a changed ISR or changed replicas.
    pub(crate) fn lead(&self, broker_id: i32, leader: Leader, log: &Log, now: Instant) {
        let local = self.local_end(log);
        let mut led = self.led.lock();
        let goes_on = matches!(&**self.role.load(), Role::Leader(before) if before.leader_epoch == leader.leader_epoch);
        match led.as_mut() {
            Some(in_sync) if goes_on => {
                in_sync.set_replicas(&leader.replicas);
                in_sync.written(&leader.isr, leader.version);
            }
            _ => {
                *led = Some(InSync::new(
                    broker_id,
                    &leader.replicas,
                    &leader.isr,
                    leader.version,
                    now,
                ));
            }
        }
        // A leader that is the only member of the ISR knows its high watermark before the first client request.
        if let Some(minimum) = led.as_ref().and_then(|ends| ends.minimum(local)) {
            self.raise_to(minimum, log, &mut WakerBatch::default());
        }
        self.role.store(Arc::new(Role::Leader(leader)));
        drop(led);
        self.log_end.set(log.log_end_offset());
        self.wake_all();
    }

    /// As follower, raise the high watermark to the leader's, limited to this replica's `local_end`.
    pub(crate) fn follow_high_watermark(&self, high_watermark: i64, log: &Log) {
        let led = self.led.lock();
        if led.is_none() {
            let high_watermark = high_watermark.min(self.local_end(log));
            self.raise_to(high_watermark, log, &mut WakerBatch::default());
        }
    }

    /// As follower, lower the high watermark after a truncation to `end`. Only an unclean election leads to a
    /// truncation of committed records.
    pub(crate) fn cut_to(&self, end: i64) {
        let _one = self.led.lock();
        if self.high_watermark.get() > end {
            self.last_stable.set(self.last_stable.get().min(end));
            self.high_watermark.set(end);
        }
    }

    /// Stop leading.
    pub(crate) fn step_down(&self, role: Role) {
        let mut led = self.led.lock();
        if led.take().is_some() {
            self.committed_by_me
                .store(self.high_watermark.get(), Ordering::Relaxed);
            self.step_downs.fetch_add(1, Ordering::Release);
        }
        self.role.store(Arc::new(role));
        drop(led);
        self.wake_all();
    }

    /// Wake all waiters, so that they check whether they must still wait.
    fn wake_all(&self) {
        self.high_watermark.wake_all();
        self.last_stable.wake_all();
        self.log_end.wake_all();
        self.flush_waiter.wake();
    }

    /// Return how often this broker has stopped leading, for [`Progress::check_committed`].
    pub(crate) fn step_downs(&self) -> u64 {
        self.step_downs.load(Ordering::Acquire)
    }

    /// Return whether `last_offset`, which this broker appended as leader when `step_downs` had this value, is
    /// committed. `Ok(false)` means not yet.
    pub(crate) fn check_committed(
        &self,
        last_offset: i64,
        step_downs: u64,
    ) -> Result<bool, PartitionError> {
        // Read the high watermark first. The check below then proves that it belongs to this leadership.
        let high_watermark = self.high_watermark.get();
        if self.step_downs() != step_downs {
            return self.check_committed_before(last_offset, step_downs);
        }
        if high_watermark <= last_offset {
            self.role.load().leader()?;
            return Ok(false);
        }
        if let Ok(leader) = self.role.load().leader() {
            let required = self.config.load().min_insync_replicas;
            if !leader.has_enough(required) {
                return Err(PartitionError::NotEnoughReplicasAfterAppend {
                    isr: leader.isr.len(),
                    required,
                });
            }
        }
        Ok(true)
    }

    /// Like `check_committed`, after this broker stopped leading. Records committed before that stay committed. The
    /// state of later records is unknown, because other records may now be at their offsets.
    fn check_committed_before(
        &self,
        last_offset: i64,
        step_downs: u64,
    ) -> Result<bool, PartitionError> {
        let led = self.led.lock();
        let last_time = self.step_downs() == step_downs + 1;
        let committed = self.committed_by_me.load(Ordering::Relaxed);
        drop(led);
        if last_time && last_offset < committed {
            return Ok(true);
        }
        let role = self.role.load();
        Err(role.leader().err().unwrap_or(PartitionError::NotLeader))
    }
}
