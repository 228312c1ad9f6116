//! Every file name and suffix of a log directory, once. All are Apache Kafka's, so that its tools
//! read our files and ours read its.

use std::path::{Path, PathBuf};

pub(crate) const LOG: &str = ".log";
pub(crate) const INDEX: &str = ".index";
pub(crate) const TIME_INDEX: &str = ".timeindex";
pub(crate) const TXN_INDEX: &str = ".txnindex";
pub(crate) const SNAPSHOT: &str = ".snapshot";
/// Waits for its last readers before it is removed.
pub(crate) const DELETED: &str = ".deleted";
/// Being written by compaction; worthless after a crash.
pub(crate) const CLEANED: &str = ".cleaned";
/// Written completely by compaction; replaces the originals even after a crash.
pub(crate) const SWAP: &str = ".swap";
/// Being written; worthless after a crash.
pub(crate) const TEMPORARY: &str = ".tmp";
/// Damaged bytes that recovery cut away, kept for the operator.
pub(crate) const CORRUPT: &str = ".corrupt";

pub(crate) const LEADER_EPOCHS: &str = "leader-epoch-checkpoint";
pub(crate) const PARTITION_METADATA: &str = "partition.metadata";
pub(crate) const META_PROPERTIES: &str = "meta.properties";
pub(crate) const LOCK: &str = ".lock";
pub(crate) const CLEAN_SHUTDOWN: &str = ".kafka_cleanshutdown";
pub(crate) const RECOVERY_POINTS: &str = "recovery-point-offset-checkpoint";
pub(crate) const LOG_STARTS: &str = "log-start-offset-checkpoint";
pub(crate) const CLEANED_TO: &str = "cleaner-offset-checkpoint";
pub(crate) const HIGH_WATERMARKS: &str = "replication-offset-checkpoint";
/// Directory of what waits for removal: `{topic id in hex}_{partition}`.
pub(crate) const DELETING: &str = "deleting";
/// Inside a directory that waits for removal: its name before, and the deadline.
pub(crate) const DELETION: &str = "deletion";

/// `00000000000000000042.log` and the like.
pub(crate) fn of_segment(dir: &Path, base_offset: i64, suffix: &str) -> PathBuf {
    dir.join(format!("{base_offset:020}{suffix}"))
}

/// The offset that a file name starts with, and the suffix after it.
pub(crate) fn offset_and_suffix(name: &str) -> Option<(i64, &str)> {
    let (digits, suffix) = name.split_at_checked(20)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, suffix))
}

/// Topic and partition of a directory named `{topic}-{partition}`.
pub(crate) fn topic_and_partition(directory: &str) -> Option<(&str, i32)> {
    let (topic, index) = directory.rsplit_once('-')?;
    let valid = !topic.is_empty()
        && topic.len() <= 249
        && topic != "."
        && topic != ".."
        && topic
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"._-".contains(&b))
        && !index.is_empty()
        && index.bytes().all(|b| b.is_ascii_digit());
    if valid {
        Some((topic, index.parse().ok()?))
    } else {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_directories() {
        assert_eq!(topic_and_partition("a-b-12"), Some(("a-b", 12)));
        for wrong in [
            "a",
            "-1",
            "a-",
            "a-x",
            "a--1/..",
            "a-99999999999",
            "ä-1",
            "..-1",
        ] {
            assert_eq!(topic_and_partition(wrong), None, "{wrong}");
        }
    }

    #[test]
    fn names_of_segments() {
        let path = of_segment(Path::new("d"), 42, LOG);
        assert_eq!(path, Path::new("d/00000000000000000042.log"));
        assert_eq!(
            offset_and_suffix("00000000000000000042.log"),
            Some((42, ".log"))
        );
        assert_eq!(offset_and_suffix("0000000000000000004é.log"), None);
        assert_eq!(offset_and_suffix("99999999999999999999.log"), None);
    }
}
