//! Staged deletion: a partition's directory moves to `deleting/{topic id in hex}_{partition}` and
//! waits there until its deadline. Until then it can be moved back by hand or by undelete.

use super::LogDir;
use super::partitions::sync_opened;
use crate::error::StorageError;
use crate::file_names::{DELETING, DELETION};
use crate::files;
use crate::log::Log;
use crate::partition_metadata;
use pybroker_model::{TopicId, TopicIdPartition, Uuid};
use std::path::{Path, PathBuf};
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
        let to = self.stage(&from, log.id(), deadline_ms)?;
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
        if path.parent() != Some(&self.path) || path.file_name().is_none() {
            return Err(StorageError::Corrupt {
                path,
                reason: "not a partition's directory".into(),
            });
        }
        self.stage(&path, id, deadline_ms)
    }

    fn stage(
        &self,
        from: &Path,
        id: TopicIdPartition,
        deadline_ms: i64,
    ) -> Result<PathBuf, StorageError> {
        self.health.check()?;
        let deleting = self.path.join(DELETING);
        std::fs::create_dir_all(&deleting).map_err(StorageError::io("create", &deleting))?;
        let name = from.file_name().unwrap_or_default().to_string_lossy();
        let note = format!("version: 0\ndirectory: {name}\ndeadline_ms: {deadline_ms}\n");
        files::write_atomically(&from.join(DELETION), note.as_bytes())?;
        let base = format!("{}_{}", id.topic_id.uuid().to_hex(), id.partition);
        // The same partition may have been staged and restored from elsewhere before.
        let to = (0..)
            .map(|n| {
                deleting.join(if n == 0 {
                    base.clone()
                } else {
                    format!("{base}.{n}")
                })
            })
            .find(|path| !path.exists())
            .unwrap_or_else(|| deleting.join(&base));
        std::fs::rename(from, &to).map_err(StorageError::io("rename", from))?;
        files::sync_dir(&deleting)?;
        sync_opened(&self.root, &self.path)?;
        Ok(to)
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
    let stem = name.split('.').next().unwrap_or_default();
    let named = stem.rsplit_once('_').and_then(|(hex, partition)| {
        let topic_id = TopicId::new(Uuid::parse(hex).ok()?)?;
        Some(TopicIdPartition {
            topic_id,
            partition: partition.parse().ok()?,
        })
    });
    // The name and the metadata must agree, else nobody but an operator may decide.
    let id = named.filter(
        |id| matches!(partition_metadata::read(&path), Ok(Some(found)) if found == id.topic_id),
    );
    let note = files::read_if_there(&path.join(DELETION), DELETION_BYTES_MAX)
        .ok()
        .flatten();
    let note = note
        .and_then(|note| String::from_utf8(note).ok())
        .unwrap_or_default();
    let value_of = |key: &str| {
        note.lines()
            .find_map(|line| line.split_once(": ").filter(|(name, _)| *name == key))
            .map(|(_, v)| v.to_owned())
    };
    StagedDeletion {
        id,
        directory: value_of("directory"),
        deadline_ms: value_of("deadline_ms").and_then(|text| text.parse().ok()),
        path,
    }
}
