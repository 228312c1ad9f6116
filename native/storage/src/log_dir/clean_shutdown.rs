//! The clean-shutdown marker: with it, opening a log scans nothing.
//!
//! Kafka's marker only means that there was a clean stop. Pybroker's marker also lists every segment of each log with
//! its size and modification time, and a checksum. So opening a log does not trust data that was changed after the stop
//! (a truncated file, a restored backup, another disk). Kafka accepts the file as its own marker.
//!
//! ```text
//! pybroker clean shutdown 2
//! {directory} {log end} {producers} {base offset}:{size}:{modified ns}:{transaction index bytes} …
//! crc {crc32c of the lines above}
//! ```

use crate::clean_state::{CleanState, SegmentStamp};
use crate::error::StorageError;
use crate::file_names::CLEAN_SHUTDOWN;
use crate::files;
use pybroker_model::crc32c;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

const MARKER_BYTES_MAX: u64 = 1 << 30;
const VERSION_LINE: &str = "pybroker clean shutdown 2";

/// Read the marker and remove it durably, so that no start after a crash finds it.
pub(super) fn take(dir: &Path) -> Result<HashMap<String, CleanState>, StorageError> {
    let path = dir.join(CLEAN_SHUTDOWN);
    let content = match files::read_if_there(&path, MARKER_BYTES_MAX) {
        Ok(None) => return Ok(HashMap::new()),
        Ok(Some(content)) => content,
        // A marker that is too large or unreadable counts as absent.
        Err(_) => Vec::new(),
    };
    files::remove(&path)?;
    files::sync_dir(dir)?;
    Ok(parse(&content).unwrap_or_default())
}

/// Write the marker, durably.
pub(super) fn write(dir: &Path, logs: &[(String, CleanState)]) -> Result<(), StorageError> {
    let mut text = format!("{VERSION_LINE}\n");
    for (name, state) in logs {
        // Writing to a String cannot fail.
        let _ = write!(text, "{name} {} {}", state.log_end, state.producers);
        for s in &state.segments {
            let _ = write!(
                text,
                " {}:{}:{}:{}",
                s.base_offset, s.size, s.modified_ns, s.aborted_bytes
            );
        }
        text.push('\n');
    }
    let _ = writeln!(text, "crc {:08x}", crc32c(text.as_bytes()));
    files::write_atomically(&dir.join(CLEAN_SHUTDOWN), text.as_bytes())
}

fn parse(content: &[u8]) -> Option<HashMap<String, CleanState>> {
    let text = std::str::from_utf8(content).ok()?;
    let (body, crc) = text.trim_end().rsplit_once('\n')?;
    let covered = &text[..=body.len()];
    let crc = u32::from_str_radix(crc.strip_prefix("crc ")?, 16).ok()?;
    if crc32c(covered.as_bytes()) != crc {
        return None;
    }
    let mut lines = body.lines();
    if lines.next()? != VERSION_LINE {
        return None;
    }
    lines.map(parse_line).collect()
}

fn parse_line(line: &str) -> Option<(String, CleanState)> {
    let mut words = line.split(' ');
    let name = words.next()?.to_owned();
    let log_end = words.next()?.parse().ok()?;
    let producers = words.next()?.parse().ok()?;
    let segments: Option<Vec<_>> = words.map(parse_stamp).collect();
    let state = CleanState {
        segments: segments.filter(|all| all.is_sorted_by_key(|segment| segment.base_offset))?,
        log_end,
        producers,
    };
    Some((name, state))
}

fn parse_stamp(word: &str) -> Option<SegmentStamp> {
    let mut parts = word.split(':');
    let stamp = SegmentStamp {
        base_offset: parts.next()?.parse().ok()?,
        size: parts.next()?.parse().ok()?,
        modified_ns: parts.next()?.parse().ok()?,
        aborted_bytes: parts.next()?.parse().ok()?,
    };
    parts.next().is_none().then_some(stamp)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_used_up_and_guarded() {
        let dir = tempfile::tempdir().expect("temp dir");
        let stamp = |base_offset| SegmentStamp {
            base_offset,
            size: 100,
            modified_ns: i64::MIN,
            aborted_bytes: 34,
        };
        let state = CleanState {
            segments: vec![stamp(5), stamp(9)],
            log_end: 12,
            producers: 1,
        };
        let empty = CleanState {
            segments: Vec::new(),
            ..state.clone()
        };
        let logs = [
            ("a-0".to_owned(), state.clone()),
            ("b-1".to_owned(), state.clone()),
            ("c-0".to_owned(), empty.clone()),
        ];
        write(dir.path(), &logs).expect("writes");
        let path = dir.path().join(CLEAN_SHUTDOWN);
        let good = std::fs::read(&path).expect("reads");
        let read = take(dir.path()).expect("takes");
        assert_eq!(read.len(), 3);
        assert_eq!(read["c-0"], empty);
        assert_eq!(read["b-1"], state);
        assert!(take(dir.path()).expect("gone").is_empty());
        for byte in 0..good.len() - 1 {
            let mut bad = good.clone();
            bad[byte] ^= 1;
            assert!(
                parse(&bad).is_none_or(|logs| logs.is_empty()),
                "byte {byte}"
            );
        }
        std::fs::write(&path, b"{\"version\":0,\"brokerEpoch\":-1}").expect("writes");
        assert!(
            take(dir.path())
                .expect("Kafka's marker says nothing about us")
                .is_empty()
        );
    }
}
