//! Recovery of small attaches, which copy bytes: after a crash the log has either the whole copy or none of it.

use super::Log;
use crate::error::StorageError;
use crate::scan::Depth;
use crate::staged::intent::{self, Intent, State};
use crate::staged::waiting;
use std::path::Path;

impl Log {
    /// Complete or undo copies after the log was opened. If the log has all records of a copy, the attach is marked as
    /// done. Otherwise the copy is truncated, with all records after it, and attached again later. The truncation is
    /// safe: no flush covered these records, because that flush would have covered the copy too. Return the number of
    /// copies.
    pub(crate) fn settle_copies(&self, log_dir: &Path, now_ms: i64) -> Result<usize, StorageError> {
        let copies = waiting(log_dir, self.id, State::Copying)?;
        for (place, found) in &copies {
            let path = place.intent_path();
            if self.holds_all(found)? {
                self.flush()?;
                let done = Intent {
                    state: State::Done,
                    ..*found
                };
                intent::write(&path, Some(&done))?;
            } else {
                self.truncate_to(found.base, now_ms)?;
                intent::write(&path, None)?;
            }
        }
        Ok(copies.len())
    }

    /// Return whether the log has every offset of a copy. An attach leaves no gap, and compaction does not run before
    /// the copy is settled.
    fn holds_all(&self, intent: &Intent) -> Result<bool, StorageError> {
        let mut next = intent.base;
        for segment in self.segments.load().iter() {
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
}
