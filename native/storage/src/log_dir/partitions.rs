//! The partitions in a log directory: finding them, making many at once (R7).

use super::LogDir;
use crate::error::StorageError;
use crate::file_names::{
    self, DELETING, FUTURE_DIR, INGEST, LEADER_EPOCHS, PARTITION_METADATA, REMOVED_DIR,
};
use crate::files;
use crate::leader_epochs::LeaderEpochs;
use crate::log::Log;
use crate::partition_metadata;
use pybroker_model::{TopicId, TopicIdPartition};
use std::collections::HashMap;
use std::fs::File;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// From so many files on one barrier for the filesystem is cheaper than syncing each.
const BARRIER_FILES: usize = 8;

/// At most so many directories share one file: what one damaged block can take with it. More would save nothing, the
/// directories themselves cost as much.
const SHARERS_MAX: usize = 32;

/// A partition's directory as found at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPartition {
    /// Name inside the log directory, for [`LogDir::open_log`].
    pub directory: String,
    /// The topic's name, if the directory is named as one.
    pub topic: Option<String>,
    /// The partition's index, -1 if the name has none.
    pub partition: i32,
    /// From `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// Why it cannot be used, in words for the operator. Nothing is deleted on such grounds.
    pub problem: Option<String>,
    /// What a move between log directories has left, see `moving`.
    pub moving: Moving,
}

/// A directory's part in a move between log directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Moving {
    /// None: it is a partition.
    No,
    /// A copy, whole only if the original says so.
    Future,
    /// The original, and where it has moved to.
    Moved(PathBuf),
    /// The original, about to be removed.
    Removed,
}

/// A partition to make.
#[derive(Clone, Debug)]
pub struct NewPartition {
    /// The topic's name.
    pub topic: String,
    /// Identity.
    pub id: TopicIdPartition,
    /// The leader epoch it starts in, if this broker leads it: on disk from the first moment, so
    /// that a late order for another incarnation can be told by its epoch (R10).
    pub leader_epoch: Option<i32>,
}

/// A small file on its way into a partition's directory. Most are alike (a topic's id, the first leader epoch), and what
/// a new partition costs is new inodes: ext4 without a journal passes over every inode deleted in the last minutes, one
/// by one. So alike files are one file with many names; each is only ever replaced by a rename, never written into.
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
    /// All partition directories, each with its identity or its problem. Logs are not opened.
    ///
    /// # Errors
    /// [`StorageError`] only if the log directory itself cannot be listed.
    pub fn scan(&self) -> Result<Vec<LocalPartition>, StorageError> {
        let mut names = Vec::new();
        for entry in std::fs::read_dir(&self.path).map_err(StorageError::io("list", &self.path))? {
            let entry = entry.map_err(StorageError::io("list", &self.path))?;
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_dir && file_names::is_prefix(&name) {
                let prefix = self.path.join(&name);
                for inner in
                    std::fs::read_dir(&prefix).map_err(StorageError::io("list", &prefix))?
                {
                    let inner = inner.map_err(StorageError::io("list", &prefix))?;
                    if inner.file_type().is_ok_and(|kind| kind.is_dir()) {
                        names.push(format!("{name}/{}", inner.file_name().to_string_lossy()));
                    }
                }
            } else if is_dir
                && name != DELETING
                && name != INGEST
                && name != "lost+found"
                && !name.starts_with('.')
            {
                names.push(name);
            }
        }
        names.sort_unstable();
        let threads = std::thread::available_parallelism()
            .map_or(1, |n| n.get())
            .min(8);
        let chunk = names.len().div_ceil(threads).max(64);
        Ok(std::thread::scope(|scope| {
            let parts: Vec<_> = names
                .chunks(chunk)
                .map(|part| {
                    scope.spawn(|| {
                        part.iter()
                            .map(|name| self.look_at(name))
                            .collect::<Vec<_>>()
                    })
                })
                .collect();
            parts
                .into_iter()
                .flat_map(|part| part.join().unwrap_or_default())
                .collect()
        }))
    }

    fn look_at(&self, name: &str) -> LocalPartition {
        let future = file_names::is_marked(name, FUTURE_DIR);
        let removed = file_names::is_marked(name, REMOVED_DIR);
        let plain = if future || removed {
            name.rsplit_once('.').map_or(name, |(plain, _)| plain)
        } else {
            name
        };
        // A copy of a directory named by id has the prefix in its name: `24_24cc…_1`.
        let by_id = file_names::id_and_partition(plain)
            .or_else(|| file_names::id_and_partition(plain.get(3..).unwrap_or_default()));
        let parsed = file_names::topic_and_partition(plain);
        let (topic, partition) = parsed.map_or((None, -1), |(t, p)| (Some(t.to_owned()), p));
        let partition = by_id.map_or(partition, |id| id.partition);
        let (topic_id, problem) = if let Some(id) = by_id {
            match partition_metadata::read(&self.path.join(name)) {
                Ok(Some(found)) if found == id.topic_id => (Some(found), None),
                Ok(Some(found)) => (
                    None,
                    Some(format!(
                        "partition.metadata names another topic id, {found}"
                    )),
                ),
                Ok(None) => (None, Some("partition.metadata is missing".to_owned())),
                Err(error) => (None, Some(error.to_string())),
            }
        } else if topic.is_none() {
            (
                None,
                Some(format!("directory {name:?} is not named as a partition")),
            )
        } else {
            match partition_metadata::read(&self.path.join(name)) {
                Ok(Some(id)) => (Some(id), None),
                Ok(None) => (None, Some("partition.metadata is missing".to_owned())),
                Err(error) => (None, Some(error.to_string())),
            }
        };
        let (moving, problem) = match self.moved_to(name) {
            _ if future => (Moving::Future, problem),
            Ok(Some(_)) if removed => (Moving::Removed, problem),
            Ok(Some(to)) => (Moving::Moved(to), problem),
            Ok(None) if removed => (
                Moving::No,
                Some("it was about to be removed by another broker".to_owned()),
            ),
            Ok(None) => (Moving::No, problem),
            Err(error) => (Moving::No, Some(error.to_string())),
        };
        LocalPartition {
            directory: name.to_owned(),
            topic,
            partition,
            topic_id,
            problem,
            moving,
        }
    }

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
            .map(|partition| self.prepare_partition(partition, each, &mut sharing))
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

    /// The latest leader epoch that a directory's checkpoint knows; the log is not opened, nothing
    /// is changed.
    ///
    /// # Errors
    /// [`StorageError`]: the checkpoint cannot be read, and proves nothing.
    pub fn latest_epoch(&self, directory: &str) -> Result<Option<i32>, StorageError> {
        let epochs = LeaderEpochs::read(&self.path.join(directory).join(LEADER_EPOCHS))?;
        Ok(epochs.latest().map(|entry| entry.epoch))
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
                let file = files::write_temporary(&path, content.as_bytes())?;
                if each {
                    files::sync_data(&file).map_err(StorageError::io("sync", &path))?;
                }
                Ok(vec![NewFile::Own(path)])
            })
            .collect();
        self.finish_files(results, each)
    }

    fn prepare_partition(
        &self,
        new: &NewPartition,
        sync: bool,
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
            // With one barrier for all there are many, most of them alike.
            let shared = sharing
                .get_mut(&content)
                .filter(|(_, sharers)| !sync && *sharers < SHARERS_MAX);
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
            let file = files::write_temporary(&path, content.as_bytes())?;
            if sync {
                files::sync_data(&file).map_err(StorageError::io("sync", &path))?;
            }
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

    /// Temporary files on disk → renamed → renames on disk. With `each`, files were synced one by
    /// one and directories are; else one barrier stands for all.
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
        if !each {
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
        for new in results.iter().flatten() {
            if let Some(dir) = new.first().and_then(|file| file.path().parent()) {
                files::sync_dir(dir)?;
                if let Some(prefix) = dir.parent().filter(|parent| *parent != self.path) {
                    files::sync_dir(prefix)?;
                }
            }
        }
        files::sync_dir(&self.path)
    }

    /// [`Log::begin_epoch`] for many logs; answers, for each, whether the epoch was new.
    pub fn begin_epochs(&self, logs: &[(Arc<Log>, i32)]) -> Vec<Result<bool, StorageError>> {
        logs.iter()
            .map(|(log, epoch)| log.begin_epoch(*epoch))
            .collect()
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
    for entry in std::fs::read_dir(dir).map_err(StorageError::io("list", dir))? {
        let name = entry.map_err(StorageError::io("list", dir))?.file_name();
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
