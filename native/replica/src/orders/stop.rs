//! StopReplica: stop hosting partitions; for a deletion, move their directories to `deleting/`.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use hashbrown::HashSet;
use pybroker_model::TopicIdPartition;
use pybroker_storage::Log;

use crate::log_dirs::{ReplicaDir, UnhostedReplicas};
use crate::{Partition, PartitionError, Replicas, Role, StopOrder};

impl Replicas {
    /// Carry out a batch of orders. Return a result for each. An order for a partition that is not hosted succeeds.
    /// Blocks on the disk.
    pub fn stop(&self, orders: &[StopOrder], now_ms: i64) -> Vec<Result<(), PartitionError>> {
        let mut unhosted = self.unhosted.lock();
        self.stop_locked(orders, &mut unhosted, now_ms)
    }

    /// Like `stop`, for a caller that holds the lock. The steps are: remove the partitions from the map (no new
    /// requests), change their roles (running requests end, waiters wake), close the logs, rename the directories.
    pub(crate) fn stop_locked(
        &self,
        orders: &[StopOrder],
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) -> Vec<Result<(), PartitionError>> {
        for order in orders {
            self.moves.cancel(order.tip);
        }
        let map = self.map.load_full();
        let mut seen = HashSet::new();
        let judged: Vec<Result<Option<Arc<Partition>>, PartitionError>> = orders
            .iter()
            .map(|order| {
                if !seen.insert(order.tip) {
                    // An earlier order of the same request already stops the partition.
                    return Ok(None);
                }
                let Some(partition) = map.partition(order.tip.topic_id, order.tip.partition) else {
                    return Ok(None);
                };
                let current = partition.leader_epoch();
                if order.leader_epoch >= 0 && order.leader_epoch < current {
                    return Err(PartitionError::FencedLeaderEpoch {
                        requested: order.leader_epoch,
                        current,
                    });
                }
                Ok(Some(Arc::clone(partition)))
            })
            .collect();
        let stopping = orders
            .iter()
            .zip(&judged)
            .filter(|(_, judged)| matches!(judged, Ok(Some(_))));
        let removed: Vec<_> = stopping
            .map(|(order, _)| (order.tip.topic_id, order.tip.partition))
            .collect();
        if !removed.is_empty() {
            self.map.store(Arc::new(map.with(&removed, Vec::new())));
        }
        for (order, judged) in orders.iter().zip(&judged) {
            if let Ok(Some(partition)) = judged {
                partition.step_down(Role::Stopped {
                    deleted: order.delete,
                });
            }
        }
        let mut results: Vec<_> = orders
            .iter()
            .zip(&judged)
            .map(|(order, judged)| match judged {
                Err(error) => Err(error.clone()),
                Ok(Some(partition)) => self.close_stopped(partition, order, unhosted, now_ms),
                Ok(None) if order.delete => match unhosted.take(order.tip) {
                    Some(replica_dir) => self
                        .stage(order.tip, replica_dir, unhosted, now_ms)
                        .map(|_| ()),
                    None => Ok(()),
                },
                Ok(None) => Ok(()),
            })
            .collect();
        self.stage_stopped(orders, &judged, &mut results, unhosted, now_ms);
        self.forget_configs(orders.iter().map(|order| order.tip.topic_id));
        results
    }

    /// Close the log of a stopped partition and put its directory back into the table. [`Replicas::stage_stopped`]
    /// handles the directories that must be staged.
    fn close_stopped(
        &self,
        partition: &Partition,
        order: &StopOrder,
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) -> Result<(), PartitionError> {
        let (Some(log), Some(dir)) = (partition.log(), partition.dir()) else {
            // The partition's log failed to open, and its directory is already in the table.
            if order.delete
                && let Some(replica_dir) = unhosted.take(order.tip)
            {
                self.stage(order.tip, replica_dir, unhosted, now_ms)?;
            }
            return Ok(());
        };
        if order.delete {
            self.legacies
                .leave(partition.topic(), partition.tip().partition, log);
            return Ok(());
        }
        let closed = log.close(true);
        self.keep_in_mind(partition, log.directory(), dir, unhosted);
        closed.map_err(Into::into)
    }

    /// Stage the directories of deleted partitions, all of a log directory together. If a directory cannot be staged,
    /// put it back into the table.
    fn stage_stopped(
        &self,
        orders: &[StopOrder],
        judged: &[Result<Option<Arc<Partition>>, PartitionError>],
        results: &mut [Result<(), PartitionError>],
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) {
        let deadline_ms = now_ms.saturating_add(self.config.delete_delay_ms);
        let mut doomed: Vec<Vec<(usize, &Arc<Partition>, &Log)>> =
            vec![Vec::new(); self.dirs.len()];
        for (at, (order, judged)) in orders.iter().zip(judged).enumerate() {
            if let Ok(Some(partition)) = judged
                && order.delete
                && let (Some(log), Some(dir)) = (partition.log(), partition.dir())
            {
                doomed[dir].push((at, partition, log.as_ref()));
            }
        }
        for (dir, doomed) in doomed.into_iter().enumerate() {
            if doomed.is_empty() {
                continue;
            }
            let logs: Vec<&Log> = doomed.iter().map(|(_, _, log)| *log).collect();
            let staged: Vec<Result<(), PartitionError>> = match self.dirs.get(dir).online() {
                Ok(log_dir) => log_dir
                    .stage_logs(&logs, deadline_ms)
                    .into_iter()
                    .map(|staged| staged.map(|_| ()).map_err(Into::into))
                    .collect(),
                Err(error) => vec![Err(error); logs.len()],
            };
            for ((at, partition, log), staged) in doomed.into_iter().zip(staged) {
                if staged.is_err() {
                    self.keep_in_mind(partition, log.directory(), dir, unhosted);
                }
                results[at] = staged;
            }
        }
    }

    /// Put the directory of a stopped partition into the table, where it waits for an order.
    fn keep_in_mind(
        &self,
        partition: &Partition,
        path: PathBuf,
        dir: usize,
        unhosted: &mut UnhostedReplicas,
    ) {
        let directory = self
            .dirs
            .holding(&path)
            .map_or_else(|| path.to_string_lossy().into_owned(), |(_, _, name)| name);
        let replica_dir = ReplicaDir {
            dir,
            directory,
            topic: Some(Arc::clone(partition.topic())),
        };
        // The table has no other entry for the partition, because hosted partitions are not in it.
        drop(unhosted.add(partition.tip(), replica_dir));
    }

    /// Stage a directory whose log is closed. On failure, put it back into the table.
    pub(crate) fn stage(
        &self,
        tip: TopicIdPartition,
        replica_dir: ReplicaDir,
        unhosted: &mut UnhostedReplicas,
        now_ms: i64,
    ) -> Result<PathBuf, PartitionError> {
        let deadline_ms = now_ms.saturating_add(self.config.delete_delay_ms);
        let staged = match self.dirs.get(replica_dir.dir).online() {
            Ok(log_dir) => log_dir
                .stage_directory(&replica_dir.directory, tip, deadline_ms)
                .map_err(Into::into),
            Err(error) => Err(error),
        };
        if staged.is_err() {
            drop(unhosted.add(tip, replica_dir));
        }
        staged
    }

    /// Move a directory that the scan found and that is not hosted to `deleting/`; return its new path. Blocks on the
    /// disk.
    ///
    /// # Errors
    /// `Invalid` for any other path, `Storage`.
    pub fn stage_directory(&self, path: &Path, now_ms: i64) -> Result<PathBuf, PartitionError> {
        let unknown = PartitionError::Invalid(
            "not a partition directory that the scan found and no partition uses",
        );
        let mut unhosted = self.unhosted.lock();
        let Some((dir, _, name)) = self.dirs.holding(path) else {
            return Err(unknown);
        };
        let Some(tip) = unhosted.of_directory(dir, &name) else {
            return Err(unknown);
        };
        let Some(replica_dir) = unhosted.take(tip) else {
            return Err(unknown);
        };
        self.stage(tip, replica_dir, &mut unhosted, now_ms)
    }
}
