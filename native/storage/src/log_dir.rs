//! One log directory: a disk with the partitions on it.

use crate::checkpoint::{self, OffsetsByPartition};
use crate::clean_state::CleanState;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{self, CLEANED_TO, HIGH_WATERMARKS, LOCK, LOG_STARTS, RECOVERY_POINTS};
use crate::flusher::{Flusher, SYNCFS_LOGS};
use crate::handles::{HandleCache, OPEN_FILES_MAX};
use crate::ingest::replay::{replay, settle_copies};
use crate::log::Log;
use crate::recovery::{OpenState, RecoveryReport};
use parking_lot::Mutex;
use pybroker_model::{TopicIdPartition, Uuid};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

mod checkpoints;
mod clean_shutdown;
mod closing;
mod deletion;
mod identity;
mod moving;
mod partitions;
#[cfg(test)]
mod tests;

pub use deletion::StagedDeletion;
pub use moving::LogCopy;
pub use partitions::{LocalPartition, Moving, NewPartition};

/// Called once, with the reason, when the directory goes offline.
pub type OnFailure = Box<dyn Fn(&str) + Send + Sync>;

/// Whether a log directory may still be used. The first failure is final.
pub struct Health {
    path: PathBuf,
    failed: AtomicBool,
    reason: Mutex<Option<String>>,
    on_failure: Mutex<Option<OnFailure>>,
}

impl std::fmt::Debug for Health {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Health")
            .field("path", &self.path)
            .field("failed", &self.failed)
            .finish_non_exhaustive()
    }
}

impl Health {
    pub(crate) fn new(path: &Path) -> Self {
        Self {
            path: path.to_path_buf(),
            failed: AtomicBool::new(false),
            reason: Mutex::new(None),
            on_failure: Mutex::new(None),
        }
    }

    /// An error if the directory is offline.
    pub(crate) fn check(&self) -> Result<(), StorageError> {
        if !self.failed.load(Ordering::Acquire) {
            return Ok(());
        }
        let reason = self.reason.lock().clone().unwrap_or_default();
        Err(StorageError::Offline {
            path: self.path.clone(),
            reason,
        })
    }

    /// Takes the directory offline.
    pub(crate) fn fail(&self, reason: &str) {
        {
            let mut first = self.reason.lock();
            if first.is_some() {
                return;
            }
            *first = Some(reason.to_owned());
            self.failed.store(true, Ordering::Release);
        }
        if let Some(callback) = &*self.on_failure.lock() {
            callback(reason);
        }
    }
}

/// `log.dir.layout`: how partitions' directories are named. Both are read, whatever is set.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Layout {
    /// `{topic}-{partition}`, as Apache Kafka does.
    #[default]
    TopicName,
    /// `{first two digits}/{topic id in hex}_{partition}` (KIP-516, checklist 202).
    TopicId,
}

/// How to open a log directory.
#[derive(Clone, Debug)]
pub struct LogDirOptions {
    /// This broker.
    pub broker_id: i32,
    /// The cluster; data of another one is refused.
    pub cluster_id: String,
    /// Most segment files kept open.
    pub open_files_max: usize,
    /// Threads that sync single logs at the same time.
    pub flush_threads: usize,
    /// How new partitions' directories are named.
    pub layout: Layout,
    /// Logs waiting from which on one `syncfs` syncs all.
    pub syncfs_logs: usize,
}

impl LogDirOptions {
    /// Usual limits.
    #[must_use]
    pub const fn new(broker_id: i32, cluster_id: String) -> Self {
        Self {
            broker_id,
            cluster_id,
            open_files_max: OPEN_FILES_MAX,
            flush_threads: 4,
            layout: Layout::TopicName,
            syncfs_logs: SYNCFS_LOGS,
        }
    }
}

/// A log directory in use by this process.
pub struct LogDir {
    path: PathBuf,
    /// Kept open: its lock ends with it. Also what barriers sync.
    _lock: File,
    root: File,
    health: Arc<Health>,
    handles: Arc<HandleCache>,
    flusher: Arc<Flusher>,
    directory_id: Uuid,
    layout: Layout,
    /// What checkpoints and marker said at start, used up as logs are opened.
    recovery_points: OffsetsByPartition,
    log_starts: OffsetsByPartition,
    cleaned_to: OffsetsByPartition,
    high_watermarks: OffsetsByPartition,
    clean: HashMap<String, CleanState>,
    known: Mutex<checkpoints::Known>,
    /// Notes in directories that were brought back from `deleting`, to be removed once their log starts are kept
    /// elsewhere.
    restored: Mutex<Vec<PathBuf>>,
    /// What could not be read at start, in words.
    problems: Vec<String>,
}

impl std::fmt::Debug for LogDir {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("LogDir")
            .field("path", &self.path)
            .finish_non_exhaustive()
    }
}

impl LogDir {
    /// Opens (or makes) the directory: lock, identity, checkpoints. The clean-shutdown marker is
    /// used up: until the next clean stop the directory counts as not cleanly closed.
    ///
    /// # Errors
    /// [`StorageError::Locked`] for a directory in use, [`StorageError::Foreign`] for another
    /// broker's or cluster's, and IO errors.
    pub fn open(path: &Path, options: &LogDirOptions) -> Result<Arc<Self>, StorageError> {
        std::fs::create_dir_all(path).map_err(StorageError::io("create", path))?;
        // Links and "." would make one directory look like two.
        let path = path
            .canonicalize()
            .map_err(StorageError::io("open", path))?;
        let lock = lock(&path)?;
        let directory_id = identity::claim(&path, options)?;
        let mut problems = Vec::new();
        let mut read = |name| {
            checkpoint::read_offsets(&path.join(name)).unwrap_or_else(|error| {
                problems.push(error.to_string());
                OffsetsByPartition::new()
            })
        };
        let (recovery_points, log_starts) = (read(RECOVERY_POINTS), read(LOG_STARTS));
        let (cleaned_to, high_watermarks) = (read(CLEANED_TO), read(HIGH_WATERMARKS));
        let mut known = checkpoints::Known::default();
        for (file, offsets) in [
            (RECOVERY_POINTS, &recovery_points),
            (LOG_STARTS, &log_starts),
            (CLEANED_TO, &cleaned_to),
            (HIGH_WATERMARKS, &high_watermarks),
        ] {
            known.read(file, offsets);
        }
        let clean = clean_shutdown::take(&path)?;
        let health = Arc::new(Health::new(&path));
        let flusher = Flusher::start(&path, &health, options.flush_threads, options.syncfs_logs)?;
        Ok(Arc::new(Self {
            root: File::open(&path).map_err(StorageError::io("open", &path))?,
            _lock: lock,
            health,
            handles: Arc::new(HandleCache::new(options.open_files_max.max(16))),
            flusher: Arc::new(flusher),
            directory_id,
            layout: options.layout,
            recovery_points,
            log_starts,
            cleaned_to,
            high_watermarks,
            clean,
            known: Mutex::new(known),
            restored: Mutex::default(),
            problems,
            path,
        }))
    }

    /// Where it is.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Its id in `meta.properties` (KIP-858).
    #[must_use]
    pub const fn directory_id(&self) -> Uuid {
        self.directory_id
    }

    /// Files at the top that could not be read at start; recovery goes on without them.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Group commit for the logs here.
    #[must_use]
    pub const fn flusher(&self) -> &Arc<Flusher> {
        &self.flusher
    }

    /// An error if the directory is offline.
    ///
    /// # Errors
    /// [`StorageError::Offline`] with the first failure.
    pub fn check(&self) -> Result<(), StorageError> {
        self.health.check()
    }

    /// Takes the directory offline if `error` says that its disk fails.
    pub fn note_failure(&self, error: &StorageError) {
        if error.is_of_the_disk() {
            self.health.fail(&error.to_string());
        }
    }

    /// Calls `callback` with the reason when the directory goes offline.
    pub fn set_on_failure(&self, callback: OnFailure) {
        *self.health.on_failure.lock() = Some(callback);
    }

    /// Name that a partition's directory gets here.
    #[must_use]
    pub fn directory_of(&self, topic: &str, id: TopicIdPartition) -> String {
        match self.layout {
            Layout::TopicName => format!("{topic}-{}", id.partition),
            Layout::TopicId => file_names::by_id(id),
        }
    }

    /// A path below this directory as the name that [`LogDir::open_log`] takes.
    #[must_use]
    pub fn name_of(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.path).ok()?.to_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// The high watermark in the checkpoint at start.
    #[must_use]
    pub fn checkpointed_high_watermark(&self, topic: &str, partition: i32) -> Option<i64> {
        if self.is_renewed(topic, partition) {
            return None;
        }
        self.high_watermarks
            .get(&(topic.to_owned(), partition))
            .copied()
    }

    /// Opens the log in `directory` (a name from [`LogDir::scan`] or
    /// [`LogDir::create_partitions`]), recovering it if need be.
    ///
    /// # Errors
    /// [`StorageError`]: this partition cannot be used; others can.
    pub fn open_log(
        &self,
        directory: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        now_ms: i64,
    ) -> Result<(Arc<Log>, RecoveryReport), StorageError> {
        let topic =
            file_names::topic_and_partition(directory).map_or(directory, |(topic, _)| topic);
        self.open_log_of(topic, directory, id, config, now_ms)
    }

    /// As [`LogDir::open_log`], for a directory whose name does not tell the topic's.
    ///
    /// # Errors
    /// As there.
    pub fn open_log_of(
        &self,
        topic: &str,
        directory: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        now_ms: i64,
    ) -> Result<(Arc<Log>, RecoveryReport), StorageError> {
        self.health.check()?;
        let key = (topic.to_owned(), id.partition);
        let mut state = if self.is_renewed(topic, id.partition) {
            OpenState::default()
        } else {
            OpenState {
                recovery_point: self.recovery_points.get(&key).copied(),
                log_start_offset: self.log_starts.get(&key).copied(),
                cleaned_to: self.cleaned_to.get(&key).copied(),
                clean: self.clean.get(directory).cloned(),
            }
        };
        let path = self.path.join(directory);
        let note = self.take_restored(&path, &mut state);
        let attached = replay(&self.path, &path, id)?;
        let (log, mut report) = self.open_log_in(path, topic, id, config, &state, now_ms)?;
        let copied = settle_copies(&self.path, &log, now_ms)?;
        if attached + copied > 0 {
            report
                .notes
                .push("finished the attach of staged records that a crash interrupted".into());
        }
        self.restored.lock().extend(note);
        Ok((log, report))
    }

    /// Opens the log in any directory of this disk; staged ones have no checkpoints.
    pub(crate) fn open_log_in(
        &self,
        path: PathBuf,
        topic: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        state: &OpenState,
        now_ms: i64,
    ) -> Result<(Arc<Log>, RecoveryReport), StorageError> {
        Log::open(
            path,
            topic,
            id,
            config,
            state,
            &self.health,
            &self.handles,
            now_ms,
        )
    }

    /// One barrier: everything written under this directory so far is on disk afterwards.
    fn barrier(&self) -> Result<(), StorageError> {
        #[cfg(target_os = "linux")]
        {
            crate::files::sync_filesystem(&self.root).map_err(|error| {
                let error = StorageError::io("sync", &self.path)(error);
                self.health.fail(&error.to_string());
                error
            })
        }
        #[cfg(not(target_os = "linux"))]
        {
            // Without syncfs each file was synced when it was written.
            crate::files::sync_dir(&self.path)
        }
    }
}

fn lock(path: &Path) -> Result<File, StorageError> {
    let lock_path = path.join(LOCK);
    let file = File::options()
        .write(true)
        .create(true)
        .truncate(false)
        .open(&lock_path)
        .map_err(StorageError::io("open", &lock_path))?;
    match file.try_lock() {
        Ok(()) => Ok(file),
        Err(std::fs::TryLockError::WouldBlock) => Err(StorageError::Locked {
            path: path.to_path_buf(),
        }),
        Err(std::fs::TryLockError::Error(error)) => {
            Err(StorageError::io("lock", &lock_path)(error))
        }
    }
}
