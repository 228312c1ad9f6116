//! AlterReplicaLogDirs (KIP-113): partitions move between log directories while they are written and read.
//!
//! One thread a broker copies, one partition after the other. At the end appends of the partition are held, what is
//! left is copied, and a new `Partition` over the copy takes the place of the old in the map; requests that still hold
//! the old one are told that it leads no more, and clients ask again.

use std::collections::VecDeque;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, AtomicI64, Ordering};
use std::sync::{Arc, Weak};
use std::time::{Duration, Instant};

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_storage::{Log, LogCopy, LogDir, Moving, StorageError};

use crate::log_dirs::LogDirs;
use crate::{Leader, LocalPartition, Partition, PartitionError, Placed, Replicas, Role};

/// So little left is copied with appends held.
const REST_BYTES: u64 = 4 << 20;
/// Passes over a partition that is written faster than it is copied, before appends are held all the same.
const PASSES_MAX: usize = 50;
/// How long readers may keep files of the old place open before they are removed under them.
const READERS_GRACE: Duration = Duration::from_secs(60);

/// Moves that are ordered and not finished.
#[derive(Debug, Default)]
pub(crate) struct Moves {
    table: Mutex<Table>,
}

#[derive(Debug, Default)]
struct Table {
    by_tip: HashMap<TopicIdPartition, Arc<Move>>,
    waiting: VecDeque<TopicIdPartition>,
    working: bool,
}

/// One of them.
#[derive(Debug)]
struct Move {
    to: usize,
    cancelled: AtomicBool,
    /// Up to which offset the copy has got.
    copied_to: AtomicI64,
}

/// A move as DescribeLogDirs shows it.
#[derive(Debug)]
pub struct FutureReplica {
    /// The partition, at its old place.
    pub partition: Arc<Partition>,
    /// Records that the copy does not have yet.
    pub offset_lag: i64,
}

/// Why a move was not begun.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum MoveError {
    /// `LOG_DIR_NOT_FOUND`.
    NoSuchDir,
    /// `KAFKA_STORAGE_ERROR`.
    Offline,
    /// `REPLICA_NOT_AVAILABLE`.
    NotHosted,
}

/// What a move leaves behind.
type OldPlace = (Arc<LogDir>, Arc<Log>);

impl Replicas {
    /// Orders a move; it goes on by itself. A partition that is there already, or on its way, needs nothing; an order
    /// for another directory takes the place of the one before.
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
        self.dirs
            .get(dir)
            .online()
            .map_err(|_| MoveError::Offline)?;
        let mut table = self.moves.table.lock();
        if let Some(earlier) = table.by_tip.get(&tip) {
            if earlier.to == to {
                return Ok(());
            }
            earlier.cancelled.store(true, Ordering::Release);
            table.by_tip.remove(&tip);
        }
        if dir == to {
            return Ok(());
        }
        let wanted = Move {
            to,
            cancelled: AtomicBool::new(false),
            copied_to: AtomicI64::new(partition.log_start_offset()),
        };
        table.by_tip.insert(tip, Arc::new(wanted));
        table.waiting.push_back(tip);
        if !table.working {
            let replicas = Arc::downgrade(self);
            let worker = std::thread::Builder::new().name("log-dir-moves".into());
            match worker.spawn(move || work(&replicas)) {
                Ok(_) => table.working = true,
                Err(error) => self.report(&format!("no thread to move partitions: {error}")),
            }
        }
        Ok(())
    }

    /// The partition is being deleted or moved elsewhere: its copy is given up.
    pub(crate) fn cancel_move(&self, tip: TopicIdPartition) {
        if let Some(moving) = self.moves.table.lock().by_tip.remove(&tip) {
            moving.cancelled.store(true, Ordering::Release);
        }
    }

    /// The broker stops: copies are given up, so that their directories can be closed.
    pub(crate) fn cancel_moves(&self, deadline: Instant) {
        {
            let mut table = self.moves.table.lock();
            table.waiting.clear();
            for (_, moving) in table.by_tip.drain() {
                moving.cancelled.store(true, Ordering::Release);
            }
        }
        while self.moves.table.lock().working && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    /// What is on its way to the log directory with this position.
    pub(crate) fn futures_of(&self, dir: usize) -> Vec<FutureReplica> {
        let table = self.moves.table.lock();
        let mine = table.by_tip.iter().filter(|(_, moving)| moving.to == dir);
        mine.filter_map(|(tip, moving)| {
            let partition = self.partition(*tip)?;
            let lag = partition.log_end_offset() - moving.copied_to.load(Ordering::Acquire);
            Some(FutureReplica {
                partition,
                offset_lag: lag.max(0),
            })
        })
        .collect()
    }

    fn next_move(&self) -> Option<(TopicIdPartition, Arc<Move>)> {
        let mut table = self.moves.table.lock();
        while let Some(tip) = table.waiting.pop_front() {
            if let Some(moving) = table.by_tip.get(&tip) {
                return Some((tip, Arc::clone(moving)));
            }
        }
        table.working = false;
        None
    }

    fn end_move(&self, tip: TopicIdPartition, ended: &Arc<Move>) {
        let mut table = self.moves.table.lock();
        if table
            .by_tip
            .get(&tip)
            .is_some_and(|moving| Arc::ptr_eq(moving, ended))
        {
            table.by_tip.remove(&tip);
        }
    }

    /// Copies and changes places; gives what is left at the old place.
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
            // Whose disk it was stands in the error's path.
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
            let bytes = copy.pass(&moving.cancelled).map_err(noted)?;
            moving.copied_to.store(reached, Ordering::Release);
            if bytes <= REST_BYTES {
                break;
            }
        }
        // Orders wait: nobody stops, deletes or replaces the partition now.
        let _orders = self.found.lock();
        let current = self.partition(tip);
        if moving.cancelled.load(Ordering::Acquire)
            || !current.is_some_and(|current| Arc::ptr_eq(&current, &partition))
        {
            return Ok(None);
        }
        partition.hand_over(|role| {
            // Links do not reach another disk. Nothing is staged for it while it is handed over.
            if from.holds_staged(tip).map_err(noted)? {
                return Err(PartitionError::Policy(
                    "a staged ingest has records for it; move it when that is committed or aborted",
                ));
            }
            let config = Arc::clone(&partition.config());
            let moved = copy
                .finish(Arc::clone(&config.log), (self.config.clock)())
                .map_err(noted)?;
            let new = Partition::hosting(
                tip,
                Arc::clone(partition.topic()),
                self.config.broker_id,
                config,
                moved,
                moving.to,
                Arc::clone(&to),
            );
            let taken = match role {
                Role::Leader(leader) => new.become_leader(Leader {
                    leader_epoch: leader.leader_epoch,
                    isr: Arc::clone(&leader.isr),
                    replicas: Arc::clone(&leader.replicas),
                }),
                Role::Follower {
                    leader_epoch,
                    leader,
                } => new.follow(*leader, *leader_epoch),
                Role::Offline { .. } | Role::Stopped { .. } => Ok(()),
            };
            if let Err(error) = taken {
                // The copy is the partition by now: the old one must not go on.
                new.go_offline(&Arc::from(error.to_string()));
            }
            let placed = Placed {
                id: tip.topic_id,
                name: Arc::clone(partition.topic()),
                index: tip.partition,
                partition: Arc::clone(&new),
            };
            let map = self.map.load().with(&[], vec![placed]);
            self.map.store(Arc::new(map));
            self.catch_up_config(&new);
            Ok::<_, PartitionError>(())
        })?;
        if let Err(error) = to.checkpoint_log_starts(&self.logs_of(moving.to)) {
            to.note_failure(&error);
        }
        Ok(Some((from, log)))
    }
}

fn work(replicas: &Weak<Replicas>) {
    loop {
        let Some(replicas) = replicas.upgrade() else {
            return;
        };
        let Some((tip, moving)) = replicas.next_move() else {
            return;
        };
        let left = replicas.carry_out(tip, &moving);
        replicas.end_move(tip, &moving);
        match left {
            Ok(Some((dir, log))) => clear_away(&replicas, &dir, log),
            Ok(None) => {}
            Err(_) if moving.cancelled.load(Ordering::Acquire) => {}
            Err(error) => {
                let found = replicas.partition(tip);
                let name = found.as_ref().map_or("a deleted topic", |one| one.topic());
                replicas.report(&format!(
                    "{name}-{} (topic id {}) stays where it is: {error}",
                    tip.partition, tip.topic_id
                ));
            }
        }
    }
}

/// Removes the old place once its readers are done.
fn clear_away(replicas: &Replicas, dir: &LogDir, log: Arc<Log>) {
    let retired = match dir.retire_moved(&log) {
        Ok(path) => path,
        Err(error) => {
            return replicas.report(&format!(
                "{} is left over: {error}",
                log.directory().display()
            ));
        }
    };
    let begun = Instant::now();
    while Arc::strong_count(&log) > 1 && begun.elapsed() < READERS_GRACE && !replicas.stopping() {
        std::thread::sleep(Duration::from_millis(20));
    }
    if let Err(error) = dir.remove_moved(&retired) {
        replicas.report(&format!("{} is left over: {error}", retired.display()));
    }
}

/// What moves have left when the broker ended, made good: the partitions that remain.
pub(crate) fn settle(dirs: &LogDirs, found: Vec<Seen>, report: &dyn Fn(&str)) -> Vec<Seen> {
    let mut partitions = Vec::with_capacity(found.len());
    let (futures, others): (Vec<Seen>, Vec<Seen>) = found
        .into_iter()
        .partition(|one| one.moving == Moving::Future);
    let mut futures: Vec<Option<Seen>> = futures.into_iter().map(Some).collect();
    // Places that others have moved to: whoever lies there is the partition, in whichever order they were found.
    for mut one in others {
        match &one.moving {
            Moving::No | Moving::Future => {}
            Moving::Removed => {
                remove(dirs, &one, report);
                continue;
            }
            Moving::Moved(to) => {
                let to = to.clone();
                match settle_moved(dirs, &one, &to, &mut futures) {
                    Ok(Settled::Gone(renamed)) => {
                        if let Some(renamed) = renamed {
                            partitions.push(*renamed);
                        }
                        continue;
                    }
                    Ok(Settled::Stays) => one.moving = Moving::No,
                    Err(problem) => one.local.problem = Some(problem),
                }
            }
        }
        partitions.push(one);
    }
    for future in futures.into_iter().flatten() {
        let twin = |one: &&Seen| {
            one.local.topic_id == future.local.topic_id
                && one.local.partition == future.local.partition
        };
        if future.local.topic_id.is_some() && partitions.iter().any(|one| twin(&one)) {
            report(&format!(
                "{}: an unfinished copy is removed",
                future.local.directory.display()
            ));
            remove(dirs, &future, report);
        } else {
            let mut orphan = future;
            orphan.local.problem = Some("a copy whose original is not here".to_owned());
            partitions.push(orphan);
        }
    }
    partitions
}

/// A directory that the scan has seen.
#[derive(Debug)]
pub(crate) struct Seen {
    /// Position of its log directory.
    pub(crate) dir: usize,
    /// Its name in there.
    pub(crate) name: String,
    pub(crate) local: LocalPartition,
    pub(crate) moving: Moving,
}

enum Settled {
    /// It is not the partition any more; perhaps the copy has got its name only now.
    Gone(Option<Box<Seen>>),
    Stays,
}

fn settle_moved(
    dirs: &LogDirs,
    one: &Seen,
    to: &Path,
    futures: &mut [Option<Seen>],
) -> Result<Settled, String> {
    let unreachable = || format!("it has moved to {}, which cannot be reached", to.display());
    let log_dir = dirs
        .get(one.dir)
        .online()
        .map_err(|error| error.to_string())?;
    let (at, target, name) = dirs.holding(to).ok_or_else(unreachable)?;
    let mut renamed = None;
    if !to.is_dir() {
        let copy = futures.iter_mut().find(|future| {
            future.as_ref().is_some_and(|future| {
                future.dir == at
                    && future.local.topic_id == one.local.topic_id
                    && future.local.partition == one.local.partition
                    && future.local.topic_id.is_some()
            })
        });
        let Some(copy) = copy.and_then(Option::take) else {
            log_dir
                .forget_move(&one.name)
                .map_err(|error| error.to_string())?;
            return Ok(Settled::Stays);
        };
        target
            .rename_into_place(&copy.local.directory, &name)
            .map_err(|error| error.to_string())?;
        renamed = Some(Seen {
            name,
            local: LocalPartition {
                directory: to.to_path_buf(),
                ..copy.local
            },
            moving: Moving::No,
            ..copy
        });
    }
    let left = log_dir.retire_directory(&one.local.directory);
    left.and_then(|path| log_dir.remove_moved(&path))
        .map_err(|error| error.to_string())?;
    Ok(Settled::Gone(renamed.map(Box::new)))
}

fn remove(dirs: &LogDirs, one: &Seen, report: &dyn Fn(&str)) {
    let removed = dirs
        .get(one.dir)
        .online()
        .and_then(|dir| Ok(dir.remove_moved(&one.local.directory)?));
    if let Err(error) = removed {
        report(&format!(
            "{} is left over: {error}",
            one.local.directory.display()
        ));
    }
}

/// A path of `log.dirs` in the form that comparisons need.
pub(crate) fn plain(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
