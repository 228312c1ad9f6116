//! Announcement of an attach, from a leader to its followers.

use super::super::Log;
use crate::error::StorageError;
use crate::staged::intent::{Intent, State};
use crate::staged::{StagedPartition, plan, waiting};
use std::path::Path;
use std::sync::Arc;

/// Offsets of an attached ingest. Followers attach it at the same offsets.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct AttachNotice {
    /// Directory name of the ingest, see `LogDir::staged_partition`.
    pub ingest: Arc<str>,
    /// Number of the ingest's plan.
    pub plan: u32,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset after the last record.
    pub end_offset: i64,
    /// Epoch of the leader that attached the ingest.
    pub leader_epoch: i32,
    /// LogAppendTime of the records, if the topic uses it.
    pub append_time: Option<i64>,
    /// Ids of the brokers that have staged the ingest and attach their own files. Other brokers copy the records.
    pub holders: Arc<[i32]>,
}

impl Log {
    /// Return the attached ingests of this log whose files are still staged in `log_dir`, its own log directory: a new
    /// leader announces them to its followers.
    ///
    /// # Errors
    /// [`StorageError`] if they cannot be read.
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

    /// Return whether this log still has the records of the intent. A truncated log ends earlier, or has records of a
    /// later epoch at these offsets. Records below the log start count as present.
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
