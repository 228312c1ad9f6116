//! Completes moves between log directories that a crash interrupted, before the broker serves any partition.

use std::path::Path;

use pybroker_storage::MoveState;

use super::{LocalPartition, LogDirs};

/// A directory found by the scan.
#[derive(Debug)]
pub(crate) struct ScannedDir {
    /// Position of its log directory.
    pub(crate) dir: usize,
    /// The directory's name in the log directory.
    pub(crate) name: String,
    pub(crate) local: LocalPartition,
    pub(crate) moving: MoveState,
}

/// Finish or undo interrupted moves; return the partitions that remain.
pub(crate) fn settle(
    dirs: &LogDirs,
    found: Vec<ScannedDir>,
    report: &dyn Fn(&str),
) -> Vec<ScannedDir> {
    let mut partitions = Vec::with_capacity(found.len());
    let (futures, others): (Vec<ScannedDir>, Vec<ScannedDir>) = found
        .into_iter()
        .partition(|one| one.moving == MoveState::Future);
    let mut futures: Vec<Option<ScannedDir>> = futures.into_iter().map(Some).collect();
    // First settle finished moves: the copy at the destination becomes the partition, in whichever order the scan found
    // the two directories.
    for mut one in others {
        match &one.moving {
            MoveState::No | MoveState::Future => {}
            MoveState::Removed => {
                remove(dirs, &one, report);
                continue;
            }
            MoveState::Moved(to) => {
                let to = to.clone();
                match settle_moved(dirs, &one, &to, &mut futures) {
                    Ok(MoveOutcome::Gone(renamed)) => {
                        if let Some(renamed) = renamed {
                            partitions.push(*renamed);
                        }
                        continue;
                    }
                    Ok(MoveOutcome::Stays) => one.moving = MoveState::No,
                    Err(problem) => one.local.problem = Some(problem),
                }
            }
        }
        partitions.push(one);
    }
    for future in futures.into_iter().flatten() {
        let twin = |one: &&ScannedDir| {
            one.local.topic_id == future.local.topic_id
                && one.local.partition == future.local.partition
        };
        if future.local.topic_id.is_some() && partitions.iter().any(|one| twin(&one)) {
            report(&format!(
                "{}: removing an unfinished copy",
                future.local.directory.display()
            ));
            remove(dirs, &future, report);
        } else {
            let mut orphan = future;
            orphan.local.problem = Some("a copy without its original".to_owned());
            partitions.push(orphan);
        }
    }
    partitions
}

enum MoveOutcome {
    /// The directory is no longer the partition. The value is the copy that replaces it, if this call has renamed that
    /// copy.
    Gone(Option<Box<ScannedDir>>),
    Stays,
}

fn settle_moved(
    dirs: &LogDirs,
    one: &ScannedDir,
    to: &Path,
    futures: &mut [Option<ScannedDir>],
) -> Result<MoveOutcome, String> {
    let unreachable = || format!("it has moved to {}, which cannot be reached", to.display());
    let log_dir = dirs
        .get(one.dir)
        .online()
        .map_err(|error| error.to_string())?;
    let (at, target, name) = dirs.holding(to).ok_or_else(unreachable)?;
    let mut renamed = None;
    if !to.is_dir() {
        let copy = futures.iter_mut().find(|future| {
            future.as_ref().is_some_and(|future| {
                future.dir == at
                    && future.local.topic_id == one.local.topic_id
                    && future.local.partition == one.local.partition
                    && future.local.topic_id.is_some()
            })
        });
        let Some(copy) = copy.and_then(Option::take) else {
            log_dir
                .forget_move(&one.name)
                .map_err(|error| error.to_string())?;
            return Ok(MoveOutcome::Stays);
        };
        target
            .rename_into_place(&copy.local.directory, &name)
            .map_err(|error| error.to_string())?;
        renamed = Some(ScannedDir {
            name,
            local: LocalPartition {
                directory: to.to_path_buf(),
                ..copy.local
            },
            moving: MoveState::No,
            ..copy
        });
    }
    let left = log_dir.retire_directory(&one.local.directory);
    left.and_then(|path| log_dir.remove_moved(&path))
        .map_err(|error| error.to_string())?;
    Ok(MoveOutcome::Gone(renamed.map(Box::new)))
}

fn remove(dirs: &LogDirs, one: &ScannedDir, report: &dyn Fn(&str)) {
    let removed = dirs
        .get(one.dir)
        .online()
        .and_then(|dir| Ok(dir.remove_moved(&one.local.directory)?));
    if let Err(error) = removed {
        report(&format!(
            "cannot remove {}: {error}",
            one.local.directory.display()
        ));
    }
}
