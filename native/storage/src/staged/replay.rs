//! Completion of attaches that a crash interrupted between intent and flush, before a partition's log is opened.

use super::intent::{self, Intent, State};
use super::links::link;
use super::patch::{self, Stamp};
use super::{StagedPartition, of_topic, plan, staged_file};
use crate::error::StorageError;
use crate::file_names::LOG;
use crate::files;
use pybroker_model::TopicIdPartition;
use std::fs::File;
use std::path::Path;

/// Complete every attach of this partition whose intent is written but not done. Return their number. The broker
/// acknowledged none of them, and no other append got their offsets, because the attach held the log's lock.
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

/// Return the attaches of this partition that are in this state, ordered by offset.
pub(crate) fn waiting(
    log_dir: &Path,
    id: TopicIdPartition,
    state: State,
) -> Result<Vec<(StagedPartition, Intent)>, StorageError> {
    let mut waiting = Vec::new();
    for ingest in files::directories_in(&of_topic(log_dir, id.topic_id))? {
        let place = StagedPartition::new(log_dir, id, &ingest);
        if let Some(found) = intent::read(&place.intent_path())?
            && found.state == state
        {
            waiting.push((place.with_plan(found.plan), found));
        }
    }
    waiting.sort_unstable_by_key(|(_, intent)| intent.base);
    Ok(waiting)
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
