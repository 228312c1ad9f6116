//! Checkpoint files of a log directory, and the partitions that their offsets belong to. Kafka's format has the topic
//! and the partition but no topic id. So this module ensures that a value of a deleted topic never applies to a new
//! topic of the same name. For example, an old log start would hide the new topic's first records.

use crate::checkpoint::{self, OffsetsByPartition};
use crate::error::StorageError;
use crate::file_names::{CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS};
use crate::log::Log;
use parking_lot::Mutex;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::Ordering;

const FILES: [&str; 4] = [RECOVERY_POINTS, LOG_STARTS, CLEANED_TO, HIGH_WATERMARKS];

/// Checkpoint files of a log directory.
#[derive(Debug)]
pub(super) struct Checkpoints {
    dir: PathBuf,
    /// Content of each file at start.
    at_start: HashMap<&'static str, OffsetsByPartition>,
    checkpointed: Mutex<CheckpointedPartitions>,
}

/// Partitions with an entry in each file, and partitions whose directory was created since the files were read. Stored
/// as hashes of (topic, partition). A collision costs a rewrite, or a recovery without checkpoints.
#[derive(Debug, Default)]
struct CheckpointedPartitions {
    in_file: HashMap<&'static str, HashSet<u64>>,
    renewed: HashSet<u64>,
}

fn key(topic: &str, partition: i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (topic, partition).hash(&mut hasher);
    hasher.finish()
}

impl Checkpoints {
    /// Read the files in `dir`. An unreadable one counts as empty and is added to `problems`.
    pub(super) fn read(dir: &Path, problems: &mut Vec<String>) -> Self {
        let mut at_start = HashMap::new();
        let mut checkpointed = CheckpointedPartitions::default();
        for file in FILES {
            let offsets = checkpoint::read_offsets(&dir.join(file)).unwrap_or_else(|error| {
                problems.push(error.to_string());
                OffsetsByPartition::new()
            });
            let keys = offsets.keys().map(|(topic, index)| key(topic, *index));
            checkpointed.in_file.insert(file, keys.collect());
            at_start.insert(file, offsets);
        }
        Self {
            dir: dir.to_path_buf(),
            at_start,
            checkpointed: Mutex::new(checkpointed),
        }
    }

    /// Return the value that `file` had at start for the partition's current incarnation.
    pub(super) fn at_start(&self, file: &str, topic: &str, partition: i32) -> Option<i64> {
        if self.is_renewed(topic, partition) {
            return None;
        }
        let offsets = self.at_start.get(file)?;
        offsets.get(&(topic.to_owned(), partition)).copied()
    }

    /// Return whether a partition's directory was created or restored since the checkpoints were read, so that they do
    /// not apply to it.
    pub(super) fn is_renewed(&self, topic: &str, partition: i32) -> bool {
        self.checkpointed
            .lock()
            .renewed
            .contains(&key(topic, partition))
    }

    /// Replace a checkpoint file, durably. Leaves out logs that were staged for deletion meanwhile.
    pub(super) fn write<'a>(
        &self,
        file: &'static str,
        entries: impl Iterator<Item = (&'a Arc<Log>, i64)>,
    ) -> Result<(), StorageError> {
        // Hold the lock while the file is written, so that `forget` runs entirely before or after it.
        let mut checkpointed = self.checkpointed.lock();
        let mut keys = HashSet::new();
        let entries = entries
            .filter(|(log, _)| !log.staged.load(Ordering::Acquire))
            .map(|(log, offset)| {
                keys.insert(key(log.topic(), log.id().partition));
                (log.topic(), log.id().partition, offset)
            });
        checkpoint::write_offsets(&self.dir.join(file), entries)?;
        checkpointed.in_file.insert(file, keys);
        Ok(())
    }

    /// Drop the entries of these partitions before their directories are created. No value of an earlier incarnation
    /// then applies to them, even after a crash.
    pub(super) fn forget<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a str, i32)>,
    ) -> Result<(), StorageError> {
        let keys: HashSet<u64> = partitions.map(|(topic, index)| key(topic, index)).collect();
        let mut checkpointed = self.checkpointed.lock();
        for file in FILES {
            let Some(held) = checkpointed
                .in_file
                .get_mut(file)
                .filter(|held| !held.is_disjoint(&keys))
            else {
                continue;
            };
            let path = self.dir.join(file);
            let mut offsets = checkpoint::read_offsets(&path)?;
            offsets.retain(|(topic, index), _| !keys.contains(&key(topic, *index)));
            let entries = offsets
                .iter()
                .map(|((topic, index), offset)| (topic.as_str(), *index, *offset));
            checkpoint::write_offsets(&path, entries)?;
            held.retain(|one| !keys.contains(one));
        }
        checkpointed.renewed.extend(keys);
        Ok(())
    }
}
