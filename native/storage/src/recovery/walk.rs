//! Check and repair of one segment, batch by batch.

use super::epochs::Epochs;
use super::report::RecoveryReport;
use crate::config::LogConfig;
use crate::error::StorageError;
use crate::file_names::{CORRUPT, LOG};
use crate::files;
use crate::handles::SegmentFile;
use crate::scan::{Depth, Fault, Scan};
use crate::segment::Segment;
use pybroker_model::{BatchHeader, HEADER_BYTES};
use std::io::{Read as _, Seek as _, SeekFrom};
use std::path::{Path, PathBuf};
use std::sync::Arc;

/// Bytes of one read in the search for the next complete batch.
const SEARCH_BYTES: usize = 1 << 20;

/// State of the check of one segment.
pub(super) struct Walk<'a> {
    pub(super) segment: &'a Arc<Segment>,
    pub(super) config: &'a LogConfig,
    pub(super) epochs: &'a mut Epochs,
    pub(super) report: &'a mut RecoveryReport,
    /// Lower bound of the next offset.
    pub(super) expected: Option<i64>,
    /// Everything below this offset was on disk. So damage there is not an unfinished append, and batches after the
    /// damage are kept.
    pub(super) durable: i64,
}

impl Walk<'_> {
    /// Check the segment and repair its indexes. Return its end offset.
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
        let mut damaged = Vec::new();
        let file = segment.file(false)?;
        let path = || segment.path(LOG);
        let mut scan = Scan::new(&file, &path, Depth::Whole, position, size);
        loop {
            let fault = match scan.next() {
                Ok(None) => break,
                Ok(Some((at, header, _))) => {
                    match self.accept(&file, at, &header, end, next_base, size) {
                        Ok(()) => {
                            segment.expect_batch(at)?;
                            segment.note_batch(&header, at, self.config.index_interval_bytes);
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
            let next = next.filter(|&next| self.goes_on(&file, next, size, end));
            match next.or_else(|| self.find_next(&file, position, size, end, next_base)) {
                Some(next) => {
                    self.keep_copy(&path())?;
                    if let Some(following) = self.offset_at(&file, next, size) {
                        self.report.lost.push((end, following - 1));
                    }
                    damaged.push((position, next));
                    position = next;
                    scan = Scan::new(&file, &path, Depth::Whole, position, size);
                }
                None => {
                    let until = next_base.filter(|_| later_data);
                    self.cut(position, size, end, until)?;
                    break;
                }
            }
        }
        self.report.scanned_bytes += position - from;
        if !damaged.is_empty() {
            let size = self.take_out(&damaged, position)?;
            // Repeat the check from the start to build the indexes. The file has no damage now.
            segment.set_end(base, size);
            return self.run(0, size, later_data, next_base);
        }
        segment.set_end(end, position);
        segment.persist_indexes(false)?;
        Ok(end)
    }

    /// Return where the check begins: at the batch that contains the recovery point if the index has that batch, else
    /// at the start of the file. Also truncates the indexes so that the check can continue them from there.
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

    /// Check whether a batch with a correct checksum fits here; the checksum does not cover the offset. If it does not
    /// fit, return the reason, and the position of the next batch if only this one is wrong.
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
        // Compaction leaves gaps, so a higher offset is valid. If the next batch has an offset inside the gap, this
        // batch is damaged.
        if first > floor
            && let Some(following) = self.offset_at(file, after, size)
            && following <= last
        {
            return wrong(format!("offset {last} is followed by {following}"));
        }
        self.epochs
            .met(header.partition_leader_epoch, header.base_offset);
        Ok(())
    }

    /// Return the offset of a valid batch at `position`, if there is one.
    fn offset_at(&self, file: &SegmentFile, position: u64, size: u64) -> Option<i64> {
        let path = || self.segment.path(LOG);
        let mut scan = Scan::new(file, &path, Depth::Whole, position, size);
        scan.next()
            .ok()
            .flatten()
            .map(|(_, header, _)| header.base_offset)
    }

    /// Return whether a valid batch at `position` continues the log.
    fn goes_on(&self, file: &SegmentFile, position: u64, size: u64, end: i64) -> bool {
        let path = || self.segment.path(LOG);
        let mut scan = Scan::new(file, &path, Depth::Whole, position, size);
        let most = self.segment.base_offset + i64::from(i32::MAX);
        matches!(scan.next(), Ok(Some((_, header, _)))
            if header.base_offset > end && header.last_offset() <= most)
    }

    /// Search for the next complete batch after damage whose length cannot be trusted, by trying every byte. The search
    /// excludes the unflushed tail, which is truncated so that the log stays a prefix of the appended records.
    fn find_next(
        &self,
        file: &SegmentFile,
        position: u64,
        size: u64,
        end: i64,
        next_base: Option<i64>,
    ) -> Option<u64> {
        if end >= self.durable {
            return None;
        }
        let most = self.segment.base_offset + i64::from(i32::MAX);
        let most = next_base.map_or(most, |next| next - 1).min(most);
        let mut at = position + 1;
        let mut buffer = vec![0; SEARCH_BYTES + HEADER_BYTES];
        while at < size {
            let filled = file.read_at_most(&mut buffer, at).ok()?;
            for (shift, bytes) in buffer[..filled].windows(HEADER_BYTES).enumerate() {
                let found = at + shift as u64;
                let plausible = BatchHeader::parse(bytes).is_ok_and(|header| {
                    header.check().is_ok()
                        && header.base_offset > end
                        && header.last_offset() <= most
                        && found + header.size_in_bytes() as u64 <= size
                });
                if plausible && self.goes_on(file, found, size, end) {
                    return Some(found);
                }
            }
            at += SEARCH_BYTES as u64;
        }
        None
    }

    /// Replace the segment's file durably by one without the damaged ranges. Their offsets are then missing, as after a
    /// compaction. Empty batches in their place would not work, because some clients ignore the record count.
    fn take_out(&self, stretches: &[(u64, u64)], size: u64) -> Result<u64, StorageError> {
        let path = self.segment.path(LOG);
        let new = files::temporary(&path);
        let mut from = std::fs::File::open(&path).map_err(StorageError::io("open", &path))?;
        let mut to = std::fs::File::create(&new).map_err(StorageError::io("create", &new))?;
        let mut position = 0;
        let mut written = 0;
        for &(start, next) in stretches.iter().chain([&(size, size)]) {
            from.seek(SeekFrom::Start(position))
                .map_err(StorageError::io("read", &path))?;
            let mut good = (&mut from).take(start - position);
            written +=
                std::io::copy(&mut good, &mut to).map_err(StorageError::io("copy to", &new))?;
            position = next;
        }
        files::sync_data(&to).map_err(StorageError::io("sync", &new))?;
        files::replace(&path)?;
        files::sync_dir(path.parent().unwrap_or(&path))?;
        self.segment.forget();
        Ok(written)
    }

    /// Cut the segment at `position`: valid data after it cannot be distinguished from garbage.
    fn cut(
        &mut self,
        position: u64,
        size: u64,
        end: i64,
        later: Option<i64>,
    ) -> Result<(), StorageError> {
        let path = self.segment.path(LOG);
        if let Some(later) = later {
            // Keep a copy. This damage is not a torn tail, because later segments have flushed data.
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

    /// Keep a copy of the damaged file for the operator, once.
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
