//! Partition directories on disk that the broker does not host. The scan at start found them, and they wait for an
//! order.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use pybroker_model::{BuildIdHasher, TopicId, TopicIdPartition};

/// A partition directory that can be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ReplicaDir {
    /// Position of its log directory.
    pub(crate) dir: usize,
    /// The directory's name in the log directory.
    pub(crate) directory: String,
    /// Topic name from the directory's name.
    pub(crate) topic: Option<Arc<str>>,
}

/// Table of partition directories that are not hosted. Directories with a problem are not in it: the broker never
/// opens, moves or removes them.
#[derive(Debug, Default)]
pub(crate) struct UnhostedReplicas {
    /// Usually one directory for each id. There are several if an operator copied a directory, until the control plane
    /// sets the copy aside.
    by_id: HashMap<TopicIdPartition, Vec<ReplicaDir>, BuildIdHasher>,
    /// Topic ids by topic name and partition. Two log directories may have the same name with two ids.
    by_name: BTreeMap<(Arc<str>, i32), Vec<TopicId>>,
}

impl UnhostedReplicas {
    /// Add a directory. If the table already has one for the same id, partition and name, do not add it, and return the
    /// existing one.
    pub(crate) fn add(
        &mut self,
        tip: TopicIdPartition,
        added: ReplicaDir,
    ) -> Result<(), ReplicaDir> {
        let there = self.by_id.entry(tip).or_default();
        if let Some(earlier) = there
            .iter()
            .find(|one| one.topic == added.topic || one.topic.is_none() || added.topic.is_none())
        {
            return Err(earlier.clone());
        }
        if let Some(topic) = &added.topic {
            self.by_name
                .entry((Arc::clone(topic), tip.partition))
                .or_default()
                .push(tip.topic_id);
        }
        there.push(added);
        Ok(())
    }

    pub(crate) fn take(&mut self, tip: TopicIdPartition) -> Option<ReplicaDir> {
        let first = self.get(tip)?.clone();
        self.forget(tip, &first);
        Some(first)
    }

    /// Remove one directory from the table.
    fn forget(&mut self, tip: TopicIdPartition, gone: &ReplicaDir) {
        if let Some(there) = self.by_id.get_mut(&tip) {
            there.retain(|one| one != gone);
            if there.is_empty() {
                self.by_id.remove(&tip);
            }
        }
        if let Some(topic) = &gone.topic
            && let Some(ids) = self.by_name.get_mut(&(Arc::clone(topic), tip.partition))
        {
            ids.retain(|id| *id != tip.topic_id);
            if ids.is_empty() {
                self.by_name.remove(&(Arc::clone(topic), tip.partition));
            }
        }
    }

    /// Remove a directory that must not be opened, moved or removed.
    pub(crate) fn set_aside(&mut self, dir: usize, directory: &str) {
        if let Some((tip, replica_dir)) = self.entry_of(dir, directory) {
            self.forget(tip, &replica_dir);
        }
    }

    pub(crate) fn get(&self, tip: TopicIdPartition) -> Option<&ReplicaDir> {
        self.by_id.get(&tip)?.first()
    }

    /// Return other incarnations of the topic name on disk for this partition.
    pub(crate) fn other_ids(&self, topic: &Arc<str>, tip: TopicIdPartition) -> Vec<TopicId> {
        let ids = self.by_name.get(&(Arc::clone(topic), tip.partition));
        ids.map(|ids| {
            ids.iter()
                .copied()
                .filter(|id| *id != tip.topic_id)
                .collect()
        })
        .unwrap_or_default()
    }

    /// Return the partition that this directory belongs to.
    pub(crate) fn of_directory(&self, dir: usize, directory: &str) -> Option<TopicIdPartition> {
        self.entry_of(dir, directory).map(|(tip, _)| tip)
    }

    fn entry_of(&self, dir: usize, directory: &str) -> Option<(TopicIdPartition, ReplicaDir)> {
        self.by_id.iter().find_map(|(tip, there)| {
            let replica_dir = there
                .iter()
                .find(|one| one.dir == dir && one.directory == directory)?;
            Some((*tip, replica_dir.clone()))
        })
    }

    /// Return the number of directories in the log directory at this position.
    pub(crate) fn count(&self, dir: usize) -> usize {
        let in_dir = |there: &Vec<ReplicaDir>| {
            there
                .iter()
                .filter(|replica_dir| replica_dir.dir == dir)
                .count()
        };
        self.by_id.values().map(in_dir).sum()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_model::Uuid;

    fn tip(number: u128, partition: i32) -> TopicIdPartition {
        TopicIdPartition {
            topic_id: TopicId::new(Uuid::from_u128(number)).expect("not zero"),
            partition,
        }
    }

    fn dir(at: usize, path: &str) -> ReplicaDir {
        ReplicaDir {
            dir: at,
            directory: path.into(),
            topic: Some("t".into()),
        }
    }

    #[test]
    fn two_incarnations_of_a_name() {
        let mut unhosted = UnhostedReplicas::default();
        unhosted.add(tip(1, 0), dir(0, "a/t-0")).expect("new");
        unhosted.add(tip(2, 0), dir(1, "b/t-0")).expect("new");
        assert_eq!(
            unhosted.other_ids(&"t".into(), tip(2, 0)),
            [tip(1, 0).topic_id]
        );
        assert_eq!(unhosted.other_ids(&"t".into(), tip(3, 0)).len(), 2);
        assert!(unhosted.other_ids(&"t".into(), tip(3, 1)).is_empty());
        assert_eq!(unhosted.of_directory(1, "b/t-0"), Some(tip(2, 0)));
        assert!(unhosted.take(tip(1, 0)).is_some());
        assert!(unhosted.other_ids(&"t".into(), tip(2, 0)).is_empty());
        assert_eq!((unhosted.count(0), unhosted.count(1)), (0, 1));
    }

    #[test]
    fn the_same_partition_twice_keeps_the_first() {
        let mut unhosted = UnhostedReplicas::default();
        unhosted.add(tip(1, 0), dir(0, "a/t-0")).expect("new");
        assert_eq!(
            unhosted.add(tip(1, 0), dir(1, "b/t-0")),
            Err(dir(0, "a/t-0"))
        );
        assert_eq!(
            unhosted.get(tip(1, 0)).map(|unhosted| unhosted.dir),
            Some(0)
        );
        let copy = ReplicaDir {
            topic: Some("u".into()),
            ..dir(0, "u-0")
        };
        unhosted.add(tip(1, 0), copy).expect("another name");
        unhosted.set_aside(0, "u-0");
        assert_eq!(
            (
                unhosted.count(0),
                unhosted.other_ids(&"u".into(), tip(2, 0)).len()
            ),
            (1, 0)
        );
    }
}
