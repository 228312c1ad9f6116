//! Finishing, before a partition's log is opened, what a crash interrupted between intent and flush.

use super::intent::{self, Intent, State};
use super::patch::{self, Stamp};
use super::plan;
use super::{INGEST, StagedPartition, StagedSegment, names_in, of_topic, staged_file};
use crate::error::StorageError;
use crate::file_names::{self, INDEX, LOG, TIME_INDEX};
use crate::files;
use crate::log::Log;
use crate::scan::Depth;
use pybroker_model::TopicIdPartition;
use std::fs::File;
use std::os::unix::fs::MetadataExt;
use std::path::Path;

/// Files of a segment that are linked; the log last, so that a segment that is there has its indexes.
pub(crate) const LINKED: [&str; 3] = [INDEX, TIME_INDEX, LOG];

/// Completes every attach of this partition whose intent is written and not done. Answers how many. Nothing was
/// acknowledged of them, and nobody else was given their offsets: the log's lock was held.
pub(crate) fn replay(
    log_dir: &Path,
    partition: &Path,
    id: TopicIdPartition,
) -> Result<usize, StorageError> {
    let waiting = waiting(log_dir, id, State::Linking)?;
    for (place, found) in &waiting {
        finish(place, found, partition)?;
    }
    Ok(waiting.len())
}

/// The attaches of this partition that are in `state`, in the order of their offsets.
fn waiting(
    log_dir: &Path,
    id: TopicIdPartition,
    state: State,
) -> Result<Vec<(StagedPartition, Intent)>, StorageError> {
    let topic = of_topic(&log_dir.join(INGEST), id.topic_id);
    let mut waiting = Vec::new();
    for ingest in names_in(&topic)? {
        let place = StagedPartition {
            path: topic.join(ingest).join(format!("p{}", id.partition)),
            id,
        };
        if let Some(found) = intent::read(&place.intent_path())?
            && found.state == state
        {
            waiting.push((place, found));
        }
    }
    waiting.sort_unstable_by_key(|(_, intent)| intent.base);
    Ok(waiting)
}

/// After the log was opened: copies that are there whole are done, those that are not are taken out; they are attached
/// again. What follows a half one goes with it: a power cut took the copy's end, or recovery a torn batch out of its
/// middle, and nothing behind it was flushed, since a flush would have covered the copy. Answers how many there were.
pub(crate) fn settle_copies(log_dir: &Path, log: &Log, now_ms: i64) -> Result<usize, StorageError> {
    let copies = waiting(log_dir, log.id, State::Copying)?;
    for (place, found) in &copies {
        let path = place.intent_path();
        if holds_all(log, found)? {
            log.flush()?;
            let done = Intent {
                state: State::Done,
                ..*found
            };
            intent::write(&path, Some(&done))?;
        } else {
            log.truncate_to(found.base, now_ms)?;
            intent::write(&path, None)?;
        }
    }
    Ok(copies.len())
}

/// Whether the log has every offset of a copy. An attach leaves no gap of its own, and nobody compacts meanwhile.
fn holds_all(log: &Log, intent: &Intent) -> Result<bool, StorageError> {
    let mut next = intent.base;
    for segment in log.segments.load().iter() {
        if segment.end_offset() <= next {
            continue;
        }
        let mut gap = false;
        segment.for_each(Depth::Headers, next, |_, header, _| {
            gap = next < intent.end && header.base_offset != next;
            next = header.next_offset();
            Ok(!gap && next < intent.end)
        })?;
        if gap || next >= intent.end {
            return Ok(!gap);
        }
    }
    Ok(next >= intent.end)
}

fn finish(place: &StagedPartition, intent: &Intent, partition: &Path) -> Result<(), StorageError> {
    let mut base = intent.base;
    for staged in plan::segments(place)? {
        let stamp = Stamp {
            base,
            leader_epoch: intent.leader_epoch,
            append_time: (intent.append_time >= 0).then_some(intent.append_time),
        };
        patch::segment(&staged, stamp)?;
        let path = staged_file(&staged, LOG);
        File::open(&path)
            .and_then(|file| files::sync_data(&file))
            .map_err(StorageError::io("sync", &path))?;
        link(&staged, partition, base)?;
        base += staged.rows;
    }
    files::sync_dir(partition)?;
    let done = Intent {
        state: State::Done,
        ..*intent
    };
    intent::write(&place.intent_path(), Some(&done))
}

/// Links a staged segment into a log's directory. What is there under the name must be the same file, or an empty one
/// that a roll or a truncation made.
pub(crate) fn link(
    staged: &StagedSegment,
    partition: &Path,
    base: i64,
) -> Result<(), StorageError> {
    for suffix in LINKED {
        let from = staged_file(staged, suffix);
        let to = file_names::of_segment(partition, base, suffix);
        match std::fs::hard_link(&from, &to) {
            Ok(()) => {}
            Err(error) if error.kind() == std::io::ErrorKind::NotFound && suffix != LOG => {
                // No index was needed; one that lies there under the name is another segment's.
                files::remove(&to)?;
            }
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {
                replace(&from, &to, suffix)?;
            }
            Err(error) => return Err(StorageError::io("link", &to)(error)),
        }
    }
    Ok(())
}

fn replace(from: &Path, to: &Path, suffix: &str) -> Result<(), StorageError> {
    if same_file(from, to)? {
        return Ok(());
    }
    let there = std::fs::metadata(to).map_err(StorageError::io("look at", to))?;
    if suffix == LOG && there.len() > 0 {
        return Err(StorageError::Exists {
            path: to.to_path_buf(),
        });
    }
    files::remove(to)?;
    std::fs::hard_link(from, to).map_err(StorageError::io("link", to))
}

/// Takes the links of a segment out of a log's directory again; another file under the name stays, with its indexes.
pub(crate) fn unlink(
    staged: &StagedSegment,
    partition: &Path,
    base: i64,
) -> Result<(), StorageError> {
    let to = |suffix| file_names::of_segment(partition, base, suffix);
    for suffix in LINKED {
        let (from, to) = (staged_file(staged, suffix), to(suffix));
        if from.exists() && to.exists() && same_file(&from, &to)? {
            files::remove(&to)?;
        }
    }
    Ok(())
}

fn same_file(one: &Path, other: &Path) -> Result<bool, StorageError> {
    let look = |path: &Path| std::fs::metadata(path).map_err(StorageError::io("look at", path));
    let (one, other) = (look(one)?, look(other)?);
    Ok((one.dev(), one.ino()) == (other.dev(), other.ino()))
}
