//! Decides what an order requires, from the hosted partitions and the directories on disk.

use std::sync::Arc;

use pybroker_model::TopicIdPartition;

use crate::log_dirs::{Dir, Placement, ReplicaDir, UnhostedReplicas};
use crate::{
    PARTITION_INDEX_MAX, Partition, PartitionError, PartitionOrder, Replicas, Role, StopOrder,
    TopicMap,
};

/// Next step for an order.
#[derive(Debug)]
pub(super) enum Step {
    /// The order is refused.
    Refused(PartitionError),
    /// The partition is hosted already.
    Hosted(Arc<Partition>),
    /// A directory for the partition exists on disk.
    Open(ReplicaDir),
    /// Create a directory in the log directory at this position.
    Create(usize),
}

impl Replicas {
    /// Carry out step 1, and stage directories of older incarnations (step 2).
    pub(super) fn judge(
        &self,
        order: &PartitionOrder,
        map: &TopicMap<Partition>,
        unhosted: &mut UnhostedReplicas,
        placement: &mut Placement,
        now_ms: i64,
    ) -> Result<Step, PartitionError> {
        let tip = order.tip;
        if !(0..=PARTITION_INDEX_MAX).contains(&tip.partition) {
            return Err(PartitionError::Invalid("partition index out of range"));
        }
        if let Some(partition) = map.partition(tip.topic_id, tip.partition) {
            let current = partition.leader_epoch();
            if order.leader_epoch < current {
                return Err(PartitionError::FencedLeaderEpoch {
                    requested: order.leader_epoch,
                    current,
                });
            }
            if partition.log().is_some() {
                return Ok(Step::Hosted(Arc::clone(partition)));
            }
            // The log failed to open before. Try again.
        }
        self.retire_older(order, map, unhosted, now_ms)?;
        if let Some(replica_dir) = unhosted.take(tip) {
            return Ok(Step::Open(replica_dir));
        }
        // The controller re-creates the replica before its staged files are removed, for example after a reassignment
        // back. The replica catches up as after any other downtime.
        if self.restore_locked(tip, &order.topic, unhosted)? {
            return unhosted
                .take(tip)
                .map(Step::Open)
                .ok_or_else(|| PartitionError::storage("a restored directory is lost"));
        }
        if !order.is_new && self.dirs.any_offline() {
            // The partition may be on the failed log directory (KAFKA-16234). A new, empty log would lose its data.
            return Err(PartitionError::storage("a log directory is offline"));
        }
        if !order.is_new && order.replicas.len() > 1 && order.isr.contains(&self.config.broker_id) {
            // Refuse, because the other replicas would truncate their logs to the empty log of an in-sync replica.
            return Err(PartitionError::Missing);
        }
        placement
            .choose()
            .map(Step::Create)
            .ok_or_else(|| PartitionError::storage("no log directory is online"))
    }

    /// Stage an older incarnation of the name if the order's leader epoch is above all its epochs. The controller
    /// continues a name's epochs across incarnations, so a real successor always passes. Otherwise change nothing.
    fn retire_older(
        &self,
        order: &PartitionOrder,
        map: &TopicMap<Partition>,
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        let older = |topic_id| TopicIdPartition {
            topic_id,
            partition: order.tip.partition,
        };
        let mut staged: Vec<TopicIdPartition> = Vec::new();
        if let Some(id) = map.topic_id(&order.topic)
            && id != order.tip.topic_id
            && let Some(partition) = map.partition(id, order.tip.partition)
            && !matches!(**partition.role(), Role::Stopped { deleted: false })
        {
            if order.leader_epoch <= partition.leader_epoch() {
                return Err(PartitionError::InconsistentTopicId);
            }
            staged.push(older(id));
        }
        for id in unhosted.other_ids(&order.topic, order.tip) {
            if order.leader_epoch <= self.latest_epoch_on_disk(older(id), unhosted)? {
                if unhosted.get(order.tip).is_some() {
                    // The order's own directory exists, so the order does not replace this older incarnation. Keep it.
                    continue;
                }
                return Err(PartitionError::InconsistentTopicId);
            }
            staged.push(older(id));
        }
        let stops: Vec<_> = staged
            .into_iter()
            .map(|tip| StopOrder {
                tip,
                leader_epoch: -2,
                delete: true,
            })
            .collect();
        if !stops.is_empty() {
            for result in self.stop_locked(&stops, unhosted, now_ms) {
                result?;
            }
        }
        Ok(())
    }

    /// Return the latest leader epoch of a directory that is not hosted, or -1 if it has none. Does not modify the
    /// directory.
    fn latest_epoch_on_disk(
        &self,
        tip: TopicIdPartition,
        unhosted: &UnhostedReplicas,
    ) -> Result<i32, PartitionError> {
        let Some(replica_dir) = unhosted.get(tip) else {
            return Ok(-1);
        };
        let log_dir = self.dirs.get(replica_dir.dir).online()?;
        Ok(log_dir.latest_epoch(&replica_dir.directory)?.unwrap_or(-1))
    }

    /// Return the placement of new partitions, based on the number of partitions in each directory. If all directories
    /// are cordoned, any of them may be chosen, because the controller placed the partition on this broker.
    pub(super) fn placement(
        &self,
        map: &TopicMap<Partition>,
        unhosted: &UnhostedReplicas,
    ) -> Placement {
        let all_cordoned = self.dirs.iter().all(Dir::is_cordoned);
        let mut counts: Vec<_> = (0..self.dirs.len())
            .map(|at| {
                let dir = self.dirs.get(at);
                let chosen = dir.online().is_ok() && (all_cordoned || !dir.is_cordoned());
                chosen.then(|| unhosted.count(at))
            })
            .collect();
        if counts.len() > 1 {
            for partition in map.partitions() {
                if let Some(Some(count)) = partition.dir().and_then(|dir| counts.get_mut(dir)) {
                    *count += 1;
                }
            }
        }
        Placement::new(counts)
    }
}
