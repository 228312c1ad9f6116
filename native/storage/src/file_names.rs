//! Every file name and suffix of a log directory, defined once. All are Apache Kafka's: Kafka's tools can read the
//! broker's files, and the broker can read Kafka's.

use pybroker_model::{TopicId, TopicIdPartition, Uuid};
use std::path::{Path, PathBuf};

/// Number of id characters in the parent directory's name. Partition directories are spread over several parent
/// directories.
const PREFIX_BYTES: usize = 2;

pub(crate) const LOG: &str = ".log";
pub(crate) const INDEX: &str = ".index";
pub(crate) const TIME_INDEX: &str = ".timeindex";
pub(crate) const TXN_INDEX: &str = ".txnindex";
pub(crate) const SNAPSHOT: &str = ".snapshot";
/// Suffix of a removed file that waits for its last readers.
pub(crate) const DELETED: &str = ".deleted";
/// Suffix of the output of a running compaction, useless after a crash.
pub(crate) const CLEANED: &str = ".cleaned";
/// Suffix of the complete output of a compaction, which replaces the originals even after a crash.
pub(crate) const SWAP: &str = ".swap";
/// The files that make up a segment.
pub(crate) const SEGMENT_SUFFIXES: [&str; 4] = [LOG, INDEX, TIME_INDEX, TXN_INDEX];
/// Suffix of a file being written, useless after a crash.
pub(crate) const TEMPORARY: &str = ".tmp";
/// Suffix of damaged bytes that recovery cut off, kept for the operator.
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
/// Suffix of a directory that is being copied from another log directory (Kafka's).
pub(crate) const FUTURE_DIR: &str = "-future";
/// Suffix of a directory that is about to be removed (Kafka's).
pub(crate) const REMOVED_DIR: &str = "-delete";
/// File inside a partition's directory: the partition has moved to another log directory.
pub(crate) const MOVED: &str = "moved";
/// Directory of staged deletions: `{topic id in hex}_{partition}`.
pub(crate) const DELETING: &str = "deleting";
/// Directory of staged ingests: `{topic id in hex}/{ingest}/p{partition}/…`.
pub(crate) const INGEST: &str = "ingest";
/// Directory of the metadata log, which is no partition of a topic; its name is Kafka's.
pub(crate) const METADATA_LOG: &str = "__cluster_metadata-0";
/// Suffix of a staged deletion whose removal has begun.
pub(crate) const PURGING: &str = ".purging";
/// File inside a staged deletion: its former name, the deadline, and its log's values in the checkpoints.
pub(crate) const DELETION: &str = "deletion";

/// Return a segment's path: `00000000000000000042.log` and the like.
pub(crate) fn of_segment(dir: &Path, base_offset: i64, suffix: &str) -> PathBuf {
    dir.join(format!("{base_offset:020}{suffix}"))
}

/// Return the offset at the start of a file name, and the suffix after it.
pub(crate) fn offset_and_suffix(name: &str) -> Option<(i64, &str)> {
    let (digits, suffix) = name.split_at_checked(20)?;
    if !digits.bytes().all(|b| b.is_ascii_digit()) {
        return None;
    }
    Some((digits.parse().ok()?, suffix))
}

/// Return whether a directory's name is `….{32 hex digits}` with `suffix`.
pub(crate) fn is_marked(directory: &str, suffix: &str) -> bool {
    directory
        .strip_suffix(suffix)
        .and_then(|rest| rest.rsplit_once('.'))
        .is_some_and(|(name, hex)| {
            !name.is_empty() && hex.len() == 32 && hex.bytes().all(|b| b.is_ascii_hexdigit())
        })
}

/// Return `{first two digits}/{topic id in hex}_{partition}`: the layout by id, of KIP-516. Hex, because a
/// case-insensitive file system would confuse two ids in base64.
pub(crate) fn by_id(id: TopicIdPartition) -> String {
    let hex = id.topic_id.uuid().to_hex();
    format!("{}/{hex}_{}", &hex[..PREFIX_BYTES], id.partition)
}

/// Return whether a directory's name is an id prefix.
pub(crate) fn is_prefix(directory: &str) -> bool {
    directory.len() == PREFIX_BYTES && directory.bytes().all(is_lower_hex)
}

/// Return id and partition of a directory named `{topic id in hex}_{partition}`, with or without prefix. Splits at the
/// last `_`.
pub(crate) fn id_and_partition(directory: &str) -> Option<TopicIdPartition> {
    let (prefix, name) = match directory.split_once('/') {
        Some((prefix, name)) => (Some(prefix), name),
        None => (None, directory),
    };
    let (hex, index) = name.rsplit_once('_')?;
    let valid = hex.len() == 32
        && hex.bytes().all(is_lower_hex)
        && prefix.is_none_or(|prefix| prefix == &hex[..PREFIX_BYTES])
        && !index.is_empty()
        && index.bytes().all(|b| b.is_ascii_digit());
    if !valid {
        return None;
    }
    Some(TopicIdPartition {
        topic_id: TopicId::new(Uuid::parse(hex).ok()?)?,
        partition: index.parse().ok()?,
    })
}

fn is_lower_hex(byte: u8) -> bool {
    matches!(byte, b'0'..=b'9' | b'a'..=b'f')
}

/// Return topic and partition of a directory named `{topic}-{partition}`.
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
    fn names_by_id() {
        let id = TopicIdPartition {
            topic_id: TopicId::new(Uuid::from_u128(0x24cc_4332_f7de_45a3_b24e_33d6_1aa0_d16c))
                .expect("not zero"),
            partition: 1,
        };
        let name = "24/24cc4332f7de45a3b24e33d61aa0d16c_1";
        assert_eq!(by_id(id), name);
        assert_eq!(id_and_partition(name), Some(id));
        assert_eq!(id_and_partition(&name[3..]), Some(id));
        assert!(is_prefix("24") && !is_prefix("2G") && !is_prefix("244"));
        for wrong in [
            "25/24cc4332f7de45a3b24e33d61aa0d16c_1",
            "24/24CC4332f7de45a3b24e33d61aa0d16c_1",
            "24cc4332f7de45a3b24e33d61aa0d16c",
            "24cc4332f7de45a3b24e33d61aa0d16c_",
            "00000000000000000000000000000000_1",
        ] {
            assert_eq!(id_and_partition(wrong), None, "{wrong}");
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
