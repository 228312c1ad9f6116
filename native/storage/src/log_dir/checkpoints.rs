//! Whose offsets the checkpoint files hold. Kafka's format names the topic and the partition, not the incarnation:
//! what was noted for one must never be taken for its successor of the same name (a log start would hide the
//! successor's first records).

use super::LogDir;
use crate::checkpoint::{self, OffsetsByPartition};
use crate::error::StorageError;
use crate::file_names::{CLEANED_TO, HIGH_WATERMARKS, LOG_STARTS, RECOVERY_POINTS};
use crate::log::Log;
use std::collections::{HashMap, HashSet};
use std::hash::{DefaultHasher, Hash, Hasher};
use std::sync::Arc;
use std::sync::atomic::Ordering;

/// Which partitions have an entry in which file, and which got a directory since the files were read. Hashes of
/// (topic, partition): a collision costs a rewrite, or a recovery without checkpoints.
#[derive(Debug, Default)]
pub(super) struct Known {
    in_file: HashMap<&'static str, HashSet<u64>>,
    renewed: HashSet<u64>,
}

const FILES: [&str; 4] = [RECOVERY_POINTS, LOG_STARTS, CLEANED_TO, HIGH_WATERMARKS];

fn key(topic: &str, partition: i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (topic, partition).hash(&mut hasher);
    hasher.finish()
}

impl Known {
    /// Takes note of what a file holds at start.
    pub(super) fn read(&mut self, file: &'static str, offsets: &OffsetsByPartition) {
        let keys = offsets.keys().map(|(topic, index)| key(topic, *index));
        self.in_file.insert(file, keys.collect());
    }
}

impl LogDir {
    /// Whether a partition's directory was made, or brought back, since the checkpoints were read: they say nothing
    /// about it then.
    pub(super) fn is_renewed(&self, topic: &str, partition: i32) -> bool {
        self.known.lock().renewed.contains(&key(topic, partition))
    }

    /// Replaces a checkpoint file, durably. Logs that were staged for deletion meanwhile are left out.
    pub(super) fn write_checkpoint<'a>(
        &self,
        file: &'static str,
        entries: impl Iterator<Item = (&'a Arc<Log>, i64)>,
    ) -> Result<(), StorageError> {
        // Held while the file is written: who forgets a partition comes before or after, whole.
        let mut known = self.known.lock();
        let mut keys = HashSet::new();
        let entries = entries
            .filter(|(log, _)| !log.staged.load(Ordering::Acquire))
            .map(|(log, offset)| {
                keys.insert(key(log.topic(), log.id().partition));
                (log.topic(), log.id().partition, offset)
            });
        checkpoint::write_offsets(&self.path.join(file), entries)?;
        known.in_file.insert(file, keys);
        Ok(())
    }

    /// Before directories of these partitions come into being: nothing that a checkpoint says about an earlier
    /// incarnation counts for them, now and after a crash.
    pub(super) fn forget_checkpoints<'a>(
        &self,
        partitions: impl Iterator<Item = (&'a str, i32)>,
    ) -> Result<(), StorageError> {
        let keys: HashSet<u64> = partitions.map(|(topic, index)| key(topic, index)).collect();
        let mut known = self.known.lock();
        for file in FILES {
            let Some(held) = known
                .in_file
                .get_mut(file)
                .filter(|held| !held.is_disjoint(&keys))
            else {
                continue;
            };
            let path = self.path.join(file);
            let mut offsets = checkpoint::read_offsets(&path)?;
            offsets.retain(|(topic, index), _| !keys.contains(&key(topic, *index)));
            let entries = offsets
                .iter()
                .map(|((topic, index), offset)| (topic.as_str(), *index, *offset));
            checkpoint::write_offsets(&path, entries)?;
            held.retain(|one| !keys.contains(one));
        }
        known.renewed.extend(keys);
        Ok(())
    }
}
