//! A log directory: a disk with its partitions.

use crate::clean_state::CleanState;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{self, CLEANED_TO, HIGH_WATERMARKS, LOCK, LOG_STARTS, RECOVERY_POINTS};
use crate::flusher::{self, Flusher};
use crate::handles::HandleCache;
use crate::health::{Health, OnFailure};
use crate::journal::{self, Entries, replay};
use crate::log::Log;
use crate::producer_state::ProducerCount;
use crate::recovery::{OpenState, RecoveryReport};
use crate::staged;
use parking_lot::Mutex;
use pybroker_model::{TopicIdPartition, Uuid};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

mod checkpoints;
mod clean_shutdown;
mod closing;
mod deletion;
mod identity;
mod moving;
mod options;
mod partitions;
mod scan;
#[cfg(test)]
mod tests;

use checkpoints::Checkpoints;
pub use deletion::StagedDeletion;
pub use moving::LogCopy;
pub use options::{Layout, LogDirOptions};
pub use partitions::NewPartition;
pub use scan::{LocalPartition, MoveState};

/// A log directory that this process uses.
pub struct LogDir {
    path: PathBuf,
    /// Kept open to hold the lock. Barriers also sync this descriptor.
    _lock: File,
    root: File,
    health: Arc<Health>,
    handles: Arc<HandleCache>,
    producers: Arc<ProducerCount>,
    flusher: Arc<Flusher>,
    directory_id: Uuid,
    layout: Layout,
    checkpoints: Checkpoints,
    /// State of each log as the clean-shutdown marker recorded it, read at start.
    clean: HashMap<String, CleanState>,
    /// Notes in restored directories. They are removed once the checkpoint has the log starts of these directories.
    restored: Mutex<Vec<PathBuf>>,
    /// Descriptions of the files that could not be read at start.
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
    /// Open or create the directory: lock, identity, checkpoints. Removes the clean-shutdown marker: until the next
    /// clean stop the directory counts as not cleanly closed.
    ///
    /// # Errors
    /// [`StorageError::Locked`] if the directory is in use, [`StorageError::Foreign`] if it belongs to another broker
    /// or cluster, and IO errors.
    pub fn open(path: &Path, options: &LogDirOptions) -> Result<Arc<Self>, StorageError> {
        std::fs::create_dir_all(path).map_err(StorageError::io("create", path))?;
        // Use the canonical path, because with links or "." one directory would look like two.
        let path = path
            .canonicalize()
            .map_err(StorageError::io("open", path))?;
        let lock = lock(&path)?;
        let identity = identity::claim(&path, options)?;
        let mut problems = Vec::new();
        if let Some(journal) = identity.journal {
            let replayed = replay::replay(&path, journal)?;
            problems.extend(replayed.notes);
            identity::note_journal(&path, None)?;
        }
        if (0..2).any(|file| journal::path_of(&path, file).exists()) {
            journal::remove_files(&path)?;
        }
        let checkpoints = Checkpoints::read(&path, &mut problems);
        let clean = clean_shutdown::take(&path)?;
        let health = Arc::new(Health::new(&path));
        let note_journal = {
            let path = path.clone();
            move |journal| identity::note_journal(&path, journal)
        };
        let flushing = flusher::Options {
            threads: options.flush_threads,
            syncfs_logs: options.syncfs_logs,
            journal_bytes: options.journal_bytes,
            clock: options.clock.clone(),
        };
        let flusher = Flusher::start(&path, &health, flushing, Box::new(note_journal))?;
        Ok(Arc::new(Self {
            root: File::open(&path).map_err(StorageError::io("open", &path))?,
            _lock: lock,
            health,
            handles: Arc::new(HandleCache::new(options.open_files_max.max(16))),
            producers: Arc::clone(&options.producers),
            flusher: Arc::new(flusher),
            directory_id: identity.directory_id,
            layout: options.layout,
            checkpoints,
            clean,
            restored: Mutex::default(),
            problems,
            path,
        }))
    }

    /// Return the directory's path.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Return the counter of producers. It covers the logs of this directory and of other directories that share it.
    #[must_use]
    pub fn producers(&self) -> &ProducerCount {
        &self.producers
    }

    /// Return the directory's id in `meta.properties` (KIP-858).
    #[must_use]
    pub const fn directory_id(&self) -> Uuid {
        self.directory_id
    }

    /// Return the top-level files that could not be read at start; recovery continues without them.
    #[must_use]
    pub fn problems(&self) -> &[String] {
        &self.problems
    }

    /// Return the flusher of the directory's logs.
    #[must_use]
    pub const fn flusher(&self) -> &Arc<Flusher> {
        &self.flusher
    }

    /// Return an error if the directory is offline.
    ///
    /// # Errors
    /// [`StorageError::Offline`] with the first failure.
    pub fn check(&self) -> Result<(), StorageError> {
        self.health.check()
    }

    /// Take the directory offline if `error` means a disk failure; count a full disk.
    pub fn note_failure(&self, error: &StorageError) {
        self.health.note(error);
    }

    /// Return the number of writes refused since the start because the disk is full.
    #[must_use]
    pub fn full_refusals(&self) -> u64 {
        self.health.full_refusals()
    }

    /// Set a callback that gets the reason when the directory goes offline.
    pub fn set_on_failure(&self, callback: OnFailure) {
        self.health.set_on_failure(callback);
    }

    /// Return the name of a partition's directory in the configured layout.
    #[must_use]
    pub fn directory_of(&self, topic: &str, id: TopicIdPartition) -> String {
        match self.layout {
            Layout::TopicName => format!("{topic}-{}", id.partition),
            Layout::TopicId => file_names::by_id(id),
        }
    }

    /// Return a path below this directory as a name for [`LogDir::open_log`].
    #[must_use]
    pub fn name_of(&self, path: &Path) -> Option<String> {
        let name = path.strip_prefix(&self.path).ok()?.to_str()?;
        (!name.is_empty()).then(|| name.to_owned())
    }

    /// Return the partition's high watermark in the checkpoint, as read at start.
    #[must_use]
    pub fn checkpointed_high_watermark(&self, topic: &str, partition: i32) -> Option<i64> {
        self.checkpoints.at_start(HIGH_WATERMARKS, topic, partition)
    }

    /// Open the log in `directory` (a name from [`LogDir::scan`] or [`LogDir::create_partitions`]), with recovery if
    /// necessary.
    ///
    /// # Errors
    /// [`StorageError`] if this partition cannot be used; other partitions can.
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

    /// Like [`LogDir::open_log`], for a directory whose name does not contain the topic's.
    ///
    /// # Errors
    /// As [`LogDir::open_log`].
    pub fn open_log_of(
        &self,
        topic: &str,
        directory: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        now_ms: i64,
    ) -> Result<(Arc<Log>, RecoveryReport), StorageError> {
        self.health.check()?;
        let known = |file| self.checkpoints.at_start(file, topic, id.partition);
        let renewed = self.checkpoints.is_renewed(topic, id.partition);
        let clean = self.clean.get(directory).filter(|_| !renewed);
        let mut state = OpenState {
            recovery_point: known(RECOVERY_POINTS),
            log_start_offset: known(LOG_STARTS),
            cleaned_to: known(CLEANED_TO),
            clean: clean.cloned(),
        };
        self.leave_journal_of(id)?;
        let path = self.path.join(directory);
        let note = self.take_restored(&path, &mut state);
        let attached = staged::replay(&self.path, &path, id)?;
        let journal = self.flusher.journaling_of_logs();
        let (log, mut report) = self.open_in(path, topic, id, config, &state, journal, now_ms)?;
        let copied = log.settle_copies(&self.path, now_ms)?;
        if attached + copied > 0 {
            report
                .notes
                .push("finished the attach of staged records that a crash interrupted".into());
        }
        self.restored.lock().extend(note);
        Ok((log, report))
    }

    /// Open the log in any directory of this disk. Staged logs have no checkpoints and no journal.
    pub(crate) fn open_log_in(
        &self,
        path: PathBuf,
        topic: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        state: &OpenState,
        now_ms: i64,
    ) -> Result<(Arc<Log>, RecoveryReport), StorageError> {
        self.open_in(path, topic, id, config, state, None, now_ms)
    }

    #[expect(clippy::too_many_arguments, reason = "each is one fact about the log")]
    fn open_in(
        &self,
        path: PathBuf,
        topic: &str,
        id: TopicIdPartition,
        config: Arc<LogConfig>,
        state: &OpenState,
        journal: journal::OfLog,
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
            &self.producers,
            journal,
            now_ms,
        )
    }

    /// Void the journal's entries of a log that is not open, before its files are read or moved. A log that was closed
    /// properly has no entries left.
    fn leave_journal_of(&self, id: TopicIdPartition) -> Result<(), StorageError> {
        if self.flusher.journaling().held(id) {
            self.barrier()?;
            self.flusher.journaling().void(&[id])?;
        }
        Ok(())
    }

    /// Run one barrier: afterwards everything written below this directory before the call is on disk.
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
