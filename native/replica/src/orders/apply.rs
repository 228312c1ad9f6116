//! LeaderAndIsr: host partitions and lead or follow, many at once.
//!
//! 1. Compare each order with the hosted partitions and the directories on disk, which gives a [`Step`].
//! 2. Stage directories of older incarnations that a proven successor replaces.
//! 3. Create the missing directories, all of a log directory together. Then open all logs in parallel.
//! 4. Flush unflushed records of new leaders together, then give each partition its role.
//! 5. Publish everything with one swap of the map.

use std::sync::Arc;

use hashbrown::HashSet;
use pybroker_model::TopicId;
use pybroker_storage::{Layout, Log, NewPartition, StorageError};

use super::judge::Step;
use crate::log_dirs::{OpenRequest, ReplicaDir, UnhostedReplicas};
use crate::{Leader, Partition, PartitionError, PartitionOrder, Replicas, TopicMap, TopicMapEntry};

impl Replicas {
    /// Carry out a batch of orders; return a result for each. Blocks on the disk.
    pub fn apply(&self, orders: &[PartitionOrder], now_ms: i64) -> Vec<Result<(), PartitionError>> {
        let mut unhosted = self.unhosted.lock();
        let map = self.map.load_full();
        let mut placement = self.placement(&map, &unhosted);
        let mut seen = HashSet::new();
        let mut steps = Vec::with_capacity(orders.len());
        for order in orders {
            let step = if seen.insert(order.tip) {
                self.judge(order, &map, &mut unhosted, &mut placement, now_ms)
            } else {
                Err(PartitionError::Invalid(
                    "the partition is in the request twice",
                ))
            };
            steps.push(step.unwrap_or_else(Step::Refused));
        }

        self.create_directories(orders, &mut steps);
        self.relocate_directories(orders, &mut steps);
        let logs = self.open_logs(orders, &steps, now_ms);
        let mut partitions: Vec<Result<Arc<Partition>, PartitionError>> =
            Vec::with_capacity(orders.len());
        for ((order, step), log) in orders.iter().zip(steps).zip(logs) {
            partitions.push(match (step, log) {
                (Step::Refused(error), _) => Err(error),
                (Step::Hosted(partition), _) => {
                    partition.set_config(&order.config);
                    Ok(partition)
                }
                (Step::Open(replica_dir), Some(Ok(log))) => {
                    self.host(order, &replica_dir, log, now_ms)
                }
                (Step::Open(replica_dir), Some(Err(error))) => {
                    Ok(self.host_offline(order, replica_dir, &error, &mut unhosted))
                }
                // All directories to open or create were opened or refused in earlier steps.
                (Step::Open(_) | Step::Create(_), _) => Err(PartitionError::storage("not opened")),
            });
        }
        let results = self.take_roles(orders, &partitions);
        self.publish(orders, &partitions, &map);
        for partition in partitions.iter().flatten() {
            self.catch_up_config(partition);
        }
        self.settle_restored();
        results
    }

    /// Step 3, first half: create directories.
    fn create_directories(&self, orders: &[PartitionOrder], steps: &mut [Step]) {
        for dir in 0..self.dirs.len() {
            let new: Vec<usize> = (0..steps.len())
                .filter(|&at| matches!(steps[at], Step::Create(to) if to == dir))
                .collect();
            if new.is_empty() {
                continue;
            }
            let partitions: Vec<_> = new
                .iter()
                .map(|&at| self.new_partition(&orders[at]))
                .collect();
            let created = self.dirs.create(dir, &partitions);
            for (at, result) in new.into_iter().zip(created) {
                steps[at] = result.map_or_else(Step::Refused, Step::Open);
            }
        }
    }

    fn new_partition(&self, order: &PartitionOrder) -> NewPartition {
        NewPartition {
            topic: order.topic.to_string(),
            id: order.tip,
            leader_epoch: (order.leader == self.config.broker_id).then_some(order.leader_epoch),
        }
    }

    /// If the layout by id is configured, rename directories that are named by topic. The reverse never happens: older
    /// brokers cannot read the layout by id, so an existing directory keeps it.
    fn relocate_directories(&self, orders: &[PartitionOrder], steps: &mut [Step]) {
        if self.config.layout != Layout::TopicId {
            return;
        }
        for dir in 0..self.dirs.len() {
            let Ok(log_dir) = self.dirs.get(dir).online() else {
                continue;
            };
            let mut at = Vec::new();
            let mut wanted = Vec::new();
            for (index, step) in steps.iter().enumerate() {
                if let Step::Open(replica_dir) = step
                    && replica_dir.dir == dir
                    && !replica_dir.directory.contains('/')
                {
                    at.push(index);
                    wanted.push((replica_dir.directory.clone(), orders[index].tip));
                }
            }
            if wanted.is_empty() {
                continue;
            }
            let named: Vec<_> = wanted
                .iter()
                .map(|(name, tip)| (name.as_str(), *tip))
                .collect();
            for (index, renamed) in at.into_iter().zip(log_dir.relocate(&named)) {
                match (&mut steps[index], renamed) {
                    (Step::Open(replica_dir), Ok(name)) => replica_dir.directory = name,
                    (_, Ok(_)) => {}
                    // The partition is served under its old directory name. The next start retries the rename.
                    (_, Err(error)) => self.report(&format!(
                        "cannot rename the directory of {}-{} to its topic id: {error}",
                        orders[index].topic, orders[index].tip.partition
                    )),
                }
            }
        }
    }

    /// Step 3, second half: open the logs. The result has `Some` for each order with a log to open.
    fn open_logs(
        &self,
        orders: &[PartitionOrder],
        steps: &[Step],
        now_ms: i64,
    ) -> Vec<Option<Result<Arc<Log>, StorageError>>> {
        let mut at = Vec::new();
        let mut requests = Vec::new();
        for (index, step) in steps.iter().enumerate() {
            if let Step::Open(replica_dir) = step {
                let order = &orders[index];
                at.push(index);
                requests.push(OpenRequest {
                    topic: &order.topic,
                    replica_dir,
                    tip: order.tip,
                    config: Arc::clone(&order.config.log),
                });
            }
        }
        let opened = self.dirs.open_logs(
            &requests,
            self.config.threads_per_dir,
            now_ms,
            &self.config.report,
        );
        let mut logs: Vec<Option<Result<Arc<Log>, StorageError>>> = Vec::new();
        logs.resize_with(steps.len(), || None);
        for (index, log) in at.into_iter().zip(opened) {
            logs[index] = Some(log);
        }
        logs
    }

    fn host(
        &self,
        order: &PartitionOrder,
        replica_dir: &ReplicaDir,
        log: Arc<Log>,
        now_ms: i64,
    ) -> Result<Arc<Partition>, PartitionError> {
        let log_dir = Arc::clone(self.dirs.get(replica_dir.dir).online()?);
        // Each order repeats this step, so that the next order completes it after a crash. It never truncates a log
        // that has records.
        if log.log_end_offset() < order.start_offset {
            if log.log_start_offset() < log.log_end_offset() {
                let (end, start) = (log.log_end_offset(), order.start_offset);
                self.report(&format!(
                    "{} of {}-{} ends at {end}, below the start {start} of its topic; the broker does not truncate it",
                    replica_dir.directory, order.topic, order.tip.partition
                ));
            } else {
                log.truncate_fully_and_start_at(order.start_offset, now_ms)?;
            }
        }
        self.legacies
            .hand_over(&order.topic, order.tip.partition, &log);
        let (topic, config) = (Arc::clone(&order.topic), Arc::clone(&order.config));
        Ok(Partition::hosting(
            order.tip,
            topic,
            self.config.broker_id,
            config,
            log,
            (replica_dir.dir, log_dir),
            &self.proposals,
        ))
    }

    /// Host a partition whose log failed to open; it responds with that error. Its directory stays in the table, so
    /// that a later order retries and a deletion stages it.
    fn host_offline(
        &self,
        order: &PartitionOrder,
        replica_dir: ReplicaDir,
        error: &StorageError,
        unhosted: &mut UnhostedReplicas,
    ) -> Arc<Partition> {
        self.report(&format!(
            "{} of {}-{} is offline: {error}",
            replica_dir.directory, order.topic, order.tip.partition
        ));
        // The entry was just removed from the table, so the table has no other one.
        drop(unhosted.add(order.tip, replica_dir));
        let (topic, config) = (Arc::clone(&order.topic), Arc::clone(&order.config));
        let reason = Arc::from(error.to_string());
        Partition::offline(
            order.tip,
            topic,
            self.config.broker_id,
            config,
            order.leader_epoch,
            reason,
        )
    }

    /// Step 4: flush the new leaders' logs, then assign the roles.
    fn take_roles(
        &self,
        orders: &[PartitionOrder],
        partitions: &[Result<Arc<Partition>, PartitionError>],
    ) -> Vec<Result<(), PartitionError>> {
        let leads = |order: &PartitionOrder| order.leader == self.config.broker_id;
        let hosted = orders.iter().zip(partitions);
        self.prepare_leaders(
            hosted
                .clone()
                .filter(|(order, _)| leads(order))
                .filter_map(|(_, partition)| partition.as_ref().ok()),
        );
        let now = self.config.clock.now();
        let roles = hosted.map(|(order, partition)| {
            let partition = partition.as_ref().map_err(Clone::clone)?;
            if !leads(order) {
                return partition.follow(order.leader, order.leader_epoch);
            }
            if partition.declines_to_lead(&order.isr) {
                return Err(PartitionError::storage(
                    "some of its records are damaged; another replica must lead",
                ));
            }
            let leader = Leader {
                leader_epoch: order.leader_epoch,
                isr: Arc::clone(&order.isr),
                replicas: Arc::clone(&order.replicas),
                version: order.version,
                start_offset: 0,
            };
            partition.become_leader(leader, now)
        });
        roles.collect()
    }

    /// Flush the recovered records of all new leaders together. Their epochs begin only when they take their roles;
    /// until then a partition may still be a follower and append.
    fn prepare_leaders<'a>(&self, leaders: impl Iterator<Item = &'a Arc<Partition>>) {
        let unflushed: Vec<(usize, Arc<Log>)> = leaders
            .filter_map(|partition| Some((partition.dir()?, partition.log()?)))
            .filter(|(_, log)| log.unflushed_records() > 0)
            .map(|(dir, log)| (dir, Arc::clone(log)))
            .collect();
        self.flush_recovered(&unflushed);
    }

    /// Flush records that a crash left in the page cache. Consumers may have read them before the crash, so the high
    /// watermark must not start below them.
    fn flush_recovered(&self, logs: &[(usize, Arc<Log>)]) {
        // Request all flushes before waiting for any of them, so that the flusher can batch them.
        for (dir, log) in logs {
            if let Ok(log_dir) = self.dirs.get(*dir).online() {
                log_dir.flusher().request(log);
            }
        }
        for (_, log) in logs {
            if let Err(error) = log.flush() {
                self.report_storage(&log.id(), &error);
            }
        }
    }

    /// Step 5: publish the new partitions.
    fn publish(
        &self,
        orders: &[PartitionOrder],
        partitions: &[Result<Arc<Partition>, PartitionError>],
        before: &TopicMap<Partition>,
    ) {
        let new = |id: TopicId, index, partition: &Arc<Partition>| {
            !before
                .partition(id, index)
                .is_some_and(|known| Arc::ptr_eq(known, partition))
        };
        let inserted: Vec<_> = orders
            .iter()
            .zip(partitions)
            .filter_map(|(order, partition)| Some((order.tip, partition.as_ref().ok()?)))
            .filter(|(tip, partition)| new(tip.topic_id, tip.partition, partition))
            .map(|(tip, partition)| TopicMapEntry {
                id: tip.topic_id,
                name: Arc::clone(partition.topic()),
                index: tip.partition,
                partition: Arc::clone(partition),
            })
            .collect();
        if !inserted.is_empty() {
            // Load the map again, because staging an older incarnation has changed it.
            let map = self.map.load().with(&[], inserted);
            self.map.store(Arc::new(map));
        }
    }
}
