//! Staged deletion: a partition's directory moves to `deleting/{topic id in hex}_{partition}` and
//! waits there until its deadline. Until then it can be moved back, by undelete or because the controller
//! corrects itself (A10). A removal renames first, so that a directory that has lost files is never moved back.

use super::LogDir;
use super::partitions::sync_opened;
use crate::error::StorageError;
use crate::file_names::{self, DELETING, DELETION, PURGING};
use crate::files;
use crate::log::Log;
use crate::partition_metadata;
use crate::recovery::OpenState;
use pybroker_model::{TopicId, TopicIdPartition, Uuid};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const DELETION_BYTES_MAX: u64 = 4096;

/// A directory that waits for its removal.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedDeletion {
    /// Where it is; the argument of [`LogDir::purge`].
    pub path: PathBuf,
    /// Identity, from the directory's name.
    pub id: Option<TopicIdPartition>,
    /// Name of its directory before.
    pub directory: Option<String>,
    /// When it may go, milliseconds since the epoch; `None` if that is not known (then it stays
    /// until an operator removes it).
    pub deadline_ms: Option<i64>,
    /// Its removal has begun: it may have lost files.
    pub purging: bool,
}

impl LogDir {
    /// Closes `log` and moves its directory away, durably; answers where to.
    ///
    /// # Errors
    /// [`StorageError`]; the log is closed all the same.
    pub fn stage_log(&self, log: &Log, deadline_ms: i64) -> Result<PathBuf, StorageError> {
        log.close(false)?;
        let _maintenance = log.maintenance.lock();
        let _flushing = log.flush.lock();
        log.staged.store(true, Ordering::Release);
        let from = log.directory();
        let state = format!(
            "log_start_offset: {}\nrecovery_point: {}\n",
            log.log_start_offset(),
            log.flushed_end_offset()
        );
        let to = self.stage(&from, log.id(), deadline_ms, &state)?;
        // Readers that hold a segment without an open file find it at the new place.
        *log.dir.write() = to.clone();
        Ok(to)
    }

    /// As [`LogDir::stage_log`] for a directory that is not open (a stray, a damaged one).
    ///
    /// # Errors
    /// [`StorageError`], also for a name that is not directly below the log directory.
    pub fn stage_directory(
        &self,
        directory: &str,
        id: TopicIdPartition,
        deadline_ms: i64,
    ) -> Result<PathBuf, StorageError> {
        let path = self.path.join(directory);
        let by_id = file_names::id_and_partition(directory).is_some();
        if path.parent() != Some(&self.path) && !by_id || path.file_name().is_none() {
            return Err(StorageError::Corrupt {
                path,
                reason: "not a partition's directory".into(),
            });
        }
        self.stage(&path, id, deadline_ms, "")
    }

    fn stage(
        &self,
        from: &Path,
        id: TopicIdPartition,
        deadline_ms: i64,
        state: &str,
    ) -> Result<PathBuf, StorageError> {
        self.health.check()?;
        let deleting = self.path.join(DELETING);
        std::fs::create_dir_all(&deleting).map_err(StorageError::io("create", &deleting))?;
        let name = self.name_of(from).unwrap_or_default();
        let note = format!("version: 0\ndirectory: {name}\ndeadline_ms: {deadline_ms}\n{state}");
        files::write_atomically(&from.join(DELETION), note.as_bytes())?;
        // The same partition may have been staged from elsewhere before.
        let to = (0..)
            .map(|n| self.staged_path(id, n))
            .find(|path| !path.exists())
            .unwrap_or_else(|| self.staged_path(id, 0));
        std::fs::rename(from, &to).map_err(StorageError::io("rename", from))?;
        files::sync_dir(&deleting)?;
        if let Some(prefix) = from.parent().filter(|parent| *parent != self.path) {
            files::sync_dir(prefix)?;
        }
        sync_opened(&self.root, &self.path)?;
        Ok(to)
    }

    /// Where the `copy`-th directory of a partition waits.
    fn staged_path(&self, id: TopicIdPartition, copy: u32) -> PathBuf {
        let base = format!("{}_{}", id.topic_id.uuid().to_hex(), id.partition);
        self.path.join(DELETING).join(match copy {
            0 => base,
            _ => format!("{base}.{copy}"),
        })
    }

    /// Moves a partition that waits for removal back into service, as partition of `topic`, durably; answers the
    /// name of its directory, `None` if nothing of it waits here. Twice is as good as once.
    ///
    /// # Errors
    /// [`StorageError`]: `Exists` if its place is taken, `Corrupt` if several copies wait and nobody knows which
    /// counts.
    pub fn restore(
        &self,
        id: TopicIdPartition,
        topic: &str,
    ) -> Result<Option<String>, StorageError> {
        self.health.check()?;
        let copies: Vec<_> = (0..)
            .map(|n| self.staged_path(id, n))
            .take_while(|path| path.exists())
            .collect();
        let [from] = copies.as_slice() else {
            let Some(first) = copies.first() else {
                return Ok(None);
            };
            return Err(StorageError::Corrupt {
                path: first.clone(),
                reason: format!("{} copies of the partition wait for removal", copies.len()),
            });
        };
        if !matches!(partition_metadata::read(from), Ok(Some(found)) if found == id.topic_id) {
            return Err(StorageError::Corrupt {
                path: from.clone(),
                reason: "its name and its partition.metadata do not agree".into(),
            });
        }
        let directory = self.directory_of(topic, id);
        let to = self.path.join(&directory);
        if let Some(prefix) = to.parent().filter(|parent| *parent != self.path) {
            std::fs::create_dir_all(prefix).map_err(StorageError::io("create", prefix))?;
        }
        if to.exists() {
            return Err(StorageError::Exists { path: to });
        }
        self.forget_checkpoints(std::iter::once((topic, id.partition)))?;
        std::fs::rename(from, &to).map_err(StorageError::io("rename", from))?;
        if let Some(prefix) = to.parent() {
            files::sync_dir(prefix)?;
        }
        sync_opened(&self.root, &self.path)?;
        files::sync_dir(&self.path.join(DELETING))?;
        Ok(Some(directory))
    }

    /// What the note of a directory that was brought back says about its log; the note's path, if there is one.
    pub(super) fn take_restored(&self, directory: &Path, state: &mut OpenState) -> Option<PathBuf> {
        let path = directory.join(DELETION);
        let note = read_note(&path)?;
        let number = |name| value_of(&note, name).and_then(|text| text.parse::<i64>().ok());
        state.log_start_offset = state.log_start_offset.max(number("log_start_offset"));
        // Lower is safe: more is scanned. What is known from this directory's own checkpoint is newer.
        state.recovery_point = state.recovery_point.or(number("recovery_point"));
        Some(path)
    }

    /// Removes the notes of directories that were brought back and are open. `logs` are all logs of this directory:
    /// what the notes knew of them is in the checkpoint first.
    ///
    /// # Errors
    /// [`StorageError`]; the notes stay, which costs nothing.
    pub fn settle_restored(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        let notes = std::mem::take(&mut *self.restored.lock());
        if notes.is_empty() {
            return Ok(());
        }
        self.checkpoint_log_starts(logs)?;
        notes.iter().try_for_each(|note| files::remove(note))
    }

    /// Whether a log was opened from a directory that was brought back, and its note is still there.
    #[must_use]
    pub fn has_restored(&self) -> bool {
        !self.restored.lock().is_empty()
    }

    /// All directories that wait for removal.
    ///
    /// # Errors
    /// [`StorageError`] if `deleting` cannot be listed.
    pub fn staged_deletions(&self) -> Result<Vec<StagedDeletion>, StorageError> {
        let deleting = self.path.join(DELETING);
        let entries = match std::fs::read_dir(&deleting) {
            Ok(entries) => entries,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(StorageError::io("list", &deleting)(error)),
        };
        let mut staged = Vec::new();
        for entry in entries {
            staged.push(describe(
                entry.map_err(StorageError::io("list", &deleting))?.path(),
            ));
        }
        staged.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(staged)
    }

    /// Removes a directory that [`LogDir::staged_deletions`] named; answers the bytes freed. May
    /// take long for large logs: call it from a thread of its own.
    ///
    /// # Errors
    /// [`StorageError`]; a path outside `deleting` is refused.
    pub fn purge(&self, path: &Path) -> Result<u64, StorageError> {
        let deleting = self.path.join(DELETING);
        if path.parent() != Some(&deleting) || path.file_name().is_none() {
            return Err(StorageError::Corrupt {
                path: path.to_path_buf(),
                reason: format!("not a directory in {}", deleting.display()),
            });
        }
        let mut marked = path.as_os_str().to_owned();
        if !path.to_string_lossy().ends_with(PURGING) {
            marked.push(PURGING);
            std::fs::rename(path, &marked).map_err(StorageError::io("rename", path))?;
            files::sync_dir(&deleting)?;
        }
        let path = Path::new(&marked);
        let mut bytes = 0;
        for entry in std::fs::read_dir(path).map_err(StorageError::io("list", path))? {
            let entry = entry.map_err(StorageError::io("list", path))?;
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
        std::fs::remove_dir_all(path).map_err(StorageError::io("remove", path))?;
        Ok(bytes)
    }
}

fn describe(path: PathBuf) -> StagedDeletion {
    let name = path
        .file_name()
        .unwrap_or_default()
        .to_string_lossy()
        .into_owned();
    let purging = name.ends_with(PURGING);
    let stem = name.split('.').next().unwrap_or_default();
    let named = stem.rsplit_once('_').and_then(|(hex, partition)| {
        let topic_id = TopicId::new(Uuid::parse(hex).ok()?)?;
        Some(TopicIdPartition {
            topic_id,
            partition: partition.parse().ok()?,
        })
    });
    // The name and the metadata must agree, else nobody but an operator may decide.
    // Once its removal has begun that is decided, and the file may be gone.
    let id = named.filter(|id| {
        purging
            || matches!(partition_metadata::read(&path), Ok(Some(found)) if found == id.topic_id)
    });
    let note = read_note(&path.join(DELETION)).unwrap_or_default();
    StagedDeletion {
        id,
        directory: value_of(&note, "directory").map(str::to_owned),
        deadline_ms: value_of(&note, "deadline_ms").and_then(|text| text.parse().ok()),
        purging,
        path,
    }
}

fn read_note(path: &Path) -> Option<String> {
    let note = files::read_if_there(path, DELETION_BYTES_MAX)
        .ok()
        .flatten()?;
    String::from_utf8(note).ok()
}

fn value_of<'a>(note: &'a str, key: &str) -> Option<&'a str> {
    note.lines()
        .find_map(|line| line.split_once(": ").filter(|(name, _)| *name == key))
        .map(|(_, value)| value)
}
