//! Scan of all log directories at start, which finds the location of each partition. Opens no log.

use std::path::PathBuf;

use pybroker_model::{TopicId, TopicIdPartition};
use pybroker_storage::StorageError;

use super::unfinished_moves::{ScannedDir, settle};
use super::{LogDirs, ReplicaDir, UnhostedReplicas};

/// A partition directory found by the scan at start.
#[derive(Debug, Clone)]
pub struct LocalPartition {
    /// Path of its log directory.
    pub log_dir: PathBuf,
    /// Path of the partition directory.
    pub directory: PathBuf,
    /// Topic name from the directory's name; `None` in the layout by id.
    pub topic: Option<String>,
    /// Partition index.
    pub partition: i32,
    /// Topic id from `partition.metadata`.
    pub topic_id: Option<TopicId>,
    /// Why the broker must not serve it, if there is a reason.
    pub problem: Option<String>,
}

impl LogDirs {
    /// Scan all partition directories without opening a log. The returned list contains all directories, the returned
    /// table only the usable ones.
    pub(crate) fn scan(
        &self,
        report: &dyn Fn(&str),
    ) -> Result<(UnhostedReplicas, Vec<LocalPartition>), StorageError> {
        let mut unhosted = UnhostedReplicas::default();
        let mut list = Vec::new();
        let mut scanned = Vec::new();
        for (at, dir) in self.dirs.iter().enumerate() {
            let Ok(log_dir) = dir.online() else { continue };
            let there = match log_dir.scan() {
                Ok(there) => there,
                Err(error) => {
                    // Continue with the other log directories. If none is left, the start fails, as when no directory
                    // can be opened.
                    log_dir.note_failure(&error);
                    if self.dirs.iter().all(|dir| dir.online().is_err()) {
                        return Err(error);
                    }
                    continue;
                }
            };
            scanned.extend(there.into_iter().map(|local| ScannedDir {
                dir: at,
                name: local.directory.clone(),
                local: LocalPartition {
                    log_dir: dir.path.clone(),
                    directory: log_dir.path().join(&local.directory),
                    topic: local.topic,
                    partition: local.partition,
                    topic_id: local.topic_id,
                    problem: local.problem,
                },
                moving: local.moving,
            }));
        }
        for ScannedDir {
            dir: at,
            name,
            mut local,
            ..
        } in settle(self, scanned, report)
        {
            {
                let mut problem = local.problem.take();
                if let (None, Some(topic_id)) = (&problem, local.topic_id) {
                    let tip = TopicIdPartition {
                        topic_id,
                        partition: local.partition,
                    };
                    let replica_dir = ReplicaDir {
                        dir: at,
                        directory: name,
                        topic: local.topic.as_deref().map(Into::into),
                    };
                    if let Err(earlier) = unhosted.add(tip, replica_dir) {
                        let earlier = self.dirs[earlier.dir].path.join(earlier.directory);
                        problem = Some(format!(
                            "the same partition is also in {}",
                            earlier.display()
                        ));
                    }
                }
                local.problem = problem;
                list.push(local);
            }
        }
        Ok((unhosted, list))
    }
}
