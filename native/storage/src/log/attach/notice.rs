//! What is attached, as a leader tells it to its followers.

use super::super::Log;
use crate::error::StorageError;
use crate::staged::intent::{Intent, State};
use crate::staged::{StagedPartition, plan, waiting};
use std::path::Path;
use std::sync::Arc;

/// Where a leader has put what an ingest staged, for its followers to do the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachNotice {
    /// The ingest's name, see `LogDir::staged_partition`.
    pub ingest: Arc<str>,
    /// Number of its plan.
    pub plan: u32,
    /// Offset of the first record.
    pub base_offset: i64,
    /// After the last one.
    pub end_offset: i64,
    /// Of the leader that attached it.
    pub leader_epoch: i32,
    /// The stamp of a topic with LogAppendTime.
    pub append_time: Option<i64>,
    /// Ids of the brokers that have it staged: they attach it themselves, the others copy the records.
    pub holders: Arc<[i32]>,
}

impl Log {
    /// What is attached to this log and still lies staged in `log_dir`, which is its own: a leader that begins tells its
    /// followers of that.
    ///
    /// # Errors
    /// [`StorageError`] when it cannot be read.
    pub fn attached(&self, log_dir: &Path) -> Result<Vec<AttachNotice>, StorageError> {
        let mut found = Vec::new();
        for (place, intent) in waiting(log_dir, self.id, State::Done)? {
            if intent.end > intent.base && self.has_attached(&intent) {
                let holders = plan::read(&place)?.holders.into();
                found.push(notice(&place, &intent, &holders));
            }
        }
        Ok(found)
    }

    /// Whether this log holds what the intent says was attached. A truncation may have taken it out again since: then it
    /// ends before, or other records, of a later epoch, have come to these offsets. What is below the log's start was
    /// there.
    pub(super) fn has_attached(&self, intent: &Intent) -> bool {
        let start = self.log_start_offset();
        let held = |offset: i64| {
            offset < start
                || intent.leader_epoch < 0
                || self.epoch_for(offset) == Some(intent.leader_epoch)
        };
        intent.end == intent.base
            || (self.log_end_offset() >= intent.end && held(intent.base) && held(intent.end - 1))
    }
}

pub(super) fn notice(
    place: &StagedPartition,
    intent: &Intent,
    holders: &Arc<[i32]>,
) -> AttachNotice {
    AttachNotice {
        ingest: place.ingest().into(),
        plan: place.plan(),
        base_offset: intent.base,
        end_offset: intent.end,
        leader_epoch: intent.leader_epoch,
        append_time: (intent.append_time >= 0).then_some(intent.append_time),
        holders: Arc::clone(holders),
    }
}
