//! How far a partition is committed, and who must be told. Shared by the partition, the log's flush callback and
//! waiting produces; it owns neither the log nor its directory, so that whoever holds it last closes nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pybroker_storage::{FlushMode, Log};

use crate::{Leader, PartitionError, Role, TopicConfig};
use replica_ends::ReplicaEnds;

mod commit;
mod replica_ends;
mod waiting;

pub use commit::Commit;
pub use waiting::{Registration, Watched};

#[derive(Debug)]
pub(crate) struct Progress {
    role: ArcSwap<Role>,
    config: ArcSwap<TopicConfig>,
    /// Of a leader: what the ISR has; its own end is asked of the log. The lock orders changes of role, settings and
    /// watermark.
    led: Mutex<Option<ReplicaEnds>>,
    pub(crate) high_watermark: Arc<Watched>,
    pub(crate) last_stable: Arc<Watched>,
    /// How far followers may read.
    pub(crate) log_end: Arc<Watched>,
}

impl Progress {
    pub(crate) fn new(role: Role, config: Arc<TopicConfig>, high_watermark: i64) -> Self {
        Self {
            role: ArcSwap::from_pointee(role),
            config: ArcSwap::new(config),
            led: Mutex::new(None),
            high_watermark: Arc::new(Watched::new(high_watermark)),
            last_stable: Arc::new(Watched::new(high_watermark)),
            log_end: Arc::new(Watched::new(high_watermark)),
        }
    }

    pub(crate) fn role(&self) -> Guard<Arc<Role>> {
        self.role.load()
    }

    pub(crate) fn config(&self) -> Guard<Arc<TopicConfig>> {
        self.config.load()
    }

    /// Takes newer settings; gives those in force.
    pub(crate) fn set_config(&self, config: &Arc<TopicConfig>) -> Arc<TopicConfig> {
        // One at a time, so that the newest stays.
        let _one = self.led.lock();
        if config.sequence >= self.config.load().sequence {
            self.config.store(Arc::clone(config));
        }
        self.config.load_full()
    }

    /// What of the log is safe here, so that this replica counts for it.
    fn local_end(&self, log: &Log) -> i64 {
        match self.config.load().log.flush_mode {
            FlushMode::Commit => log.flushed_end_offset(),
            FlushMode::Os => log.log_end_offset(),
        }
    }

    /// As leader: raises the high watermark to what the ISR has. Called after each flush (commit mode) or append (os
    /// mode); harmless for who does not lead.
    pub(crate) fn advance(&self, log: &Log) {
        let local = self.local_end(log);
        let led = self.led.lock();
        if let Some(minimum) = led.as_ref().and_then(|ends| ends.minimum(local)) {
            self.raise_to(minimum, log);
        }
    }

    /// The high watermark is at least `high_watermark` from now on; those who waited for it are woken.
    fn raise_to(&self, high_watermark: i64, log: &Log) {
        // In this order, so that a producer that was answered finds both moved.
        self.last_stable
            .raise(log.last_stable_offset(high_watermark));
        self.high_watermark.raise(high_watermark);
    }

    /// Notes how far a follower has got under a leader epoch. True if it counts: it is in sync, and the epoch is that of
    /// this leadership.
    pub(crate) fn claim(&self, broker: i32, leader_epoch: i32, end: i64) -> bool {
        let mut led = self.led.lock();
        self.role.load().leader_epoch() == leader_epoch
            && led.as_mut().is_some_and(|ends| ends.claim(broker, end))
    }

    /// This broker leads from now on; `same_epoch`: it did before, only the ISR changed.
    pub(crate) fn lead(&self, broker_id: i32, leader: Leader, same_epoch: bool) {
        let mut led = self.led.lock();
        let mut ends = ReplicaEnds::new(broker_id, &leader.isr);
        if same_epoch && let Some(before) = &*led {
            ends.keep_claims_of(before);
        }
        *led = Some(ends);
        self.role.store(Arc::new(Role::Leader(leader)));
        drop(led);
        self.wake_all();
    }

    /// It leads no more.
    pub(crate) fn step_down(&self, role: Role) {
        let mut led = self.led.lock();
        *led = None;
        self.role.store(Arc::new(role));
        drop(led);
        self.wake_all();
    }

    /// Those who wait look whether their wait still makes sense.
    fn wake_all(&self) {
        self.high_watermark.wake_all();
        self.last_stable.wake_all();
        self.log_end.wake_all();
    }

    /// Whether `last_offset` is committed; `Ok(false)`: not yet.
    pub(crate) fn check_committed(&self, last_offset: i64) -> Result<bool, PartitionError> {
        // The watermark first: what is committed stays so, whatever the role has become.
        if self.high_watermark.get() <= last_offset {
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
}
