//! The checkpoint files of a log directory, and whose offsets they hold. Kafka's format names the topic and the
//! partition, not the incarnation: what was noted for one must never be taken for its successor of the same name (a
//! log start would hide the successor's first records).

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

/// See the module.
#[derive(Debug)]
pub(super) struct Checkpoints {
    dir: PathBuf,
    /// What each file said at start.
    at_start: HashMap<&'static str, OffsetsByPartition>,
    known: Mutex<Known>,
}

/// Which partitions have an entry in which file, and which got a directory since the files were read. Hashes of
/// (topic, partition): a collision costs a rewrite, or a recovery without checkpoints.
#[derive(Debug, Default)]
struct Known {
    in_file: HashMap<&'static str, HashSet<u64>>,
    renewed: HashSet<u64>,
}

fn key(topic: &str, partition: i32) -> u64 {
    let mut hasher = DefaultHasher::new();
    (topic, partition).hash(&mut hasher);
    hasher.finish()
}

impl Checkpoints {
    /// Reads the files in `dir`. One that cannot be read counts as empty and is told of in `problems`.
    pub(super) fn read(dir: &Path, problems: &mut Vec<String>) -> Self {
        let mut at_start = HashMap::new();
        let mut known = Known::default();
        for file in FILES {
            let offsets = checkpoint::read_offsets(&dir.join(file)).unwrap_or_else(|error| {
                problems.push(error.to_string());
                OffsetsByPartition::new()
            });
            let keys = offsets.keys().map(|(topic, index)| key(topic, *index));
            known.in_file.insert(file, keys.collect());
            at_start.insert(file, offsets);
        }
        Self {
            dir: dir.to_path_buf(),
            at_start,
            known: Mutex::new(known),
        }
    }

    /// What `file` said at start about the partition that lies here now.
    pub(super) fn at_start(&self, file: &str, topic: &str, partition: i32) -> Option<i64> {
        if self.is_renewed(topic, partition) {
            return None;
        }
        let offsets = self.at_start.get(file)?;
        offsets.get(&(topic.to_owned(), partition)).copied()
    }

    /// Whether a partition's directory was made, or brought back, since the checkpoints were read: they say nothing
    /// about it then.
    pub(super) fn is_renewed(&self, topic: &str, partition: i32) -> bool {
        self.known.lock().renewed.contains(&key(topic, partition))
    }

    /// Replaces a file, durably. Logs that were staged for deletion meanwhile are left out.
    pub(super) fn write<'a>(
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
        checkpoint::write_offsets(&self.dir.join(file), entries)?;
        known.in_file.insert(file, keys);
        Ok(())
    }

    /// Before directories of these partitions come into being: nothing that a checkpoint says about an earlier
    /// incarnation counts for them, now and after a crash.
    pub(super) fn forget<'a>(
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
            let path = self.dir.join(file);
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
