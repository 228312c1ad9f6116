//! What an order needs, seen against what is hosted and what lies on disk.

use std::sync::Arc;

use pybroker_model::TopicIdPartition;

use crate::log_dirs::{Dir, Found, FoundDir, Placement};
use crate::{
    PARTITION_INDEX_MAX, Partition, PartitionError, PartitionOrder, Replicas, Role, StopOrder,
    TopicMap,
};

/// What an order needs.
#[derive(Debug)]
pub(super) enum Step {
    /// Nothing more: it is refused.
    Refused(PartitionError),
    /// The partition is hosted.
    Hosted(Arc<Partition>),
    /// Its directory lies on disk.
    Open(FoundDir),
    /// A new directory, in the log directory with this position.
    Create(usize),
}

impl Replicas {
    /// Step 1, and the staging of step 2.
    pub(super) fn judge(
        &self,
        order: &PartitionOrder,
        map: &TopicMap<Partition>,
        found: &mut Found,
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
            // It could not be opened when it was ordered before: try again.
        }
        self.retire_older(order, map, found, now_ms)?;
        if let Some(lies) = found.take(tip) {
            return Ok(Step::Open(lies));
        }
        // The controller corrects itself before the removal, or a replica that was reassigned away comes back: what it
        // had is brought up to date as after any absence.
        if self.restore_locked(tip, &order.topic, found)? {
            return found
                .take(tip)
                .map(Step::Open)
                .ok_or_else(|| PartitionError::storage("a restored directory is lost"));
        }
        if !order.is_new && self.dirs.any_offline() {
            // It may well lie in a directory that failed (KAFKA-16234): an empty one here would lose data.
            return Err(PartitionError::storage("a log directory is offline"));
        }
        if !order.is_new && order.replicas.len() > 1 && order.isr.contains(&self.config.broker_id) {
            // An empty log in sync would have the others throw away what they have.
            return Err(PartitionError::Missing);
        }
        placement
            .choose()
            .map(Step::Create)
            .ok_or_else(|| PartitionError::storage("no log directory is online"))
    }

    /// An older incarnation of the name gives way to one whose leader epoch is above every epoch it has here: the
    /// controller lets a name's epochs go on, so a real successor's always is. Otherwise nothing is touched.
    fn retire_older(
        &self,
        order: &PartitionOrder,
        map: &TopicMap<Partition>,
        found: &mut Found,
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
        for id in found.other_ids(&order.topic, order.tip) {
            if order.leader_epoch <= self.latest_epoch_on_disk(older(id), found)? {
                if found.get(order.tip).is_some() {
                    // Its own directory is there: the other proves nothing and stays where it is.
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
            for result in self.stop_locked(&stops, found, now_ms) {
                result?;
            }
        }
        Ok(())
    }

    /// The latest leader epoch of a directory that is not hosted; -1 if it has none. Nothing in it is touched.
    fn latest_epoch_on_disk(
        &self,
        tip: TopicIdPartition,
        found: &Found,
    ) -> Result<i32, PartitionError> {
        let Some(lies) = found.get(tip) else {
            return Ok(-1);
        };
        let log_dir = self.dirs.get(lies.dir).online()?;
        Ok(log_dir.latest_epoch(&lies.directory)?.unwrap_or(-1))
    }

    /// Where new partitions go: directories are chosen by what they hold now. With all of them cordoned any will do: the
    /// controller decided that the partition is here.
    pub(super) fn placement(&self, map: &TopicMap<Partition>, found: &Found) -> Placement {
        let all_cordoned = self.dirs.iter().all(Dir::is_cordoned);
        let mut counts: Vec<_> = (0..self.dirs.len())
            .map(|at| {
                let dir = self.dirs.get(at);
                let chosen = dir.online().is_ok() && (all_cordoned || !dir.is_cordoned());
                chosen.then(|| found.count(at))
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
