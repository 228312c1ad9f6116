//! Making partitions in a log directory, many at once.

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

/// From so many files on one barrier for the filesystem is cheaper than syncing each.
const BARRIER_FILES: usize = 8;

/// At most so many directories share one file: what one damaged block can take with it. More would save nothing, the
/// directories themselves cost as much.
const SHARERS_MAX: usize = 32;

/// A partition to make.
#[derive(Clone, Debug)]
pub struct NewPartition {
    /// The topic's name.
    pub topic: String,
    /// Identity.
    pub id: TopicIdPartition,
    /// The leader epoch it starts in, if this broker leads it: on disk from the first moment, so
    /// that a late order for another incarnation can be told by its epoch.
    pub leader_epoch: Option<i32>,
}

/// A small file on its way into a partition's directory. Most are alike (a topic's id, the first leader epoch), and
/// what a new partition costs is new inodes: ext4 without a journal passes over every inode deleted in the last
/// minutes, one by one. So alike files are one file with many names, synced once; each is only ever replaced by a
/// rename, never written into.
enum NewFile {
    /// Its temporary file is written.
    Own(PathBuf),
    /// The same content as `like`, which comes before it.
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

    /// Where it will be, if it has a temporary file of its own.
    fn written(&self) -> Option<&Path> {
        match self {
            Self::Own(path) => Some(path),
            Self::Shared { .. } => None,
        }
    }

    /// Gives it its name. What it says is on disk already, unless the filesystem refuses a link.
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

/// Files written for new partitions, by what they say: where the first is and how many share it.
type Sharing = HashMap<String, (PathBuf, usize)>;

impl NewPartition {
    /// Name of its directory.
    #[must_use]
    pub fn directory(&self) -> String {
        format!("{}-{}", self.topic, self.id.partition)
    }
}

impl LogDir {
    /// Makes directories with `partition.metadata` and the first leader epoch, durably, all of
    /// them with two barriers. An unfinished creation (a directory without metadata and data) is
    /// completed; anything else that exists is refused.
    pub fn create_partitions(&self, partitions: &[NewPartition]) -> Vec<Result<(), StorageError>> {
        let named = partitions
            .iter()
            .map(|new| (new.topic.as_str(), new.id.partition));
        if let Err(error) = self.checkpoints.forget(named) {
            return partitions.iter().map(|_| Err(error.clone())).collect();
        }
        let each = sync_each_file(partitions.len() * 2);
        let mut sharing = Sharing::new();
        let results = partitions
            .iter()
            .map(|partition| self.prepare_partition(partition, &mut sharing))
            .collect();
        self.finish_files(results, each)
    }

    /// Gives directories that are not open the name of the layout in force, with one barrier for
    /// all; the new name for each.
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

    /// Writes `partition.metadata` into directories that lie here without one, durably, all of
    /// them with two barriers; an answer for each. A directory that has the file is refused.
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
        sharing: &mut Sharing,
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

    /// Temporary files on disk → renamed → renames on disk. With `each`, files and directories are synced, side by
    /// side; else one barrier stands for all.
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

    /// An error is that of all of them.
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

/// Whether so many new files are synced one by one; else one barrier stands for all. Only Linux has one.
pub(super) const fn sync_each_file(files: usize) -> bool {
    files < BARRIER_FILES || !cfg!(target_os = "linux")
}

/// What was to become durable together has failed together.
pub(super) fn fail_all<T>(results: &mut [Result<T, StorageError>], error: &StorageError) {
    for result in results.iter_mut().filter(|result| result.is_ok()) {
        *result = Err(error.clone());
    }
}

/// Whether a directory has metadata or data: what an unfinished creation has not.
fn holds_anything(dir: &Path) -> Result<bool, StorageError> {
    for entry in files::entries(dir)? {
        let name = entry.file_name();
        if !name.to_string_lossy().ends_with(file_names::TEMPORARY) {
            return Ok(true);
        }
    }
    Ok(false)
}

/// Syncs a directory opened before; used where the path may have moved.
pub(super) fn sync_opened(dir: &File, path: &Path) -> Result<(), StorageError> {
    dir.sync_all().map_err(StorageError::io("sync", path))
}
