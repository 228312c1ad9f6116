//! The log directories (JBOD): which of them are usable, and operations on many of their partitions at once.

use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering::Relaxed};

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_storage::{
    Log, LogConfig, LogDir, LogDirOptions, NewPartition, ProducerCount, StagedDeletion,
    StorageError, open_files_max,
};

use crate::config::Report;
use crate::{PartitionError, ReplicasConfig};

mod placement;
mod scan;
mod unfinished_moves;
mod unhosted_replicas;

pub(crate) use placement::Placement;
pub use scan::LocalPartition;
pub(crate) use unhosted_replicas::{ReplicaDir, UnhostedReplicas};

/// One log directory.
#[derive(Debug)]
pub(crate) struct Dir {
    /// Path as configured.
    pub(crate) path: PathBuf,
    /// The open directory, or the reason why it could not be opened at start.
    opened: Result<Arc<LogDir>, Arc<str>>,
    /// Whether `cordoned.log.dirs` lists the directory (KIP-1066), so that it gets no new partitions.
    cordoned: AtomicBool,
}

impl Dir {
    pub(crate) fn is_cordoned(&self) -> bool {
        self.cordoned.load(Relaxed)
    }

    /// Return the directory, or an error if it is offline.
    pub(crate) fn online(&self) -> Result<&Arc<LogDir>, PartitionError> {
        match &self.opened {
            Ok(dir) => {
                dir.check()?;
                Ok(dir)
            }
            Err(reason) => Err(PartitionError::Storage(Arc::clone(reason))),
        }
    }

    /// Return why the directory is offline.
    pub(crate) fn failure(&self) -> Option<String> {
        self.online().err().map(|error| error.to_string())
    }
}

/// All log directories, in the order of `log.dirs`.
#[derive(Debug)]
pub(crate) struct LogDirs {
    dirs: Vec<Dir>,
    producers: Arc<ProducerCount>,
}

/// A log to open.
#[derive(Debug)]
pub(crate) struct OpenRequest<'a> {
    pub(crate) topic: &'a str,
    pub(crate) replica_dir: &'a ReplicaDir,
    pub(crate) tip: TopicIdPartition,
    pub(crate) config: Arc<LogConfig>,
}

/// The result for one log, which the thread that opens it writes.
type Slot = Mutex<Option<Result<Arc<Log>, StorageError>>>;

impl LogDirs {
    /// Return the counter of the producers of all logs.
    pub(crate) fn producers(&self) -> &ProducerCount {
        &self.producers
    }

    /// Open all directories. A directory that fails while others work is offline from the start.
    ///
    /// # Errors
    /// If another process uses a directory, a directory holds another owner's data, or no directory is usable.
    pub(crate) fn open(config: &ReplicasConfig) -> Result<Self, StorageError> {
        let mut dirs = Vec::with_capacity(config.log_dirs.len());
        let mut first_failure = None;
        let mut options = LogDirOptions::new(config.broker_id, config.cluster_id.clone());
        options.layout = config.layout;
        options.clock = Some(Arc::clone(&config.clock));
        options.open_files_max = open_files_max(config.log_dirs.len());
        for path in &config.log_dirs {
            let opened = match LogDir::open(path, &options) {
                Ok(dir) => {
                    for problem in dir.problems() {
                        (config.report)(&format!("{problem}; recovering without it"));
                    }
                    Ok(dir)
                }
                Err(error @ (StorageError::Io { .. } | StorageError::Full { .. })) => {
                    let reason = Arc::from(error.to_string());
                    first_failure.get_or_insert(error);
                    Err(reason)
                }
                Err(error) => return Err(error),
            };
            dirs.push(Dir {
                path: path.clone(),
                opened,
                cordoned: AtomicBool::new(false),
            });
        }
        match first_failure {
            Some(error) if dirs.iter().all(|dir| dir.opened.is_err()) => Err(error),
            _ => {
                for dir in &dirs {
                    if let Err(reason) = &dir.opened {
                        (config.report)(&format!(
                            "log directory {} is offline: {reason}",
                            dir.path.display()
                        ));
                    }
                }
                Ok(Self {
                    dirs,
                    producers: options.producers,
                })
            }
        }
    }

    pub(crate) fn len(&self) -> usize {
        self.dirs.len()
    }

    pub(crate) fn get(&self, dir: usize) -> &Dir {
        &self.dirs[dir]
    }

    pub(crate) fn iter(&self) -> impl Iterator<Item = &Dir> {
        self.dirs.iter()
    }

    /// Cordon the listed directories: they get no new partitions. `*` means all.
    pub(crate) fn set_cordoned(&self, listed: &[String]) {
        for dir in &self.dirs {
            let named = |each: &String| each == "*" || plain(Path::new(each)) == plain(&dir.path);
            dir.cordoned.store(listed.iter().any(named), Relaxed);
        }
    }

    /// Return the position of the directory with this path.
    pub(crate) fn position(&self, path: &Path) -> Option<usize> {
        let wanted = plain(path);
        self.dirs
            .iter()
            .position(|dir| dir.path == path || plain(&dir.path) == wanted)
    }

    /// Return the online directory that contains `path`: position, directory, and name inside it.
    pub(crate) fn holding(&self, path: &Path) -> Option<(usize, &Arc<LogDir>, String)> {
        self.dirs.iter().enumerate().find_map(|(at, dir)| {
            let log_dir = dir.online().ok()?;
            let name = path.strip_prefix(log_dir.path()).ok()?;
            Some((at, log_dir, name.to_string_lossy().into_owned()))
        })
    }

    pub(crate) fn any_offline(&self) -> bool {
        self.dirs.iter().any(|dir| dir.online().is_err())
    }

    /// Create partition directories with their identity durably, with two sync barriers for all of them.
    pub(crate) fn create(
        &self,
        dir: usize,
        new: &[NewPartition],
    ) -> Vec<Result<ReplicaDir, PartitionError>> {
        let log_dir = match self.dirs[dir].online() {
            Ok(log_dir) => log_dir,
            Err(error) => return new.iter().map(|_| Err(error.clone())).collect(),
        };
        let created = log_dir.create_partitions(new);
        let each = new.iter().zip(created).map(|(new, created)| {
            created?;
            Ok(ReplicaDir {
                dir,
                directory: log_dir.directory_of(&new.topic, new.id),
                topic: Some(new.topic.as_str().into()),
            })
        });
        each.collect()
    }

    /// Open logs on several threads; return a result for each.
    pub(crate) fn open_logs(
        &self,
        requests: &[OpenRequest<'_>],
        threads_per_dir: usize,
        now_ms: i64,
        report: &Report,
    ) -> Vec<Result<Arc<Log>, StorageError>> {
        // For a few logs, starting a thread costs more than opening them on this one.
        let threads = (threads_per_dir * self.dirs.len())
            .min(requests.len().div_ceil(16))
            .max(1);
        let next = AtomicUsize::new(0);
        let opened: Vec<Slot> = requests.iter().map(|_| Mutex::new(None)).collect();
        let work = || {
            loop {
                let at = next.fetch_add(1, Relaxed);
                let Some(request) = requests.get(at) else {
                    return;
                };
                *opened[at].lock() = Some(self.open_log(request, now_ms, report));
            }
        };
        std::thread::scope(|scope| {
            for _ in 1..threads {
                scope.spawn(work);
            }
            work();
        });
        let each = opened.into_iter().zip(requests).map(|(slot, request)| {
            // Every slot has a result, because a panic in a thread ends the scope.
            slot.into_inner().unwrap_or_else(|| {
                Err(StorageError::Closed {
                    path: request.replica_dir.directory.as_str().into(),
                })
            })
        });
        each.collect()
    }

    /// Open one log, with recovery if necessary.
    pub(crate) fn open_log(
        &self,
        request: &OpenRequest<'_>,
        now_ms: i64,
        report: &Report,
    ) -> Result<Arc<Log>, StorageError> {
        let dir = &self.dirs[request.replica_dir.dir];
        let log_dir = dir
            .opened
            .as_ref()
            .map_err(|reason| StorageError::Offline {
                path: dir.path.clone(),
                reason: reason.to_string(),
            })?;
        let config = Arc::clone(&request.config);
        let (log, recovered) = log_dir.open_log_of(
            request.topic,
            &request.replica_dir.directory,
            request.tip,
            config,
            now_ms,
        )?;
        let name = &request.replica_dir.directory;
        for (first, last) in &recovered.lost {
            report(&format!(
                "{name}: records {first} to {last} are lost to damage on disk"
            ));
        }
        if recovered.truncated_bytes > 0 {
            report(&format!(
                "{name}: cut {} bytes of an unfinished append",
                recovered.truncated_bytes
            ));
        }
        for note in &recovered.notes {
            report(&format!("{name}: {note}"));
        }
        Ok(log)
    }

    /// Return the staged deletions, each with its log directory.
    pub(crate) fn staged(&self) -> Result<Vec<(PathBuf, StagedDeletion)>, StorageError> {
        let mut all = Vec::new();
        for dir in &self.dirs {
            if let Ok(log_dir) = dir.online() {
                all.extend(
                    log_dir
                        .staged_deletions()?
                        .into_iter()
                        .map(|staged| (dir.path.clone(), staged)),
                );
            }
        }
        Ok(all)
    }

    /// Return the log directory whose `deleting` contains this path.
    pub(crate) fn holding_staged(&self, path: &Path) -> Option<&Dir> {
        let log_dir = path.parent()?.parent()?;
        self.dirs.iter().find(|dir| {
            dir.opened
                .as_ref()
                .is_ok_and(|opened| opened.path() == log_dir)
        })
    }
}

/// Return the canonical form of a path of `log.dirs`, for comparisons.
fn plain(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_path_buf())
}
