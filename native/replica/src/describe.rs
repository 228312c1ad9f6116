//! Descriptions of the log directories and of the partitions in them.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use pybroker_model::TopicId;
use pybroker_storage::{Counts, JournalFigures, StagedDeletion};

use crate::log_dirs::Dir;
use crate::{FutureReplica, Partition, PartitionError, Replicas, Role};

/// A log directory as DescribeLogDirs shows it.
#[derive(Debug)]
pub struct LogDirDescription {
    /// Path as configured.
    pub path: PathBuf,
    /// Why the log directory is offline.
    pub failure: Option<String>,
    /// Partitions hosted in it.
    pub partitions: Vec<Arc<Partition>>,
    /// Replicas that are moving into it.
    pub futures: Vec<FutureReplica>,
}

/// A log directory and the number of writes that failed on a full disk.
#[derive(Debug)]
pub struct LogDirRefusals {
    /// Path as configured.
    pub path: PathBuf,
    /// Writes refused since the start because the disk is full.
    pub full_refusals: u64,
}

/// This broker's role for a hosted partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RoleNow {
    /// Partition index.
    pub partition: i32,
    /// Leader epoch of the role; -1 once stopped.
    pub leader_epoch: i32,
    /// Broker id of the leader (this broker's id if it leads); negative if there is none.
    pub leader: i32,
    /// Whether appends are refused because the topic is about to be deleted.
    pub fenced: bool,
    /// Whether the log directory failed, or the log could not be opened.
    pub offline: bool,
}

impl Replicas {
    /// Return the number of failed writes of each online log directory, without reading the disk.
    pub fn log_dir_refusals(&self) -> Vec<LogDirRefusals> {
        let refusals = |dir: &Dir| {
            Some(LogDirRefusals {
                path: dir.path.clone(),
                full_refusals: dir.online().ok()?.full_refusals(),
            })
        };
        self.dirs.iter().filter_map(refusals).collect()
    }

    /// Return the roles of all hosted partitions of a topic.
    pub fn roles(&self, topic_id: TopicId) -> Vec<RoleNow> {
        let map = self.snapshot();
        let Some(topic) = map.topic(topic_id) else {
            return Vec::new();
        };
        topic
            .partitions()
            .map(|(partition, hosted)| {
                let role = hosted.role();
                let leader = match &**role {
                    Role::Leader(_) => self.config.broker_id,
                    Role::Follower { leader, .. } => *leader,
                    Role::Offline { .. } | Role::Stopped { .. } => -1,
                };
                RoleNow {
                    partition,
                    leader_epoch: role.leader_epoch(),
                    leader,
                    fenced: hosted.is_fenced(),
                    offline: matches!(&**role, Role::Offline { .. }),
                }
            })
            .collect()
    }

    /// Return the answer of DescribeLogDirs. Blocks on the disk.
    pub fn describe_log_dirs(&self) -> Vec<LogDirDescription> {
        let describe = |(at, dir): (usize, &Dir)| LogDirDescription {
            path: dir.path.clone(),
            failure: dir.failure(),
            partitions: self.partitions_of(at),
            futures: self.futures_of(at),
        };
        self.dirs.iter().enumerate().map(describe).collect()
    }

    /// Return journal statistics since the start, summed over all log directories.
    pub fn journal_figures(&self) -> JournalFigures {
        let online = self.dirs.iter().filter_map(|dir| dir.online().ok());
        online
            .map(|dir| dir.flusher().journal_figures())
            .fold(JournalFigures::default(), |sum, one| sum + one)
    }

    /// Return flush durations since the start, in microseconds, of all log directories.
    pub fn flush_times(&self) -> Counts {
        let mut counts = Counts::default();
        for dir in self.dirs.iter().filter_map(|dir| dir.online().ok()) {
            dir.flusher().add_times(&mut counts);
        }
        counts
    }

    /// Return the staged deletions, each with its log directory. Blocks on the disk.
    ///
    /// # Errors
    /// `Storage` if a directory cannot be listed.
    pub fn staged(&self) -> Result<Vec<(PathBuf, StagedDeletion)>, PartitionError> {
        Ok(self.dirs.staged()?)
    }

    /// Remove a staged deletion's files; return the bytes freed. Blocks on the disk.
    ///
    /// # Errors
    /// `Invalid` for a path that is not in a `deleting` directory of this broker, `Storage`.
    pub fn purge(&self, path: &Path) -> Result<u64, PartitionError> {
        let dir = self
            .dirs
            .holding_staged(path)
            .ok_or(PartitionError::Invalid("not a staged directory"))?;
        Ok(dir.online()?.purge(path)?)
    }
}
