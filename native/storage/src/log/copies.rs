//! Attaches that copy, small ones, after a crash: a copy is in the log whole, or not at all.

use super::Log;
use crate::error::StorageError;
use crate::scan::Depth;
use crate::staged::intent::{self, Intent, State};
use crate::staged::waiting;
use std::path::Path;

impl Log {
    /// After the log was opened: copies that are there whole are done, those that are not are taken out; they are
    /// attached again. What follows a half one goes with it: a power cut took the copy's end, or recovery a torn batch
    /// out of its middle, and nothing behind it was flushed, since a flush would have covered the copy. Answers how
    /// many there were.
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

    /// Whether the log has every offset of a copy. An attach leaves no gap of its own, and nobody compacts meanwhile.
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
