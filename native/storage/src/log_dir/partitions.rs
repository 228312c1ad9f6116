//! Creates many partitions in a log directory at once.

use super::LogDir;
use crate::error::StorageError;
use crate::file_names::{self, LEADER_EPOCHS, PARTITION_METADATA};
use crate::files;
use crate::leader_epochs::LeaderEpochs;
use crate::partition_metadata;
use pybroker_model::{TopicId, TopicIdPartition};
use std::collections::{BTreeSet, HashMap};
use std::fs::File;
use std::path::{Path, PathBuf};

/// Number of files from which one barrier for the filesystem is cheaper than a sync of each.
const BARRIER_FILES: usize = 8;

/// Maximum number of directories that share one file. It limits the effect of a damaged block. A higher number would
/// save almost nothing, because by then the directories themselves cost as much.
const SHARERS_MAX: usize = 32;

/// A partition to create.
#[derive(Clone, Debug)]
pub struct NewPartition {
    /// The topic's name.
    pub topic: String,
    /// Topic id and partition index.
    pub id: TopicIdPartition,
    /// The partition's first leader epoch, if this broker leads it. It is durable when the directory is created, so
    /// that the broker recognizes a late order for another incarnation by its epoch.
    pub leader_epoch: Option<i32>,
}

/// A small new file of a partition's directory. Creating a partition costs mostly new inodes: ext4 without a journal
/// skips every inode deleted in the last minutes, one by one. Most of these files have the same content (topic id,
/// first leader epoch), so they are hard links to one file, which is synced once. Sharing is safe because such a file
/// is only replaced by a rename, never modified.
enum NewFile {
    /// A file whose content has been written under a temporary name.
    Own(PathBuf),
    /// A file with the same content as the earlier file `like`.
    Shared {
        path: PathBuf,
        like: PathBuf,
        content: String,
    },
}

impl NewFile {
    fn path(&self) -> &Path {
        match self {
            Self::Own(path) | Self::Shared { path, .. } => path,
        }
    }

    /// Return the temporary file's path, if this file has one of its own.
    fn written(&self) -> Option<&Path> {
        match self {
            Self::Own(path) => Some(path),
            Self::Shared { .. } => None,
        }
    }

    /// Move the file to its final name. Its content is on disk already, unless the filesystem refuses a link.
    fn put_in_place(&self) -> Result<(), StorageError> {
        match self {
            Self::Own(path) => files::replace(path),
            Self::Shared {
                path,
                like,
                content,
            } => match std::fs::hard_link(like, path) {
                Ok(()) => Ok(()),
                Err(_) => files::write_atomically(path, content.as_bytes()),
            },
        }
    }
}

/// Files written for new partitions, by content: path of the first one, and number of directories that share it.
type SharedFiles = HashMap<String, (PathBuf, usize)>;

impl NewPartition {
    /// Return the name of the partition's directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("{}-{}", self.topic, self.id.partition)
    }
}

impl LogDir {
    /// Create directories with `partition.metadata` and the first leader epoch, durably, with two barriers for all.
    /// Completes an unfinished creation (a directory without metadata and data). Refuses any other existing directory.
    pub fn create_partitions(&self, partitions: &[NewPartition]) -> Vec<Result<(), StorageError>> {
        let named = partitions
            .iter()
            .map(|new| (new.topic.as_str(), new.id.partition));
        if let Err(error) = self.checkpoints.forget(named) {
            return partitions.iter().map(|_| Err(error.clone())).collect();
        }
        let each = sync_each_file(partitions.len() * 2);
        let mut sharing = SharedFiles::new();
        let results = partitions
            .iter()
            .map(|partition| self.prepare_partition(partition, &mut sharing))
            .collect();
        self.finish_files(results, each)
    }

    /// Rename directories that are not open to the layout by id, with one barrier for all; return the new name of each.
    pub fn relocate(
        &self,
        directories: &[(&str, TopicIdPartition)],
    ) -> Vec<Result<String, StorageError>> {
        let mut results: Vec<Result<String, StorageError>> = directories
            .iter()
            .map(|(from, id)| {
                self.health.check()?;
                let (from, name) = (self.path.join(from), file_names::by_id(*id));
                let to = self.path.join(&name);
                if to.exists() {
                    return Err(StorageError::Exists { path: to });
                }
                let prefix = to.parent().unwrap_or(&self.path);
                std::fs::create_dir_all(prefix).map_err(StorageError::io("create", prefix))?;
                std::fs::rename(&from, &to).map_err(StorageError::io("rename", &from))?;
                Ok(name)
            })
            .collect();
        let synced = if cfg!(target_os = "linux") {
            self.barrier()
        } else {
            results
                .iter()
                .flatten()
                .filter_map(|name| name.split_once('/'))
                .try_for_each(|(prefix, _)| files::sync_dir(&self.path.join(prefix)))
                .and_then(|()| files::sync_dir(&self.path))
        };
        if let Err(error) = synced {
            fail_all(&mut results, &error);
        }
        results
    }

    /// Write `partition.metadata` into directories without one, durably, with two barriers for all. Return a result for
    /// each. Refuses a directory that has the file.
    pub fn adopt_partitions(
        &self,
        directories: &[(&str, TopicId)],
    ) -> Vec<Result<(), StorageError>> {
        let each = sync_each_file(directories.len());
        let results = directories
            .iter()
            .map(|(name, topic_id)| {
                self.health.check()?;
                let path = self.path.join(name).join(PARTITION_METADATA);
                if path.exists() {
                    return Err(StorageError::Exists { path });
                }
                let content = partition_metadata::render(*topic_id);
                files::write_temporary(&path, content.as_bytes())?;
                Ok(vec![NewFile::Own(path)])
            })
            .collect();
        self.finish_files(results, each)
    }

    fn prepare_partition(
        &self,
        new: &NewPartition,
        sharing: &mut SharedFiles,
    ) -> Result<Vec<NewFile>, StorageError> {
        self.health.check()?;
        let dir = self.path.join(self.directory_of(&new.topic, new.id));
        if let Some(prefix) = dir.parent().filter(|parent| *parent != self.path) {
            std::fs::create_dir_all(prefix).map_err(StorageError::io("create", prefix))?;
        }
        match std::fs::create_dir(&dir) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                if holds_anything(&dir)? {
                    return Err(StorageError::Exists { path: dir });
                }
            }
            Err(error) => return Err(StorageError::io("create", &dir)(error)),
        }
        let mut written = Vec::with_capacity(2);
        let mut write = |name: &str, content: String| {
            let path = dir.join(name);
            let shared = sharing
                .get_mut(&content)
                .filter(|(_, sharers)| *sharers < SHARERS_MAX);
            if let Some((like, sharers)) = shared {
                *sharers += 1;
                let like = like.clone();
                written.push(NewFile::Shared {
                    path,
                    like,
                    content,
                });
                return Ok(());
            }
            files::write_temporary(&path, content.as_bytes())?;
            sharing.insert(content, (path.clone(), 1));
            written.push(NewFile::Own(path));
            Ok(())
        };
        write(
            PARTITION_METADATA,
            partition_metadata::render(new.id.topic_id),
        )?;
        if let Some(epoch) = new.leader_epoch {
            let mut epochs = LeaderEpochs::default();
            epochs.assign(epoch, 0);
            write(LEADER_EPOCHS, epochs.render())?;
        }
        Ok(written)
    }

    /// Sync temporary files → rename → sync the renames. With `each`, sync files and directories in parallel; otherwise
    /// use barriers.
    fn finish_files(
        &self,
        mut results: Vec<Result<Vec<NewFile>, StorageError>>,
        each: bool,
    ) -> Vec<Result<(), StorageError>> {
        if results.iter().any(Result::is_ok)
            && let Err(error) = self.place_files(&mut results, each)
        {
            fail_all(&mut results, &error);
        }
        results
            .into_iter()
            .map(|result| result.map(|_| ()))
            .collect()
    }

    /// Sync the temporary files, rename them, and sync the renames. An error here applies to all results.
    fn place_files(
        &self,
        results: &mut [Result<Vec<NewFile>, StorageError>],
        each: bool,
    ) -> Result<(), StorageError> {
        if each {
            let own: Vec<&Path> = results
                .iter()
                .flatten()
                .flatten()
                .filter_map(NewFile::written)
                .collect();
            files::sync_temporaries(&own)?;
        } else {
            self.barrier()?;
        }
        for result in results.iter_mut() {
            let placed = result
                .as_ref()
                .ok()
                .map(|new| new.iter().try_for_each(NewFile::put_in_place));
            if let Some(Err(error)) = placed {
                *result = Err(error);
            }
        }
        if each {
            self.sync_each(results)
        } else {
            self.barrier()
        }
    }

    fn sync_each(
        &self,
        results: &[Result<Vec<NewFile>, StorageError>],
    ) -> Result<(), StorageError> {
        let mut dirs = BTreeSet::from([self.path.as_path()]);
        for new in results.iter().flatten() {
            if let Some(dir) = new.first().and_then(|file| file.path().parent()) {
                dirs.insert(dir);
                dirs.extend(dir.parent().filter(|parent| *parent != self.path));
            }
        }
        files::sync_dirs(&dirs.into_iter().collect::<Vec<_>>())
    }
}

/// Return whether this many new files should be synced one by one instead of with one barrier. Only Linux has barriers.
pub(super) const fn sync_each_file(files: usize) -> bool {
    files < BARRIER_FILES || !cfg!(target_os = "linux")
}

/// Set an error as the result of all partitions that the failed sync covered.
pub(super) fn fail_all<T>(results: &mut [Result<T, StorageError>], error: &StorageError) {
    for result in results.iter_mut().filter(|result| result.is_ok()) {
        *result = Err(error.clone());
    }
}

/// Return whether a directory has metadata or data. An unfinished creation has neither.
fn holds_anything(dir: &Path) -> Result<bool, StorageError> {
    for entry in files::entries(dir)? {
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with(file_names::TEMPORARY) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Sync a directory that was opened earlier, because it may have moved to another path.
pub(super) fn sync_opened(dir: &File, path: &Path) -> Result<(), StorageError> {
    dir.sync_all().map_err(StorageError::io("sync", path))
}
