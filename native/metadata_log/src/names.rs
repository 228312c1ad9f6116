//! Names of files, as in Kafka.

use pybroker_quorum::EpochEnd;

pub(crate) const LOG: &str = ".log";
pub(crate) const CHECKPOINT: &str = ".checkpoint";
/// Suffix of an incomplete snapshot; recovery removes such files.
pub(crate) const PART: &str = ".part";
/// Suffix of an incomplete snapshot that this replica writes itself. The leader may send a snapshot with the same id at
/// the same time, under [`PART`].
pub(crate) const OWN_PART: &str = ".own.part";
/// Suffix of a damaged snapshot, which is kept for the operator.
pub(crate) const CORRUPT: &str = ".corrupt";
/// Suffix of the new content of a small file, before the rename.
pub(crate) const TEMPORARY: &str = ".tmp";
pub(crate) const QUORUM_STATE: &str = "quorum-state";
pub(crate) const FLUSHED_OFFSET: &str = "flushed-offset";

/// Return the name of a segment.
pub(crate) fn of_segment(base_offset: i64) -> String {
    format!("{base_offset:020}{LOG}")
}

/// Return the base offset in the name of a segment.
pub(crate) fn segment_base(name: &str) -> Option<i64> {
    offset(name.strip_suffix(LOG)?)
}

/// Return the name of a snapshot.
pub(crate) fn of_snapshot(id: EpochEnd) -> String {
    format!("{:020}-{:010}{CHECKPOINT}", id.offset, id.epoch)
}

/// Return the id in the name of a snapshot.
pub(crate) fn snapshot_id(name: &str) -> Option<EpochEnd> {
    let (end, epoch) = name.strip_suffix(CHECKPOINT)?.split_once('-')?;
    let digits = epoch.len() == 10 && epoch.bytes().all(|byte| byte.is_ascii_digit());
    Some(EpochEnd {
        offset: offset(end)?,
        epoch: digits.then(|| epoch.parse().ok())??,
    })
}

fn offset(digits: &str) -> Option<i64> {
    let valid = digits.len() == 20 && digits.bytes().all(|byte| byte.is_ascii_digit());
    valid.then(|| digits.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_kafkas() {
        let id = EpochEnd {
            epoch: 3,
            offset: 42,
        };
        assert_eq!(of_segment(42), "00000000000000000042.log");
        assert_eq!(segment_base("00000000000000000042.log"), Some(42));
        assert_eq!(
            of_snapshot(id),
            "00000000000000000042-0000000003.checkpoint"
        );
        assert_eq!(snapshot_id(&of_snapshot(id)), Some(id));
        for other in [
            "42.log",
            "00000000000000000042.index",
            "99999999999999999999.log",
            "0000000000000000000é.log",
        ] {
            assert_eq!(segment_base(other), None, "{other}");
        }
        for other in [
            "00000000000000000042-0000000003.checkpoint.part",
            "00000000000000000042-3.checkpoint",
            "leader-epoch.checkpoint",
        ] {
            assert_eq!(snapshot_id(other), None, "{other}");
        }
    }
}
