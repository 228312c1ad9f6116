//! Leader epochs and their start offsets (KIP-101, KIP-279), and their file `leader-epoch-checkpoint`: one `epoch
//! start_offset` on each line.

use crate::checkpoint;
use crate::error::StorageError;
use crate::files;
use std::path::Path;

const EPOCHS_BYTES_MAX: u64 = 64 << 20;

/// A leader epoch.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct EpochEntry {
    /// Number of the epoch.
    pub epoch: i32,
    /// Log end offset when the epoch began.
    pub start_offset: i64,
}

/// The epochs of one log, ascending in both fields.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LeaderEpochs {
    entries: Vec<EpochEntry>,
}

impl LeaderEpochs {
    pub(crate) fn entries(&self) -> &[EpochEntry] {
        &self.entries
    }

    pub(crate) fn latest(&self) -> Option<EpochEntry> {
        self.entries.last().copied()
    }

    /// Record that `epoch` begins at `start_offset`. Return whether anything changed. Drops entries that contradict the
    /// new one (a higher epoch, or a start offset that is not lower), as in Kafka.
    pub(crate) fn assign(&mut self, epoch: i32, start_offset: i64) -> bool {
        if epoch < 0 || self.latest().is_some_and(|last| last.epoch == epoch) {
            return false;
        }
        self.entries
            .retain(|entry| entry.epoch < epoch && entry.start_offset < start_offset);
        self.entries.push(EpochEntry {
            epoch,
            start_offset,
        });
        true
    }

    /// Return the largest known epoch not above `epoch` and its end offset, as OffsetForLeaderEpoch does, or `None` if
    /// the epoch is not known. For an epoch below the first one, return that epoch and the log start, so that clients
    /// reset to the log start.
    pub(crate) fn end_offset_for(
        &self,
        epoch: i32,
        log_start: i64,
        log_end: i64,
    ) -> Option<(i32, i64)> {
        if epoch < 0 {
            return None;
        }
        let latest = self.latest()?;
        if epoch == latest.epoch {
            return Some((epoch, log_end));
        }
        let next = self.entries.iter().position(|entry| entry.epoch > epoch)?;
        match next.checked_sub(1) {
            None => Some((epoch, log_start.max(self.entries[0].start_offset))),
            Some(floor) => Some((self.entries[floor].epoch, self.entries[next].start_offset)),
        }
    }

    /// Return the first known epoch.
    pub(crate) fn first(&self) -> Option<i32> {
        self.entries.first().map(|entry| entry.epoch)
    }

    /// Return the epoch of the record at `offset`.
    pub(crate) fn epoch_for(&self, offset: i64) -> Option<i32> {
        let after = self
            .entries
            .partition_point(|entry| entry.start_offset <= offset);
        Some(self.entries[after.checked_sub(1)?].epoch)
    }

    /// Drop epochs that begin at or after `end`, where the log was truncated.
    pub(crate) fn truncate_from_end(&mut self, end: i64) -> bool {
        let before = self.entries.len();
        self.entries.retain(|entry| entry.start_offset < end);
        self.entries.len() != before
    }

    /// Drop epochs that ended before `start`; the epoch that covers `start` then begins there.
    pub(crate) fn truncate_from_start(&mut self, start: i64) -> bool {
        let covering = self
            .entries
            .partition_point(|entry| entry.start_offset <= start);
        let Some(covering) = covering.checked_sub(1) else {
            return false;
        };
        if covering == 0 && self.entries[0].start_offset == start {
            return false;
        }
        self.entries.drain(..covering);
        self.entries[0].start_offset = start;
        true
    }

    pub(crate) fn clear(&mut self) {
        self.entries.clear();
    }

    pub(crate) fn render(&self) -> String {
        checkpoint::render(
            self.entries
                .iter()
                .map(|e| format!("{} {}", e.epoch, e.start_offset)),
        )
    }

    /// Read the file; a missing one is empty.
    ///
    /// # Errors
    /// [`StorageError::Corrupt`], also for entries out of order; recovery rebuilds the epochs from the log.
    pub(crate) fn read(path: &Path) -> Result<Self, StorageError> {
        let Some(content) = files::read_if_there(path, EPOCHS_BYTES_MAX)? else {
            return Ok(Self::default());
        };
        let corrupt = |reason| StorageError::Corrupt {
            path: path.to_path_buf(),
            reason,
        };
        let text = String::from_utf8(content).map_err(|_| corrupt("not text".into()))?;
        let mut entries: Vec<EpochEntry> = Vec::new();
        for line in checkpoint::parse_lines(&text).map_err(corrupt)? {
            let entry = line.split_once(' ').and_then(|(epoch, offset)| {
                Some(EpochEntry {
                    epoch: epoch.parse().ok()?,
                    start_offset: offset.trim().parse().ok()?,
                })
            });
            let entry = entry.ok_or_else(|| corrupt(format!("line {line:?}")))?;
            let ascending = entries.last().is_none_or(|last: &EpochEntry| {
                last.epoch < entry.epoch && last.start_offset <= entry.start_offset
            });
            if !ascending || entry.epoch < 0 || entry.start_offset < 0 {
                return Err(corrupt(format!("line {line:?} is out of order")));
            }
            entries.push(entry);
        }
        Ok(Self { entries })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn epochs(list: &[(i32, i64)]) -> LeaderEpochs {
        let entries = list.iter().map(|&(epoch, start_offset)| EpochEntry {
            epoch,
            start_offset,
        });
        LeaderEpochs {
            entries: entries.collect(),
        }
    }

    #[test]
    fn ends_of_epochs() {
        let known = epochs(&[(2, 10), (4, 20), (7, 30)]);
        for (epoch, expected) in [
            (-1, None),
            (0, Some((0, 10))),
            (1, Some((1, 10))),
            (2, Some((2, 20))),
            (3, Some((2, 20))),
            (4, Some((4, 30))),
            (6, Some((4, 30))),
            (7, Some((7, 45))),
            (8, None),
        ] {
            assert_eq!(
                known.end_offset_for(epoch, 5, 45),
                expected,
                "epoch {epoch}"
            );
        }
        assert_eq!(epochs(&[]).end_offset_for(0, 0, 0), None);
        assert_eq!(known.epoch_for(9), None);
        assert_eq!(known.epoch_for(29), Some(4));
    }

    #[test]
    fn assigning_drops_what_it_contradicts() {
        let mut known = epochs(&[(2, 10), (4, 20)]);
        assert!(!known.assign(4, 25), "the epoch goes on");
        assert!(known.assign(5, 20), "nothing was written in epoch 4");
        assert_eq!(known, epochs(&[(2, 10), (5, 20)]));
        assert!(!known.assign(-1, 30));
    }

    #[test]
    fn truncation() {
        let mut known = epochs(&[(2, 10), (4, 20), (7, 30)]);
        assert!(known.truncate_from_end(30));
        assert_eq!(known, epochs(&[(2, 10), (4, 20)]));
        assert!(known.truncate_from_start(15));
        assert_eq!(known, epochs(&[(2, 15), (4, 20)]));
        assert!(known.truncate_from_start(20));
        assert_eq!(known, epochs(&[(4, 20)]));
        assert!(!known.truncate_from_start(20));
    }

    #[test]
    fn the_file() {
        let dir = tempfile::tempdir().expect("temp dir");
        let path = dir.path().join("leader-epoch-checkpoint");
        let known = epochs(&[(0, 0), (4, 20)]);
        std::fs::write(&path, known.render()).expect("writes");
        assert_eq!(LeaderEpochs::read(&path).expect("reads"), known);
        for damaged in [
            "0\n1\n0\n",
            "0\n2\n4 20\n0 0\n",
            "0\n1\n-1 0\n",
            "0\n1\n1 x\n",
        ] {
            std::fs::write(&path, damaged).expect("writes");
            assert!(LeaderEpochs::read(&path).is_err(), "{damaged:?}");
        }
    }
}
