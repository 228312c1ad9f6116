//! Kafka's small text files: `version`, number of entries, one entry on each line.

use crate::error::StorageError;
use crate::files;
use std::collections::HashMap;
use std::fmt::Write as _;
use std::path::Path;

const VERSION: &str = "0";
/// Maximum size of a checkpoint file: enough for 10,000,000 partitions with long names. A larger file is not a
/// checkpoint.
const CHECKPOINT_BYTES_MAX: u64 = 2 << 30;

/// Offsets by topic and partition.
pub(crate) type OffsetsByPartition = HashMap<(String, i32), i64>;

/// Return the lines after the first two, if the file is well formed.
pub(crate) fn parse_lines(content: &str) -> Result<Vec<&str>, String> {
    let mut lines = content.lines();
    let version = lines.next().ok_or("empty file")?.trim();
    if version != VERSION {
        return Err(format!("version {version:?}, expected {VERSION}"));
    }
    let count = lines.next().ok_or("no entry count")?.trim();
    let expected: usize = count
        .parse()
        .map_err(|_| format!("entry count {count:?}"))?;
    let entries: Vec<&str> = lines.filter(|line| !line.trim().is_empty()).collect();
    if entries.len() != expected {
        return Err(format!("{} entries, expected {expected}", entries.len()));
    }
    Ok(entries)
}

/// Return the file's text for `entries`.
pub(crate) fn render(entries: impl ExactSizeIterator<Item = String>) -> String {
    let mut text = format!("{VERSION}\n{}\n", entries.len());
    for entry in entries {
        text.push_str(&entry);
        text.push('\n');
    }
    text
}

/// Read an offset checkpoint. A missing file counts as empty, and so does a file without bytes: Kafka creates the file
/// before it has anything to write.
///
/// # Errors
/// [`StorageError::Corrupt`]; the caller continues without the file, which costs time but no data.
pub(crate) fn read_offsets(path: &Path) -> Result<OffsetsByPartition, StorageError> {
    let Some(content) = files::read_if_there(path, CHECKPOINT_BYTES_MAX)? else {
        return Ok(HashMap::new());
    };
    if content.is_empty() {
        return Ok(HashMap::new());
    }
    let corrupt = |reason| StorageError::Corrupt {
        path: path.to_path_buf(),
        reason,
    };
    let text = String::from_utf8(content).map_err(|_| corrupt("not text".into()))?;
    let mut offsets = HashMap::new();
    for line in parse_lines(&text).map_err(corrupt)? {
        let mut words = line.split_ascii_whitespace();
        let entry = (|| {
            let topic = words.next()?.to_owned();
            let partition = words.next()?.parse().ok()?;
            let offset = words.next()?.parse().ok()?;
            words
                .next()
                .is_none()
                .then_some(((topic, partition), offset))
        })();
        let (key, offset) = entry.ok_or_else(|| corrupt(format!("line {line:?}")))?;
        offsets.insert(key, offset);
    }
    Ok(offsets)
}

/// Replace an offset checkpoint, durably.
pub(crate) fn write_offsets<'a>(
    path: &Path,
    entries: impl Iterator<Item = (&'a str, i32, i64)>,
) -> Result<(), StorageError> {
    let mut body = String::new();
    let mut count = 0;
    for (topic, partition, offset) in entries {
        // Writing to a String cannot fail.
        let _ = writeln!(body, "{topic} {partition} {offset}");
        count += 1;
    }
    files::write_atomically(path, format!("{VERSION}\n{count}\n{body}").as_bytes())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_and_damage() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("checkpoint");
        assert!(read_offsets(&path).expect("missing is empty").is_empty());
        write_offsets(&path, [("a", 0, 5), ("b.c", 12, i64::MAX)].into_iter()).expect("writes");
        let offsets = read_offsets(&path).expect("reads");
        assert_eq!(offsets[&("a".to_owned(), 0)], 5);
        assert_eq!(offsets[&("b.c".to_owned(), 12)], i64::MAX);
        std::fs::write(&path, "").expect("writes");
        assert!(read_offsets(&path).expect("as Kafka makes it").is_empty());
        for damaged in [
            "\n",
            "1\n0\n",
            "0\n2\na 0 1\n",
            "0\nx\n",
            "0\n1\na 0\n",
            "0\n1\na 0 1 2\n",
        ] {
            std::fs::write(&path, damaged).expect("writes");
            assert!(
                matches!(read_offsets(&path), Err(StorageError::Corrupt { .. })),
                "{damaged:?}"
            );
        }
        std::fs::write(&path, [0xff, 0xfe]).expect("writes");
        assert!(read_offsets(&path).is_err());
    }
}
