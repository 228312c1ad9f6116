//! AlterReplicaLogDirs (KIP-113): partitions move between log directories while clients write and read them.
//!
//! Each broker has one thread that copies one partition after the other. At the end of a copy it blocks appends to the
//! partition, copies the rest, and replaces the partition in the map by a new `Partition` that uses the copy. Requests
//! that still use the old `Partition` get `NOT_LEADER_OR_FOLLOWER`, and clients retry.

use std::path::Path;
use std::sync::atomic::Ordering;
use std::sync::{Arc, Weak};
use std::time::Duration;

use pybroker_model::TopicIdPartition;
use pybroker_storage::{Log, LogCopy, LogDir, StorageError};

use crate::move_table::Move;
use crate::{Partition, PartitionError, Replicas, Role, TopicConfig, TopicMapEntry};

/// The last pass, during which appends are blocked, starts when fewer bytes than this remain.
const REST_BYTES: u64 = 4 << 20;
/// Maximum number of passes over a partition that grows faster than the copy. After them the mover blocks appends
/// anyway.
const PASSES_MAX: usize = 50;
/// Interval at which a throttled copy checks whether it is cancelled.
const PACE: Duration = Duration::from_millis(50);
/// How long readers may keep files in the old directory open before the mover removes them.
const READERS_GRACE: Duration = Duration::from_secs(60);

/// A move as DescribeLogDirs shows it.
#[derive(Debug)]
pub struct FutureReplica {
    /// The partition in its old directory.
    pub partition: Arc<Partition>,
    /// Number of records that the copy does not have yet.
    pub offset_lag: i64,
}

/// Why a move was refused.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveError {
    /// `LOG_DIR_NOT_FOUND`.
    NoSuchDir,
    /// `KAFKA_STORAGE_ERROR`.
    Offline,
    /// `REPLICA_NOT_AVAILABLE`.
    NotHosted,
    /// `INVALID_REPLICA_ASSIGNMENT` (KIP-1066).
    Cordoned,
}

/// The log that a finished move has replaced and whose files must be removed.
type OldPlace = (Arc<LogDir>, Arc<Log>);

impl Replicas {
    /// Order a move; a background thread carries it out. Does nothing if the partition is in that directory or already
    /// moving to it. An order for another directory replaces the earlier order.
    ///
    /// # Errors
    /// See [`MoveError`].
    pub fn move_partition(
        self: &Arc<Self>,
        tip: TopicIdPartition,
        to: &Path,
    ) -> Result<(), MoveError> {
        let to = self.dirs.position(to).ok_or(MoveError::NoSuchDir)?;
        self.dirs.get(to).online().map_err(|_| MoveError::Offline)?;
        let partition = self.partition(tip).ok_or(MoveError::NotHosted)?;
        let dir = partition.dir().ok_or(MoveError::Offline)?;
        if dir != to && self.dirs.get(to).is_cordoned() {
            return Err(MoveError::Cordoned);
        }
        self.dirs
            .get(dir)
            .online()
            .map_err(|_| MoveError::Offline)?;
        let start_worker = || {
            let replicas = Arc::downgrade(self);
            let worker = std::thread::Builder::new().name("log-dir-moves".into());
            let started = worker.spawn(move || work(&replicas));
            if let Err(error) = &started {
                self.report(&format!(
                    "cannot start a thread to move partitions: {error}"
                ));
            }
            started.is_ok()
        };
        let start = partition.log_start_offset();
        self.moves.order(tip, dir, to, start, start_worker);
        Ok(())
    }

    /// Return the replicas that are moving to the log directory at this position.
    pub(crate) fn futures_of(&self, dir: usize) -> Vec<FutureReplica> {
        let moves = self.moves.to(dir).into_iter();
        moves
            .filter_map(|(tip, moving)| {
                let partition = self.partition(tip)?;
                let lag = partition.log_end_offset() - moving.copied_to.load(Ordering::Acquire);
                Some(FutureReplica {
                    partition,
                    offset_lag: lag.max(0),
                })
            })
            .collect()
    }

    /// Copy a partition and switch to the copy. Return the replaced log.
    fn carry_out(
        &self,
        tip: TopicIdPartition,
        moving: &Move,
    ) -> Result<Option<OldPlace>, PartitionError> {
        let Some(partition) = self.partition(tip) else {
            return Ok(None);
        };
        let (Some(log), Some(from)) = (partition.log().cloned(), partition.dir()) else {
            return Ok(None);
        };
        let (from, to) = (
            Arc::clone(self.dirs.get(from).online()?),
            Arc::clone(self.dirs.get(moving.to).online()?),
        );
        let name = to.directory_of(partition.topic(), tip);
        let noted = |error: StorageError| {
            // The path in the error names the disk that failed.
            let dir = if error.is_below(to.path()) {
                &to
            } else {
                &from
            };
            dir.note_failure(&error);
            PartitionError::from(error)
        };
        let mut copy = LogCopy::begin(&log, &to, name).map_err(noted)?;
        for _ in 0..PASSES_MAX {
            let reached = log.log_end_offset();
            let bytes = copy
                .pass(&|bytes| self.paces(moving, bytes))
                .map_err(noted)?;
            moving.copied_to.store(reached, Ordering::Release);
            if bytes <= REST_BYTES {
                break;
            }
        }
        // While this thread holds the lock, orders wait: the partition cannot be stopped, deleted or replaced.
        let _orders = self.unhosted.lock();
        let current = self.partition(tip);
        if moving.is_cancelled()
            || !current.is_some_and(|current| Arc::ptr_eq(&current, &partition))
        {
            return Ok(None);
        }
        partition.hand_over(|role| {
            // Attaching staged segments makes hard links, which cannot cross disks. While the partition is handed over,
            // no records can be staged for it.
            if from.holds_staged(tip).map_err(noted)? {
                return Err(PartitionError::Policy(
                    "a staged ingest has records for it. Move it after the ingest is committed or aborted",
                ));
            }
            let config = Arc::clone(&partition.config());
            let moved = copy
                .finish(Arc::clone(&config.log), self.config.clock.now_ms())
                .map_err(noted)?;
            self.serve_moved(
                &partition,
                role,
                config,
                moved,
                (moving.to, Arc::clone(&to)),
            );
            Ok::<_, PartitionError>(())
        })?;
        if let Err(error) = to.checkpoint_log_starts(&self.logs_of(moving.to)) {
            to.note_failure(&error);
        }
        Ok(Some((from, log)))
    }

    /// Record copied bytes, and wait as long as the throttle requires. Return false if the copy is cancelled.
    fn paces(&self, moving: &Move, bytes: usize) -> bool {
        let (clock, throttle) = (&self.config.clock, &self.throttles.moves);
        throttle.record(bytes, clock.now());
        while !moving.is_cancelled() && !self.stopping() {
            let now = clock.now();
            let Some(until) = throttle.until(now) else {
                return true;
            };
            std::thread::sleep((until - now).min(PACE));
        }
        !moving.is_cancelled()
    }

    /// Serve the partition from the log `moved`, in its current role. `place` is the new log directory.
    fn serve_moved(
        &self,
        partition: &Partition,
        role: &Role,
        config: Arc<TopicConfig>,
        moved: Arc<Log>,
        place: (usize, Arc<LogDir>),
    ) {
        let (tip, topic) = (partition.tip(), partition.topic());
        let broker_id = self.config.broker_id;
        let new = Partition::hosting(
            tip,
            Arc::clone(topic),
            broker_id,
            config,
            moved,
            place,
            &self.proposals,
        );
        if let Err(error) = new.take_role(role, self.config.clock.now()) {
            // The copy is now the partition, so the old instance must not continue. Take the new one offline instead.
            new.go_offline(&Arc::from(error.to_string()));
        }
        let entry = TopicMapEntry {
            id: tip.topic_id,
            name: Arc::clone(topic),
            index: tip.partition,
            partition: Arc::clone(&new),
        };
        let map = self.map.load().with(&[], vec![entry]);
        self.map.store(Arc::new(map));
        self.catch_up_config(&new);
    }
}

fn work(replicas: &Weak<Replicas>) {
    loop {
        let Some(replicas) = replicas.upgrade() else {
            return;
        };
        let Some((tip, moving)) = replicas.moves.next() else {
            return;
        };
        let left = replicas.carry_out(tip, &moving);
        replicas.moves.end(tip, &moving);
        match left {
            Ok(Some((dir, log))) => clear_away(&replicas, &dir, log),
            Ok(None) => {}
            Err(_) if moving.is_cancelled() => {}
            Err(error) => {
                let partition = replicas.partition(tip);
                let name = partition
                    .as_ref()
                    .map_or("a deleted topic", |one| one.topic());
                replicas.report(&format!(
                    "cannot move {name}-{} (topic id {}) to another log directory: {error}",
                    tip.partition, tip.topic_id
                ));
            }
        }
    }
}

/// Remove the files in the old directory once readers have finished.
fn clear_away(replicas: &Replicas, dir: &LogDir, log: Arc<Log>) {
    let retired = match dir.retire_moved(&log) {
        Ok(path) => path,
        Err(error) => {
            return replicas.report(&format!(
                "cannot remove {}: {error}",
                log.directory().display()
            ));
        }
    };
    let clock = &replicas.config.clock;
    let deadline = clock.now() + READERS_GRACE;
    while Arc::strong_count(&log) > 1 && clock.now() < deadline && !replicas.stopping() {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Err(error) = dir.remove_moved(&retired) {
        replicas.report(&format!("cannot remove {}: {error}", retired.display()));
    }
}
