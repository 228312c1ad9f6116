//! Undelete and the write fence. An undelete moves partitions back from `deleting/`. The fence refuses appends before a
//! deletion.

use std::sync::Arc;

use pybroker_model::{TopicId, TopicIdPartition};

use crate::log_dirs::{ReplicaDir, UnhostedReplicas};
use crate::{PartitionError, Replicas, Role};

impl Replicas {
    /// Move staged partitions back under a topic's name. Return a result for each. The broker serves a partition after
    /// the next order for it. Succeeds for partitions that were moved back before. Blocks on the disk.
    pub fn restore(
        &self,
        partitions: &[TopicIdPartition],
        topic: &Arc<str>,
        now_ms: i64,
    ) -> Vec<Result<(), PartitionError>> {
        let mut unhosted = self.unhosted.lock();
        partitions
            .iter()
            .map(|tip| self.restore_one(*tip, topic, &mut unhosted, now_ms))
            .collect()
    }

    fn restore_one(
        &self,
        tip: TopicIdPartition,
        topic: &Arc<str>,
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        if self.partition(tip).is_some() {
            return Ok(());
        }
        if let Some(replica_dir) = unhosted.get(tip) {
            if replica_dir.topic.as_ref() == Some(topic) {
                return Ok(());
            }
            // The directory was never staged and still has its former name, so stage it first.
            if let Some(replica_dir) = unhosted.take(tip) {
                self.stage(tip, replica_dir, unhosted, now_ms)?;
            }
        }
        if self.restore_locked(tip, topic, unhosted)? {
            return Ok(());
        }
        if self.dirs.any_offline() {
            return Err(PartitionError::storage("a log directory is offline"));
        }
        Err(PartitionError::Deleted)
    }

    /// Like `restore`, for a caller that holds the lock; return whether a staged directory was found.
    pub(crate) fn restore_locked(
        &self,
        tip: TopicIdPartition,
        topic: &Arc<str>,
        unhosted: &mut UnhostedReplicas,
    ) -> Result<bool, PartitionError> {
        for (dir, one) in self.dirs.iter().enumerate() {
            let Ok(log_dir) = one.online() else { continue };
            if let Some(directory) = log_dir.restore(tip, topic)? {
                let replica_dir = ReplicaDir {
                    dir,
                    directory,
                    topic: Some(Arc::clone(topic)),
                };
                // The caller has checked that the table has no other entry for this partition.
                drop(unhosted.add(tip, replica_dir));
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// Write the values that are noted in restored directories into the checkpoints. Call this after the partitions
    /// were opened.
    pub(crate) fn settle_restored(&self) {
        for (at, dir) in self.dirs.iter().enumerate() {
            if let Ok(log_dir) = dir.online()
                && log_dir.has_restored()
                && let Err(error) = log_dir.settle_restored(&self.logs_of(at))
            {
                self.report_storage(&"checkpoint of restored partitions", &error);
            }
        }
    }

    /// Stop serving deleted topics at once and wake their waiters. The logs stay open until a later order stops the
    /// partitions, so that a deletion does not wait for the removal of files.
    pub fn retire(&self, topics: &[TopicId]) {
        let map = self.snapshot();
        for topic in topics.iter().filter_map(|id| map.topic(*id)) {
            for (_, partition) in topic.partitions() {
                partition.step_down(Role::Stopped { deleted: true });
            }
        }
    }

    /// Set or clear the write fence of a topic's partitions, see `Partition::set_fenced`. Return the index, log start
    /// and log end of each partition.
    pub fn set_fenced(&self, topic_id: TopicId, fenced: bool) -> Vec<(i32, i64, i64)> {
        let map = self.snapshot();
        let Some(topic) = map.topic(topic_id) else {
            return Vec::new();
        };
        topic
            .partitions()
            .map(|(index, partition)| {
                partition.set_fenced(fenced);
                (
                    index,
                    partition.log_start_offset(),
                    partition.log_end_offset(),
                )
            })
            .collect()
    }
}
