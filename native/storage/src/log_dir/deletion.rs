//! Staged deletion: a partition's directory moves to `deleting/{topic id in hex}_{partition}` and stays there until its
//! deadline. Before the deadline, the directory moves back if the topic is undeleted or the controller re-creates the
//! replica. A removal first renames the directory. So a directory that has lost some of its files is never moved back.

use super::LogDir;
use super::partitions::{fail_all, sync_each_file, sync_opened};
use crate::error::StorageError;
use crate::file_names::{self, DELETING, DELETION, PURGING};
use crate::files;
use crate::log::Log;
use crate::partition_metadata;
use crate::recovery::OpenState;
use pybroker_model::{TopicId, TopicIdPartition, Uuid};
use std::collections::BTreeSet;
use std::path::{Path, PathBuf};
use std::sync::Arc;

const DELETION_BYTES_MAX: u64 = 4096;

/// A staged partition directory.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StagedDeletion {
    /// The directory's path; the argument of [`LogDir::purge`].
    pub path: PathBuf,
    /// Topic id and partition from the directory's name.
    pub id: Option<TopicIdPartition>,
    /// Former name of the directory.
    pub directory: Option<String>,
    /// When the directory is to be removed, milliseconds since the epoch. `None` if unknown: then only an operator removes the
    /// directory.
    pub deadline_ms: Option<i64>,
    /// Whether the removal has begun. Files may then be missing.
    pub purging: bool,
}

/// A directory to stage, with the note that is written into it.
struct DirectoryDeletion {
    from: PathBuf,
    id: TopicIdPartition,
    note: String,
    /// Whether the note will be the only record of the log start, and must be on disk before the directory moves. If a
    /// power loss removes any other note, only the recovery takes longer.
    needed: bool,
}

impl LogDir {
    /// Close `logs` and stage their directories durably, with one barrier for all. Return the new path of each.
    ///
    /// # Errors
    /// [`StorageError`]; the log is closed anyway.
    pub fn stage_logs(
        &self,
        logs: &[&Log],
        deadline_ms: i64,
    ) -> Vec<Result<PathBuf, StorageError>> {
        let closed: Vec<_> = logs.iter().map(|log| log.close(false)).collect();
        // Hold these locks to the end: no compaction, copy or truncation may run during the move.
        let _maintained: Vec<_> = logs.iter().map(|log| log.maintenance.lock()).collect();
        let retired = self.flusher.journaling().retire(logs);
        let directories = logs.iter().zip(closed).map(|(log, closed)| {
            closed?;
            retired.clone()?;
            let start = log.log_start_offset();
            let state = format!(
                "log_start_offset: {start}\nrecovery_point: {}\n",
                log.synced_end_offset()
            );
            let directory = log.directory();
            let staging = self.staging(directory, log.id(), deadline_ms, &state);
            Ok(DirectoryDeletion {
                needed: start > 0,
                ..staging
            })
        });
        let results = self.stage(directories.collect());
        for (log, to) in logs.iter().zip(&results) {
            if let Ok(to) = to {
                // Readers that have not opened a segment's file yet find it at the new path.
                log.dir.write().clone_from(to);
            }
        }
        results
    }

    /// Like [`LogDir::stage_logs`] for a directory that is not open (a stray or damaged replica).
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
        self.leave_journal_of(id)?;
        let directory = self.staging(path.clone(), id, deadline_ms, "");
        let staged = self.stage(vec![Ok(directory)]).pop();
        staged.unwrap_or(Err(StorageError::Closed { path }))
    }

    fn staging(
        &self,
        from: PathBuf,
        id: TopicIdPartition,
        deadline_ms: i64,
        state: &str,
    ) -> DirectoryDeletion {
        let name = self.name_of(&from).unwrap_or_default();
        let note = format!("version: 0\ndirectory: {name}\ndeadline_ms: {deadline_ms}\n{state}");
        DirectoryDeletion {
            from,
            id,
            note,
            needed: false,
        }
    }

    /// Sync the notes that must be on disk → rename the directories → sync the renames.
    fn stage(
        &self,
        directories: Vec<Result<DirectoryDeletion, StorageError>>,
    ) -> Vec<Result<PathBuf, StorageError>> {
        let needed = directories.iter().flatten().filter(|one| one.needed);
        let needed = needed.count();
        let barrier = !sync_each_file(needed);
        let deleting = self.path.join(DELETING);
        let ready = self.health.check().and_then(|()| {
            std::fs::create_dir_all(&deleting).map_err(StorageError::io("create", &deleting))
        });
        let mut noted: Vec<_> = directories
            .into_iter()
            .map(|directory| {
                let directory = directory?;
                ready.clone()?;
                directory.write_note(!barrier && directory.needed)?;
                Ok(directory)
            })
            .collect();
        if barrier && let Err(error) = self.barrier() {
            fail_all(&mut noted, &error);
        }
        let mut sources = BTreeSet::new();
        let mut staged: Vec<_> = noted
            .into_iter()
            .map(|directory| {
                let DirectoryDeletion { from, id, .. } = directory?;
                // The partition may have been staged before; number the copies.
                let to = (0..)
                    .map(|n| self.staged_path(id, n))
                    .find(|path| !path.exists())
                    .unwrap_or_else(|| self.staged_path(id, 0));
                std::fs::rename(&from, &to).map_err(StorageError::io("rename", &from))?;
                sources.extend(from.parent().map(Path::to_path_buf));
                Ok(to)
            })
            .collect();
        if !sources.is_empty() {
            sources.remove(&self.path);
            let synced = files::sync_dir(&deleting)
                .and_then(|()| {
                    sources
                        .iter()
                        .try_for_each(|prefix| files::sync_dir(prefix))
                })
                .and_then(|()| sync_opened(&self.root, &self.path));
            if let Err(error) = synced {
                fail_all(&mut staged, &error);
            }
        }
        staged
    }

    /// Return the path of copy number `copy` of a partition's staged directories.
    fn staged_path(&self, id: TopicIdPartition, copy: u32) -> PathBuf {
        let base = format!("{}_{}", id.topic_id.uuid().to_hex(), id.partition);
        self.path.join(DELETING).join(match copy {
            0 => base,
            _ => format!("{base}.{copy}"),
        })
    }

    /// Move a staged partition back into service as a partition of `topic`, durably. Return its directory's name, or
    /// `None` if it is not staged here. Idempotent.
    ///
    /// # Errors
    /// [`StorageError`]: `Exists` if the partition's path is taken, `Corrupt` if several copies are staged and the note
    /// does not name the right one.
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
        self.checkpoints
            .forget(std::iter::once((topic, id.partition)))?;
        std::fs::rename(from, &to).map_err(StorageError::io("rename", from))?;
        if let Some(prefix) = to.parent() {
            files::sync_dir(prefix)?;
        }
        sync_opened(&self.root, &self.path)?;
        files::sync_dir(&self.path.join(DELETING))?;
        Ok(Some(directory))
    }

    /// Apply the note of a restored directory to the state of its log; return the note's path, if there is one.
    pub(super) fn take_restored(&self, directory: &Path, state: &mut OpenState) -> Option<PathBuf> {
        let path = directory.join(DELETION);
        let note = read_note(&path)?;
        let number = |name| value_of(&note, name).and_then(|text| text.parse::<i64>().ok());
        state.log_start_offset = state.log_start_offset.max(number("log_start_offset"));
        // Prefer the directory's own checkpoint, because it is newer than the note. A lower value is safe: recovery
        // scans more.
        state.recovery_point = state.recovery_point.or(number("recovery_point"));
        Some(path)
    }

    /// Remove the notes of restored directories whose logs are open. `logs` are all logs of this directory: their
    /// values, including those of the notes, first go into the checkpoint.
    ///
    /// # Errors
    /// [`StorageError`]; the notes stay, which is harmless.
    pub fn settle_restored(&self, logs: &[Arc<Log>]) -> Result<(), StorageError> {
        let notes = std::mem::take(&mut *self.restored.lock());
        if notes.is_empty() {
            return Ok(());
        }
        self.checkpoint_log_starts(logs)?;
        notes.iter().try_for_each(|note| files::remove(note))
    }

    /// Return whether a log was opened from a restored directory whose note still exists.
    #[must_use]
    pub fn has_restored(&self) -> bool {
        !self.restored.lock().is_empty()
    }

    /// Return all staged directories.
    ///
    /// # Errors
    /// [`StorageError`] if `deleting` cannot be listed.
    pub fn staged_deletions(&self) -> Result<Vec<StagedDeletion>, StorageError> {
        let deleting = self.path.join(DELETING);
        let entries = files::entries_if_there(&deleting)?;
        let mut staged: Vec<_> = entries.iter().map(|entry| describe(entry.path())).collect();
        staged.sort_unstable_by(|a, b| a.path.cmp(&b.path));
        Ok(staged)
    }

    /// Remove a directory returned by [`LogDir::staged_deletions`]; return the bytes freed. May take long for large
    /// logs: call it from a separate thread.
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
        for entry in files::entries(path)? {
            bytes += entry.metadata().map_or(0, |metadata| metadata.len());
        }
        std::fs::remove_dir_all(path).map_err(StorageError::io("remove", path))?;
        Ok(bytes)
    }
}

impl DirectoryDeletion {
    /// Write the note into the directory; `durably` syncs it at once.
    fn write_note(&self, durably: bool) -> Result<(), StorageError> {
        let path = self.from.join(DELETION);
        // Keep an existing note, because it may be the only record of the log start; see `LogDir::settle_restored`.
        if durably || path.exists() {
            files::write_atomically(&path, self.note.as_bytes())
        } else {
            files::write_replacing(&path, self.note.as_bytes())
        }
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
    // If the name and the metadata file disagree, only an operator may decide what to do. This check is skipped once
    // the removal has begun: the metadata file may be gone then.
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
