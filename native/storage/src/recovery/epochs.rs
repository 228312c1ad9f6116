//! The leader epochs of a log that is being opened: as their file says, brought in line with the batches.

use super::report::RecoveryReport;
use crate::error::StorageError;
use crate::file_names::LEADER_EPOCHS;
use crate::leader_epochs::LeaderEpochs;
use crate::scan::Depth;
use crate::segment::Segments;
use std::path::Path;

/// See the module.
pub(super) struct Epochs {
    pub(super) entries: LeaderEpochs,
    /// The file does not say what `entries` do.
    pub(super) changed: bool,
    unreadable: bool,
}

impl Epochs {
    /// What the file in `dir` says; nothing, if it cannot be read.
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

    /// A batch at `offset` was written in `epoch`.
    pub(super) fn met(&mut self, epoch: i32, offset: i64) {
        let latest = self.entries.latest();
        if latest.is_none_or(|latest| latest.epoch < epoch) {
            self.changed |= self.entries.assign(epoch, offset);
        }
    }

    /// What could not be read is taken from the batches; what begins beyond the end is dropped.
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
        // An epoch that begins exactly at the end was announced by a leader that wrote nothing yet.
        self.changed |= self.entries.truncate_from_end(log_end + 1);
        Ok(())
    }

    /// What ended before the log's start is dropped.
    pub(super) fn start_at(&mut self, log_start: i64) {
        self.changed |= self.entries.truncate_from_start(log_start);
    }
}
