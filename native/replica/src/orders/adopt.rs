//! Adoption of directories without `partition.metadata` whose identity the control plane has established. The broker
//! writes the file; then the directories wait for an order.

use std::path::{Path, PathBuf};

use pybroker_model::TopicIdPartition;

use crate::log_dirs::ReplicaDir;
use crate::{PartitionError, Replicas};

impl Replicas {
    /// Write the identity of each directory durably, with two sync barriers for each log directory. Return a result for
    /// each directory. Blocks on the disk.
    pub fn adopt(
        &self,
        directories: &[(PathBuf, TopicIdPartition)],
    ) -> Vec<Result<(), PartitionError>> {
        let mut unhosted = self.unhosted.lock();
        let mut results: Vec<Result<(), PartitionError>> = directories
            .iter()
            .map(|_| {
                Err(PartitionError::Invalid(
                    "not a directory in an online log directory",
                ))
            })
            .collect();
        for (at, dir) in self.dirs.iter().enumerate() {
            let Ok(log_dir) = dir.online() else { continue };
            let mine: Vec<(usize, String)> = directories
                .iter()
                .enumerate()
                .filter_map(|(index, (path, _))| Some((index, name_in(log_dir.path(), path)?)))
                .collect();
            let wanted: Vec<_> = mine
                .iter()
                .map(|(index, name)| (name.as_str(), directories[*index].1.topic_id))
                .collect();
            for ((index, name), written) in mine.iter().zip(log_dir.adopt_partitions(&wanted)) {
                let tip = directories[*index].1;
                results[*index] = written.map_err(Into::into).and_then(|()| {
                    let replica_dir = ReplicaDir {
                        dir: at,
                        topic: name.rsplit_once('-').map(|(topic, _)| topic.into()),
                        directory: name.clone(),
                    };
                    unhosted.add(tip, replica_dir).map_err(|_| {
                        PartitionError::Invalid("the partition is also in another directory")
                    })
                });
            }
        }
        results
    }

    /// Set directories aside that the control plane does not trust: the broker never opens, moves or removes them.
    pub fn set_aside(&self, directories: &[PathBuf]) {
        let mut unhosted = self.unhosted.lock();
        for (at, dir) in self.dirs.iter().enumerate() {
            let Ok(log_dir) = dir.online() else { continue };
            for name in directories
                .iter()
                .filter_map(|path| name_in(log_dir.path(), path))
            {
                unhosted.set_aside(at, &name);
            }
        }
    }
}

/// Return the directory's name if it lies directly in `log_dir`.
fn name_in(log_dir: &Path, path: &Path) -> Option<String> {
    (path.parent()? == log_dir).then(|| {
        path.file_name()
            .map(|name| name.to_string_lossy().into_owned())
    })?
}
