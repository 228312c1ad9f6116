//! Scan of the partition directories in a log directory, including the leftovers of crashes, moves and operators.

use super::LogDir;
use crate::error::StorageError;
use crate::file_names::{
    self, DELETING, FUTURE_DIR, INGEST, LEADER_EPOCHS, METADATA_LOG, REMOVED_DIR,
};
use crate::files;
use crate::leader_epochs::LeaderEpochs;
use crate::partition_metadata;
use pybroker_model::{TopicId, TopicIdPartition};
use std::path::PathBuf;

/// A partition directory found at start.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LocalPartition {
    /// Name in the log directory, for [`LogDir::open_log`].
    pub directory: String,
    /// Topic name, if the directory is named by topic.
    pub topic: Option<String>,
    /// Partition index; -1 if the name has none.
    pub partition: i32,
    /// Topic id from `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// Why the directory cannot be used, in words for the operator. The broker never deletes a directory for such a
    /// reason.
    pub problem: Option<String>,
    /// The partition's state in a move between log directories, see `moving`.
    pub moving: MoveState,
}

/// A directory's part in a move between log directories.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum MoveState {
    /// The directory is not part of a move: it is a partition.
    No,
    /// A copy. It is complete only if the original is marked as moved.
    Future,
    /// The original of a finished move, and the path that it has moved to.
    Moved(PathBuf),
    /// The original of a finished move, about to be removed.
    Removed,
}

impl LogDir {
    /// Return all partition directories, each with its identity or its problem. Opens no log.
    ///
    /// # Errors
    /// [`StorageError`] only if the log directory itself cannot be listed.
    pub fn scan(&self) -> Result<Vec<LocalPartition>, StorageError> {
        let mut names = Vec::new();
        for entry in files::entries(&self.path)? {
            let is_dir = entry.file_type().is_ok_and(|kind| kind.is_dir());
            let name = entry.file_name().to_string_lossy().into_owned();
            if is_dir && file_names::is_prefix(&name) {
                let inner = files::directories_in(&self.path.join(&name))?;
                names.extend(inner.iter().map(|inner| format!("{name}/{inner}")));
            } else if is_dir
                && name != DELETING
                && name != INGEST
                && name != METADATA_LOG
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
        let identity = if by_id.is_none() && topic.is_none() {
            Err(format!("directory {name:?} is not named as a partition"))
        } else {
            self.identity_of(name, by_id)
        };
        let (topic_id, problem) = match identity {
            Ok(id) => (Some(id), None),
            Err(problem) => (None, Some(problem)),
        };
        let (moving, problem) = match self.moved_to(name) {
            _ if future => (MoveState::Future, problem),
            Ok(Some(_)) if removed => (MoveState::Removed, problem),
            Ok(Some(to)) => (MoveState::Moved(to), problem),
            Ok(None) if removed => (
                MoveState::No,
                Some("Apache Kafka had marked it for removal".to_owned()),
            ),
            Ok(None) => (MoveState::No, problem),
            Err(error) => (MoveState::No, Some(error.to_string())),
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

    /// Return the topic id in `partition.metadata`, or the reason why it is not trusted, for example because it
    /// contradicts the directory's name.
    fn identity_of(&self, name: &str, named: Option<TopicIdPartition>) -> Result<TopicId, String> {
        let read = partition_metadata::read(&self.path.join(name));
        let found = read
            .map_err(|error| error.to_string())?
            .ok_or("partition.metadata is missing")?;
        match named {
            Some(id) if id.topic_id != found => Err(format!(
                "partition.metadata names another topic id, {found}"
            )),
            _ => Ok(found),
        }
    }

    /// Return the latest leader epoch in a directory's checkpoint; does not open the log or change anything.
    ///
    /// # Errors
    /// [`StorageError`] if the checkpoint cannot be read. The latest epoch is then unknown.
    pub fn latest_epoch(&self, directory: &str) -> Result<Option<i32>, StorageError> {
        let epochs = LeaderEpochs::read(&self.path.join(directory).join(LEADER_EPOCHS))?;
        Ok(epochs.latest().map(|entry| entry.epoch))
    }
}
