//! Leader epochs of a log during recovery: read from their file and corrected by the batches.

use super::report::RecoveryReport;
use crate::error::StorageError;
use crate::file_names::LEADER_EPOCHS;
use crate::leader_epochs::LeaderEpochs;
use crate::scan::Depth;
use crate::segment::Segments;
use std::path::Path;

/// Leader epochs during recovery.
pub(super) struct Epochs {
    pub(super) entries: LeaderEpochs,
    /// Whether the file differs from `entries`.
    pub(super) changed: bool,
    unreadable: bool,
}

impl Epochs {
    /// Read the file in `dir`; start empty if it cannot be read.
    pub(super) fn read(dir: &Path, report: &mut RecoveryReport) -> Self {
        let read = LeaderEpochs::read(&dir.join(LEADER_EPOCHS));
        let unreadable = read.is_err();
        if let Err(error) = &read {
            report
                .notes
                .push(format!("rebuilding leader epochs: {error}"));
        }
        Self {
            entries: read.unwrap_or_default(),
            changed: unreadable,
            unreadable,
        }
    }

    /// Record a batch at `offset` written in `epoch`.
    pub(super) fn met(&mut self, epoch: i32, offset: i64) {
        let latest = self.entries.latest();
        if latest.is_none_or(|latest| latest.epoch < epoch) {
            self.changed |= self.entries.assign(epoch, offset);
        }
    }

    /// Rebuild unreadable epochs from the batches; drop epochs that begin beyond the end.
    pub(super) fn end_at(&mut self, log_end: i64, segments: &Segments) -> Result<(), StorageError> {
        if self.unreadable {
            self.entries.clear();
            for segment in segments {
                segment.for_each(Depth::Headers, segment.base_offset, |_, header, _| {
                    self.met(header.partition_leader_epoch, header.base_offset);
                    Ok(true)
                })?;
            }
        }
        // An epoch that begins exactly at the log end belongs to a leader that has not written yet, so keep it.
        self.changed |= self.entries.truncate_from_end(log_end + 1);
        Ok(())
    }

    /// Drop epochs that ended before the log start.
    pub(super) fn start_at(&mut self, log_start: i64) {
        self.changed |= self.entries.truncate_from_start(log_start);
    }
}
