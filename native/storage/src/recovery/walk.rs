//! Checking one segment batch by batch, and mending what can be mended.

use super::RecoveryReport;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{CORRUPT, LOG};
use crate::files;
use crate::handles::SegmentFile;
use crate::leader_epochs::LeaderEpochs;
use crate::scan::{Depth, Fault, Scan};
use crate::segment::Segment;
use pybroker_model::{BatchHeader, HEADER_BYTES, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE};
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// The walk through one segment.
pub(super) struct Walk<'a> {
    pub(super) segment: &'a Arc<Segment>,
    pub(super) config: &'a LogConfig,
    pub(super) epochs: &'a mut LeaderEpochs,
    pub(super) epochs_changed: &'a mut bool,
    pub(super) report: &'a mut RecoveryReport,
    /// The next offset must not be below this.
    pub(super) expected: Option<i64>,
}

impl Walk<'_> {
    /// Checks the segment and leaves it with good indexes; answers its end offset.
    pub(super) fn run(
        &mut self,
        recovery_point: i64,
        size: u64,
        later_data: bool,
        next_base: Option<i64>,
    ) -> Result<i64, StorageError> {
        let segment = self.segment;
        let base = segment.base_offset;
        if size == 0 {
            segment.set_end(base, 0);
            return Ok(base);
        }
        let (mut position, mut end) = self.start(recovery_point, size)?;
        let from = position;
        let file = segment.file(false)?;
        let path = || segment.path(LOG);
        let mut scan = Scan::new(&file, &path, Depth::Whole, position, size);
        loop {
            let fault = match scan.next() {
                Ok(None) => break,
                Ok(Some((at, header, _))) => {
                    match self.accept(&file, at, &header, end, next_base, size) {
                        Ok(()) => {
                            segment.note_batch(&header, at, self.config.index_interval_bytes)?;
                            end = header.next_offset();
                            position = at + header.size_in_bytes() as u64;
                            continue;
                        }
                        Err((reason, next)) => Fault::Damaged {
                            position: at,
                            reason,
                            next,
                        },
                    }
                }
                Err(fault) => fault,
            };
            let Fault::Damaged { reason, next, .. } = &fault else {
                return Err(segment.fault(fault));
            };
            self.report
                .notes
                .push(format!("{} at {position}: {reason}", path().display()));
            match next.filter(|&next| self.goes_on(&file, next, size, end)) {
                Some(next) => {
                    self.blank(&file, position, next, end)?;
                    scan = Scan::new(&file, &path, Depth::Whole, position, size);
                }
                None => {
                    let until = next_base.filter(|_| later_data);
                    self.cut(position, size, end, until)?;
                    break;
                }
            }
        }
        segment.set_end(end, position);
        self.report.scanned_bytes += position - from;
        segment.persist_indexes(false)?;
        Ok(end)
    }

    /// Where checking begins: at the batch that holds the recovery point if the index can say
    /// where that is, else at the front. Leaves the indexes ready to go on from there.
    fn start(&mut self, recovery_point: i64, size: u64) -> Result<(u64, i64), StorageError> {
        let segment = self.segment;
        let base = segment.base_offset;
        if recovery_point > base {
            segment.set_end(base + i64::from(i32::MAX), size);
            if let Ok((position, offset)) = segment.resume_point(recovery_point) {
                segment.set_end(offset, position);
                if position > 0 && segment.keep_indexes_below(offset).is_ok() {
                    return Ok((position, offset));
                }
            }
        }
        segment.set_end(base, 0);
        segment.rebuild_indexes(self.config.index_interval_bytes)?;
        Ok((0, base))
    }

    /// Whether a batch with a good checksum may stand here; if not, why, and where the next one is
    /// if this one alone is at fault. The checksum does not cover the offset.
    fn accept(
        &mut self,
        file: &SegmentFile,
        at: u64,
        header: &BatchHeader,
        end: i64,
        next_base: Option<i64>,
        size: u64,
    ) -> Result<(), (String, Option<u64>)> {
        let floor = self.expected.unwrap_or(end).max(end);
        let (first, last) = (header.base_offset, header.last_offset());
        let after = at + header.size_in_bytes() as u64;
        let wrong = |reason| Err((reason, Some(after)));
        if first < floor {
            return wrong(format!("offset {first} where {floor} or more is expected"));
        }
        if last - self.segment.base_offset > i64::from(i32::MAX) {
            return wrong(format!("offset {last} does not fit the segment"));
        }
        if let Some(next) = next_base
            && last >= next
        {
            return wrong(format!("offset {last} reaches into the segment at {next}"));
        }
        // Compaction leaves gaps; a gap that the next batch falls back into is damage.
        if first > floor
            && let Some(following) = self.offset_at(file, after, size)
            && following <= last
        {
            return wrong(format!("offset {last} is followed by {following}"));
        }
        let epoch = header.partition_leader_epoch;
        if self
            .epochs
            .latest()
            .is_none_or(|latest| latest.epoch < epoch)
        {
            *self.epochs_changed |= self.epochs.assign(epoch, header.base_offset);
        }
        Ok(())
    }

    /// The offset of a good batch at `position`, if there is one.
    fn offset_at(&self, file: &SegmentFile, position: u64, size: u64) -> Option<i64> {
        let path = || self.segment.path(LOG);
        let mut scan = Scan::new(file, &path, Depth::Whole, position, size);
        scan.next()
            .ok()
            .flatten()
            .map(|(_, header, _)| header.base_offset)
    }

    /// Whether a good batch that continues the log stands at `position`.
    fn goes_on(&self, file: &SegmentFile, position: u64, size: u64, end: i64) -> bool {
        let path = || self.segment.path(LOG);
        let mut scan = Scan::new(file, &path, Depth::Whole, position, size);
        let most = self.segment.base_offset + i64::from(i32::MAX);
        matches!(scan.next(), Ok(Some((_, header, _)))
            if header.base_offset > end && header.last_offset() <= most)
    }

    /// Overwrites a damaged batch by an empty one of the same size, from `end` up to what follows.
    fn blank(
        &mut self,
        file: &SegmentFile,
        position: u64,
        next: u64,
        end: i64,
    ) -> Result<(), StorageError> {
        let path = self.segment.path(LOG);
        self.keep_copy(&path)?;
        let mut batch = vec![0; (next - position) as usize];
        file.read_at_most(&mut batch, position)
            .map_err(StorageError::io("read", &path))?;
        let mut following = [0; HEADER_BYTES];
        file.read_at_most(&mut following, next)
            .map_err(StorageError::io("read", &path))?;
        let corrupt = |e: pybroker_model::BatchError| StorageError::Corrupt {
            path: path.clone(),
            reason: e.to_string(),
        };
        let after = BatchHeader::parse(&following).map_err(corrupt)?;
        let last = after.base_offset - 1;
        let empty = BatchHeader {
            base_offset: end,
            batch_length: (batch.len() - pybroker_model::BATCH_LENGTH_END) as i32,
            partition_leader_epoch: after.partition_leader_epoch,
            magic: pybroker_model::MAGIC_V2,
            crc: 0,
            attributes: 0,
            last_offset_delta: (last - end) as i32,
            base_timestamp: after.base_timestamp,
            max_timestamp: after.base_timestamp,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        empty.write(&mut batch);
        pybroker_model::recompute_crc(&mut batch);
        file.file()
            .write_all_at(&batch, position)
            .map_err(StorageError::io("write", &path))?;
        files::sync_data(file.file()).map_err(StorageError::io("sync", &path))?;
        self.report.lost.push((end, last));
        Ok(())
    }

    /// Cuts the segment at `position`. Nothing after it can be told apart from garbage.
    fn cut(
        &mut self,
        position: u64,
        size: u64,
        end: i64,
        later: Option<i64>,
    ) -> Result<(), StorageError> {
        let path = self.segment.path(LOG);
        if let Some(later) = later {
            // Not a torn tail: flushed data follows in later segments.
            self.keep_copy(&path)?;
            if later > end {
                self.report.lost.push((end, later - 1));
            }
        }
        self.report.truncated_bytes += size - position;
        let file = self.segment.file(false)?;
        file.file()
            .set_len(position)
            .map_err(StorageError::io("truncate", &path))?;
        files::sync_data(file.file()).map_err(StorageError::io("sync", &path))
    }

    /// Keeps the damaged file for the operator, once.
    fn keep_copy(&self, path: &Path) -> Result<(), StorageError> {
        let mut name = path.as_os_str().to_owned();
        name.push(CORRUPT);
        let copy = PathBuf::from(name);
        if !copy.exists() {
            std::fs::copy(path, &copy).map_err(StorageError::io("copy to", &copy))?;
        }
        Ok(())
    }
}
