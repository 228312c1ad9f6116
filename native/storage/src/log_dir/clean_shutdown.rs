//! The clean-shutdown marker: with it, opening a log scans nothing.
//!
//! Kafka's marker says only that there was a clean stop. Ours names, per log, the last segment's
//! file with size and modification time, so that data changed afterwards (a restored backup, a
//! disk from another time) is not believed, and it has a checksum.

use crate::error::StorageError;
use crate::file_names::CLEAN_SHUTDOWN;
use crate::files;
use crate::log::CleanState;
use pybroker_model::crc32c;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

const MARKER_BYTES_MAX: u64 = 1 << 30;
const VERSION_LINE: &str = "pybroker clean shutdown 1";

/// Reads the marker and removes it, durably, so that it cannot outlive a crash.
pub(super) fn take(dir: &Path) -> Result<HashMap<String, CleanState>, StorageError> {
    let path = dir.join(CLEAN_SHUTDOWN);
    let content = match files::read_if_there(&path, MARKER_BYTES_MAX) {
        Ok(None) => return Ok(HashMap::new()),
        Ok(Some(content)) => content,
        // Too large or unreadable is as good as absent.
        Err(_) => Vec::new(),
    };
    files::remove(&path)?;
    files::sync_dir(dir)?;
    Ok(parse(&content).unwrap_or_default())
}

/// Writes the marker, durably.
pub(super) fn write(dir: &Path, logs: &[(String, CleanState)]) -> Result<(), StorageError> {
    let mut text = format!("{VERSION_LINE}\n");
    for (name, s) in logs {
        // Writing to a String cannot fail.
        let _ = writeln!(
            text,
            "{name} {} {} {} {} {}",
            s.active_base, s.size, s.modified_ns, s.log_end, s.producers
        );
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
    lines
        .map(|line| {
            let mut words = line.split(' ');
            let name = words.next()?.to_owned();
            let state = CleanState {
                active_base: words.next()?.parse().ok()?,
                size: words.next()?.parse().ok()?,
                modified_ns: words.next()?.parse().ok()?,
                log_end: words.next()?.parse().ok()?,
                producers: words.next()?.parse().ok()?,
            };
            words.next().is_none().then_some((name, state))
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_marker_is_used_up_and_guarded() {
        let dir = tempfile::tempdir().expect("temp dir");
        let state = CleanState {
            active_base: 5,
            size: 100,
            modified_ns: 7,
            log_end: 12,
            producers: 1,
        };
        let logs = [
            ("a-0".to_owned(), state.clone()),
            ("b-1".to_owned(), state.clone()),
        ];
        write(dir.path(), &logs).expect("writes");
        let path = dir.path().join(CLEAN_SHUTDOWN);
        let good = std::fs::read(&path).expect("reads");
        let read = take(dir.path()).expect("takes");
        assert_eq!(read.len(), 2);
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
