//! How far a partition is committed, and who must be told. Shared by the partition, the log's flush callback and
//! waiting produces; it owns neither the log nor its directory, so that whoever holds it last closes nothing.

use std::sync::Arc;

use arc_swap::{ArcSwap, Guard};
use parking_lot::Mutex;
use pybroker_storage::{FlushMode, Log};

use crate::{Leader, PartitionError, ReplicaEnds, Role, TopicConfig, Watched};

#[derive(Debug)]
pub(crate) struct Progress {
    role: ArcSwap<Role>,
    config: ArcSwap<TopicConfig>,
    /// What the ISR has; the leader's own end is asked of the log. Its lock orders changes of role and watermark.
    ends: Mutex<ReplicaEnds>,
    pub(crate) high_watermark: Arc<Watched>,
    pub(crate) last_stable: Arc<Watched>,
}

impl Progress {
    pub(crate) fn new(role: Role, config: Arc<TopicConfig>, high_watermark: i64) -> Self {
        Self {
            role: ArcSwap::from_pointee(role),
            config: ArcSwap::new(config),
            ends: Mutex::new(ReplicaEnds::new(-1, &[])),
            high_watermark: Arc::new(Watched::new(high_watermark)),
            last_stable: Arc::new(Watched::new(high_watermark)),
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
        let _one = self.ends.lock();
        if config.sequence >= self.config.load().sequence {
            self.config.store(Arc::clone(config));
        }
        self.config.load_full()
    }

    /// Raises the high watermark to what the ISR has, and wakes those who waited for it. Called after each flush
    /// (commit mode) or append (os mode).
    pub(crate) fn advance(&self, log: &Log) {
        let local = match self.config.load().log.flush_mode {
            FlushMode::Commit => log.flushed_end_offset(),
            FlushMode::Os => log.log_end_offset(),
        };
        let ends = self.ends.lock();
        if self.role.load().leader().is_err() {
            return;
        }
        if let Some(minimum) = ends.minimum(local) {
            // In this order, so that a producer that was answered finds both moved.
            self.last_stable.raise(log.last_stable_offset(minimum));
            self.high_watermark.raise(minimum);
        }
    }

    /// Notes how far a follower has got. True if it counts.
    pub(crate) fn claim(&self, broker: i32, end: i64) -> bool {
        self.ends.lock().claim(broker, end)
    }

    /// This broker leads from now on; `same_epoch`: it did before, only the ISR changed.
    pub(crate) fn lead(&self, broker_id: i32, leader: Leader, same_epoch: bool) {
        let mut ends = self.ends.lock();
        let mut replaced = ReplicaEnds::new(broker_id, &leader.isr);
        if same_epoch {
            replaced.keep_claims_of(&ends);
        }
        *ends = replaced;
        self.role.store(Arc::new(Role::Leader(leader)));
        drop(ends);
        self.wake_all();
    }

    /// It leads no more.
    pub(crate) fn step_down(&self, role: Role) {
        let ends = self.ends.lock();
        self.role.store(Arc::new(role));
        drop(ends);
        self.wake_all();
    }

    /// Those who wait look whether their wait still makes sense.
    fn wake_all(&self) {
        self.high_watermark.wake_all();
        self.last_stable.wake_all();
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
