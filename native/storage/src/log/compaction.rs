//! Compaction: keep only the newest record of each key (`cleanup.policy=compact`). As with Kafka's `Cleaner`, the final
//! state that a reader of the whole log sees does not change.
//!
//! A pass reads the dirty part and collects the newest offset of each key, then rewrites the segments below its end
//! without superseded records. Offsets never change; batches keep their identity, and an emptied batch stays while it
//! is its producer's last. The first pass that meets a tombstone, or a marker of a transaction without data, sets a
//! delete horizon in its batch; a later pass removes it after the horizon. Records of aborted transactions are removed
//! at once.
//!
//! # Crash safety
//! Write and sync `*.cleaned` → rename them to `*.swap`, the `.log` last, and sync the directory → rename all originals
//! but the first to `*.deleted` → rename `*.swap` over the first original, the `.log` last. After a crash there is
//! either no `.log.swap` (the originals are complete) or one (recovery finishes the work).

use super::{Log, Segments};
use crate::error::StorageError;
use crate::file_names::{self, CLEANED, INDEX, LOG, SEGMENT_SUFFIXES, SWAP, TIME_INDEX, TXN_INDEX};
use crate::files;
use crate::scan::Depth;
use crate::segment::Segment;
use pybroker_model::NO_TIMESTAMP;
use std::fs::File;
use std::io::Write;
use std::sync::Arc;
use std::sync::atomic::Ordering;

mod filter;
mod keys;
mod output;
#[cfg(test)]
mod tests;

use filter::{Filter, Verdict};
use keys::KeyOffsets;
use output::Output;

/// Estimate of a pass, used to select the log that most needs one.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Cleanable {
    /// First offset not compacted yet.
    pub first_dirty_offset: i64,
    /// End offset of the pass.
    pub end_offset: i64,
    /// Share of uncompacted bytes among all bytes that a pass reads.
    pub dirty_ratio: f64,
    /// Whether `min.cleanable.dirty.ratio` is reached, or `max.compaction.lag.ms` has passed.
    pub due: bool,
}

/// Result of a pass.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct CompactionResult {
    /// First offset not yet compacted.
    pub cleaned_to: i64,
    /// Bytes of the segments before the pass.
    pub bytes_before: u64,
    /// Bytes of the segments that replace them.
    pub bytes_after: u64,
}

impl Log {
    /// Return the first offset not compacted yet, for its checkpoint.
    #[must_use]
    pub fn cleaned_to(&self) -> i64 {
        self.cleaned_to
            .load(Ordering::Acquire)
            .max(self.log_start_offset())
    }

    /// Return an estimate of a pass at this time, or `None` if there is nothing to compact. Excludes the active
    /// segment, everything above the last stable offset, and records younger than `min.compaction.lag.ms`.
    ///
    /// # Errors
    /// [`StorageError`] if a segment cannot be read.
    pub fn cleanable(
        &self,
        high_watermark: i64,
        now_ms: i64,
    ) -> Result<Option<Cleanable>, StorageError> {
        let config = self.config();
        if !config.cleanup_policy.compact {
            return Ok(None);
        }
        let segments = self.segments.load();
        let first_dirty = self.cleaned_to();
        let end = self.cleanable_end(&segments, first_dirty, high_watermark, now_ms)?;
        if end <= first_dirty {
            return Ok(None);
        }
        let below = || {
            segments
                .iter()
                .filter(|segment| segment.end_offset() <= end)
        };
        let total: u64 = below().map(|segment| segment.size()).sum();
        let dirty: u64 = below()
            .filter(|s| s.end_offset() > first_dirty)
            .map(|s| s.size())
            .sum();
        let dirty_ratio = if total == 0 {
            0.0
        } else {
            dirty as f64 / total as f64
        };
        let oldest = below().find(|segment| segment.end_offset() > first_dirty);
        let waited = match oldest
            .map(|segment| segment.first_timestamp())
            .transpose()?
            .flatten()
        {
            Some(first) => now_ms.saturating_sub(first),
            None => 0,
        };
        let due = (dirty > 0 && dirty_ratio >= config.min_cleanable_dirty_ratio)
            || waited > config.max_compaction_lag_ms;
        Ok(Some(Cleanable {
            first_dirty_offset: first_dirty,
            end_offset: end,
            dirty_ratio,
            due,
        }))
    }

    /// Return the end of the last whole segment that may be compacted.
    fn cleanable_end(
        &self,
        segments: &Segments,
        first_dirty: i64,
        high_watermark: i64,
        now_ms: i64,
    ) -> Result<i64, StorageError> {
        let lag = self.config.load().min_compaction_lag_ms;
        let stable = self.last_stable_offset(high_watermark);
        let mut end = first_dirty;
        for segment in &segments[..segments.len() - 1] {
            if segment.end_offset() <= first_dirty {
                continue;
            }
            let newest = segment
                .largest_timestamp()?
                .map_or(NO_TIMESTAMP, |(timestamp, _)| timestamp);
            let young = lag > 0 && newest > now_ms.saturating_sub(lag);
            if segment.end_offset() > stable || young {
                break;
            }
            end = segment.end_offset();
        }
        Ok(end)
    }

    /// Run one pass; return its result. `keys_max` bounds its memory: about 40 bytes for each key. With more distinct
    /// keys in the dirty part, the pass covers only a part of it.
    ///
    /// # Errors
    /// [`StorageError`]; a damaged batch stops the pass and changes nothing.
    pub fn compact(
        &self,
        high_watermark: i64,
        now_ms: i64,
        keys_max: usize,
    ) -> Result<CompactionResult, StorageError> {
        let _maintenance = self.maintenance.lock();
        let segments = self.segments.load_full();
        // Replacements must be as durable as the originals, and a replay of the journal must not write entries for the
        // originals into them.
        self.leave_journal()?;
        self.flush()?;
        let first_dirty = self.cleaned_to();
        let end = self.cleanable_end(&segments, first_dirty, high_watermark, now_ms)?;
        if end <= first_dirty {
            return Ok(CompactionResult {
                cleaned_to: first_dirty,
                ..CompactionResult::default()
            });
        }
        let candidates: Segments = segments
            .iter()
            .filter(|s| s.end_offset() <= end)
            .cloned()
            .collect();
        let producers = self.writer.lock().producers.last_batches();
        let aborted = self.aborted_transactions(candidates[0].base_offset, i64::MAX)?;
        let keys = KeyOffsets::build(&candidates, first_dirty, end, &aborted, keys_max)?;
        let cleaned_to = keys.end();
        let candidates: Segments = candidates
            .into_iter()
            .filter(|s| s.base_offset < cleaned_to)
            .collect();
        let mut filter = Filter::new(
            &keys,
            producers,
            &aborted,
            now_ms,
            self.config().delete_retention_ms,
        );
        let mut done = CompactionResult {
            cleaned_to,
            ..CompactionResult::default()
        };
        for group in self.groups(&candidates) {
            let (before, after) = self.rewrite(group, &mut filter, now_ms)?;
            done.bytes_before += before;
            done.bytes_after += after;
        }
        self.cleaned_to.store(cleaned_to, Ordering::Release);
        self.purge_deleted_files(now_ms)?;
        Ok(done)
    }

    /// Group neighbouring segments whose content fits one segment.
    fn groups<'a>(&self, candidates: &'a [Arc<Segment>]) -> Vec<&'a [Arc<Segment>]> {
        let config = self.config();
        let mut groups = Vec::new();
        let mut start = 0;
        let mut bytes = 0;
        for (at, segment) in candidates.iter().enumerate() {
            let range = segment.end_offset() - candidates[start].base_offset;
            let fits = bytes + segment.size() <= u64::from(config.segment_bytes)
                && range <= i64::from(i32::MAX);
            if at > start && !fits {
                groups.push(&candidates[start..at]);
                start = at;
                bytes = 0;
            }
            bytes += segment.size();
        }
        groups.push(&candidates[start..]);
        groups
    }

    /// Rewrite one group and replace its segments. Return the bytes before and after.
    fn rewrite(
        &self,
        group: &[Arc<Segment>],
        filter: &mut Filter<'_>,
        now_ms: i64,
    ) -> Result<(u64, u64), StorageError> {
        let dir = self.directory();
        let base = group[0].base_offset;
        let before: u64 = group.iter().map(|segment| segment.size()).sum();
        let mut output = Output::create(&dir, base, self.config().index_interval_bytes)?;
        let mut changed = group.len() > 1;
        filter.begin_group();
        for segment in group {
            segment.for_each(Depth::Whole, segment.base_offset, |_, header, batch| {
                let corrupt = |error: pybroker_model::BatchError| StorageError::Corrupt {
                    path: segment.path(LOG),
                    reason: format!("batch at offset {}: {error}", header.base_offset),
                };
                match filter.judge(header, batch).map_err(corrupt)? {
                    Verdict::Keep => output.push(header, batch)?,
                    Verdict::Drop => changed = true,
                    Verdict::Replace(new_header, new_batch) => {
                        changed = true;
                        output.push(&new_header, &new_batch)?;
                    }
                }
                Ok(true)
            })?;
        }
        if !changed {
            output.discard()?;
            return Ok((before, before));
        }
        let after = output.finish(filter.aborted_kept())?;
        self.swap_in(group, after, now_ms)
            .map_err(|error| self.fatal(error))?;
        Ok((before, after))
    }

    /// Replace `group` by `*.cleaned`. See the module documentation for the order.
    fn swap_in(&self, group: &[Arc<Segment>], size: u64, now_ms: i64) -> Result<(), StorageError> {
        let dir = self.directory();
        let base = group[0].base_offset;
        for suffix in SEGMENT_SUFFIXES.iter().rev() {
            let from = file_names::of_segment(&dir, base, &format!("{suffix}{CLEANED}"));
            let to = file_names::of_segment(&dir, base, &format!("{suffix}{SWAP}"));
            rename_if_there(&from, &to)?;
        }
        files::sync_dir(&dir)?;
        let replacement = Arc::new(Segment::new(base, &self.dir, &self.handles, now_ms));
        replacement.set_end(group[group.len() - 1].end_offset(), size);
        replacement.entry_synced.store(true, Ordering::Release);
        // Readers that find their segment replaced wait for this lock and look up the offset again.
        let writer = self.writer.lock();
        self.check_usable(writer.closed)?;
        for segment in group {
            segment.replaced.store(true, Ordering::Release);
        }
        for segment in &group[1..] {
            self.retire(segment, now_ms)?;
        }
        for suffix in SEGMENT_SUFFIXES.iter().rev() {
            let from = file_names::of_segment(&dir, base, &format!("{suffix}{SWAP}"));
            let to = file_names::of_segment(&dir, base, suffix);
            if !rename_if_there(&from, &to)? && *suffix == TXN_INDEX {
                // The replacement has no aborted transaction.
                files::remove(&to)?;
            }
        }
        let mut segments: Segments = self.segments.load().as_ref().clone();
        let first = Self::segment_index(&segments, base);
        segments.splice(first..first + group.len(), [replacement]);
        self.publish_segments(segments);
        drop(writer);
        files::sync_dir(&dir)
    }
}

fn rename_if_there(from: &std::path::Path, to: &std::path::Path) -> Result<bool, StorageError> {
    match std::fs::rename(from, to) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(StorageError::io("rename", from)(error)),
    }
}

/// Write a whole small file and sync it.
fn write_synced(path: &std::path::Path, content: &[u8]) -> Result<(), StorageError> {
    let mut file = File::create(path).map_err(StorageError::io("create", path))?;
    file.write_all(content)
        .and_then(|()| files::sync_data(&file))
        .map_err(StorageError::io("write", path))
}

/// Suffixes of index files while they are written.
const CLEANED_INDEXES: [&str; 3] = [INDEX, TIME_INDEX, TXN_INDEX];
