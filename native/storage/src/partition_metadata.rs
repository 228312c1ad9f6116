//! `partition.metadata`: topic id of a partition directory (KIP-516).

use crate::error::StorageError;
use crate::file_names::PARTITION_METADATA;
use crate::files;
use pybroker_model::{TopicId, Uuid};
use std::collections::HashMap;
use std::path::Path;

const METADATA_BYTES_MAX: u64 = 4096;

/// Return the file's text. Kafka writes no newline at the end.
pub(crate) fn render(id: TopicId) -> String {
    format!("version: 0\ntopic_id: {id}")
}

/// Read the topic id of a partition directory; `None` if the file is missing.
///
/// Accepts ids in all three notations, and versions above 0 if they have the id.
pub(crate) fn read(dir: &Path) -> Result<Option<TopicId>, StorageError> {
    let path = dir.join(PARTITION_METADATA);
    let Some(content) = files::read_if_there(&path, METADATA_BYTES_MAX)? else {
        return Ok(None);
    };
    let corrupt = |reason: String| StorageError::Corrupt {
        path: path.clone(),
        reason,
    };
    let text = String::from_utf8(content).map_err(|_| corrupt("not text".into()))?;
    let mut values: HashMap<&str, &str> = HashMap::new();
    for line in text.lines().filter(|line| !line.trim().is_empty()) {
        let (key, value) = line.split_once(':').ok_or_else(|| {
            corrupt(format!(
                "a line {:?}",
                line.chars().take(40).collect::<String>()
            ))
        })?;
        if values.insert(key.trim(), value.trim()).is_some() {
            return Err(corrupt(format!("{:?} appears twice", key.trim())));
        }
    }
    let value_of = |key: &str| values.get(key).copied();
    let version = value_of("version").ok_or_else(|| corrupt("no version".into()))?;
    if !version.parse::<i32>().is_ok_and(|v| v >= 0) {
        return Err(corrupt(format!("version {version:?}")));
    }
    let id = value_of("topic_id").ok_or_else(|| corrupt("no topic_id".into()))?;
    let id = Uuid::parse(id).map_err(|e| corrupt(e.to_string()))?;
    TopicId::new(id)
        .filter(|found| found.uuid() != Uuid::METADATA)
        .map(Some)
        .ok_or_else(|| corrupt("topic_id is reserved".into()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn read_what_was_written_and_refuse_damage() {
        let dir = tempfile::tempdir().expect("temp dir");
        assert_eq!(read(dir.path()).expect("missing"), None);
        let path = dir.path().join(PARTITION_METADATA);
        let id = TopicId::random();
        std::fs::write(&path, render(id)).expect("writes");
        assert_eq!(read(dir.path()).expect("reads"), Some(id));
        let hex = format!("version: 0\ntopic_id: {}\n", id.uuid().to_hex());
        std::fs::write(&path, hex).expect("writes");
        assert_eq!(read(dir.path()).expect("reads"), Some(id));
        for damaged in [
            "".to_owned(),
            "version: 0".to_owned(),
            format!("version: -1\ntopic_id: {id}"),
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAA".to_owned(),
            "version: 0\ntopic_id: short".to_owned(),
            format!("version: 0\ntopic_id: {id}\ngarbage"),
            format!("version: 0\ntopic_id: {id}\ntopic_id: {id}"),
            "version: 0\ntopic_id: AAAAAAAAAAAAAAAAAAAAAQ".to_owned(),
            "x".repeat(5000),
        ] {
            std::fs::write(&path, &damaged).expect("writes");
            assert!(read(dir.path()).is_err(), "{damaged:?}");
        }
    }
}
