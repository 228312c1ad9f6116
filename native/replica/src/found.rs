//! Partition directories that lie on disk without being hosted: found by the scan at start, waiting for an order.

use std::collections::BTreeMap;
use std::sync::Arc;

use hashbrown::HashMap;
use pybroker_model::{BuildIdHasher, TopicId, TopicIdPartition};

/// One of them, fit to be opened.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FoundDir {
    /// Position of its log directory.
    pub(crate) dir: usize,
    /// Its name in there.
    pub(crate) directory: String,
    /// From the directory's name.
    pub(crate) topic: Option<Arc<str>>,
}

/// The table of them. Directories with a problem are not in it: they are never opened, moved or removed.
#[derive(Debug, Default)]
pub(crate) struct Found {
    by_id: HashMap<TopicIdPartition, FoundDir, BuildIdHasher>,
    /// Incarnations by directory name: the same name may lie in two log directories with two ids.
    by_name: BTreeMap<(Arc<str>, i32), Vec<TopicId>>,
}

impl Found {
    /// Adds a directory. Gives the one that is there already for the same id and partition; the new one is then not
    /// added.
    pub(crate) fn add(&mut self, tip: TopicIdPartition, found: FoundDir) -> Result<(), FoundDir> {
        if let Some(earlier) = self.by_id.get(&tip) {
            return Err(earlier.clone());
        }
        if let Some(topic) = &found.topic {
            self.by_name
                .entry((Arc::clone(topic), tip.partition))
                .or_default()
                .push(tip.topic_id);
        }
        self.by_id.insert(tip, found);
        Ok(())
    }

    pub(crate) fn take(&mut self, tip: TopicIdPartition) -> Option<FoundDir> {
        let found = self.by_id.remove(&tip)?;
        if let Some(topic) = &found.topic
            && let Some(ids) = self.by_name.get_mut(&(Arc::clone(topic), tip.partition))
        {
            ids.retain(|id| *id != tip.topic_id);
            if ids.is_empty() {
                self.by_name.remove(&(Arc::clone(topic), tip.partition));
            }
        }
        Some(found)
    }

    pub(crate) fn get(&self, tip: TopicIdPartition) -> Option<&FoundDir> {
        self.by_id.get(&tip)
    }

    /// Other incarnations of a name that lie on disk for this partition.
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

    /// Whose directory this is.
    pub(crate) fn of_directory(&self, dir: usize, directory: &str) -> Option<TopicIdPartition> {
        self.by_id
            .iter()
            .find(|(_, found)| found.dir == dir && found.directory == directory)
            .map(|(tip, _)| *tip)
    }

    /// How many lie in the log directory with this position.
    pub(crate) fn count(&self, dir: usize) -> usize {
        self.by_id.values().filter(|found| found.dir == dir).count()
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

    fn dir(at: usize, path: &str) -> FoundDir {
        FoundDir {
            dir: at,
            directory: path.into(),
            topic: Some("t".into()),
        }
    }

    #[test]
    fn two_incarnations_of_a_name() {
        let mut found = Found::default();
        found.add(tip(1, 0), dir(0, "a/t-0")).expect("new");
        found.add(tip(2, 0), dir(1, "b/t-0")).expect("new");
        assert_eq!(
            found.other_ids(&"t".into(), tip(2, 0)),
            [tip(1, 0).topic_id]
        );
        assert_eq!(found.other_ids(&"t".into(), tip(3, 0)).len(), 2);
        assert!(found.other_ids(&"t".into(), tip(3, 1)).is_empty());
        assert_eq!(found.of_directory(1, "b/t-0"), Some(tip(2, 0)));
        assert!(found.take(tip(1, 0)).is_some());
        assert!(found.other_ids(&"t".into(), tip(2, 0)).is_empty());
        assert_eq!((found.count(0), found.count(1)), (0, 1));
    }

    #[test]
    fn the_same_partition_twice_keeps_the_first() {
        let mut found = Found::default();
        found.add(tip(1, 0), dir(0, "a/t-0")).expect("new");
        assert_eq!(found.add(tip(1, 0), dir(1, "b/t-0")), Err(dir(0, "a/t-0")));
        assert_eq!(found.get(tip(1, 0)).map(|found| found.dir), Some(0));
    }
}
