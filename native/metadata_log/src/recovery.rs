//! Recovery at start: makes the files consistent and durable.
//!
//! | found | done |
//! |---|---|
//! | `.part`, `.tmp` | removed: incomplete |
//! | newest snapshot damaged, but an older one undamaged | renamed to `.corrupt`; the log since the older one is complete |
//! | no undamaged snapshot | error |
//! | invalid batch at the end of the last segment, not before `flushed-offset` | a torn tail: truncated |
//! | the same, but a valid batch follows at a greater distance than the maximum of unsynced bytes | damage: error |
//! | invalid batch elsewhere, a gap, an end before `flushed-offset` | damage: error |
//! | the log ends before the newest snapshot, or differs from it | an install was interrupted: the log is dropped |
//! | segments and snapshots that are not needed any more | removed |

use bytes::Bytes;
use pybroker_model::BatchHeader;
use pybroker_quorum::{Body, EpochEnd, LogIndex, QuorumState, SnapshotHeader};

use crate::codec::{decode, endpoints_of};
use crate::control::Endpoint;
use crate::error::LogError;
use crate::files::{FileHandle, Files};
use crate::flushed_file::FlushedFile;
use crate::names::{self, CORRUPT, PART, TEMPORARY};
use crate::segment::{Invalid, Segment};
use crate::snapshot::SnapshotReader;
use crate::state_file;

const REMEDY: &str = "Restore the directory from a backup, or remove it: the broker then joins with a new directory id and \
     fetches the log from the others";

/// The initial data of the state machine.
#[derive(Debug)]
pub struct RecoveredState {
    /// The quorum state.
    pub state: QuorumState,
    /// The index of the log.
    pub index: LogIndex,
    /// Addresses in the latest voters record.
    pub endpoints: Vec<Endpoint>,
    /// Descriptions of the repairs, for the operator.
    pub notes: Vec<String>,
}

/// The parts of a log.
pub(crate) struct LogParts<F: Files> {
    pub(crate) segments: Vec<Segment<F>>,
    pub(crate) snapshots: Vec<EpochEnd>,
    pub(crate) flushed: FlushedFile<F>,
}

/// Recover the log.
///
/// # Errors
/// If the log is damaged, or the disk fails.
pub(crate) fn recover<F: Files>(
    files: &F,
    unsynced_bytes_max: u64,
) -> Result<(LogParts<F>, RecoveredState), LogError> {
    let mut names = files
        .names()
        .map_err(LogError::io("list", files.path_of("")))?;
    for name in names.extract_if(.., |name| name.ends_with(PART) || name.ends_with(TEMPORARY)) {
        remove(files, &name)?;
    }
    let state = state_file::read(files, &names)?;
    let mut notes = Vec::new();
    let (ids, newest) = newest_snapshot(files, &names, &mut notes)?;
    let flushed = FlushedFile::open(files, &names)?;
    let mut bases: Vec<i64> = names
        .iter()
        .filter_map(|name| names::segment_base(name))
        .collect();
    bases.sort_unstable();
    let start = start_of(files, &ids, &newest, &bases, &mut notes)?;
    let mut recovery = Recovery {
        files,
        unsynced_bytes_max,
        flushed: flushed.offset,
        start: start.header().id,
        index: LogIndex::starting_at(
            start.header().id,
            &SnapshotHeader {
                id: newest.header().id,
                ..start.header().clone()
            },
        ),
        endpoints: start.endpoints().to_vec(),
        segments: Vec::new(),
        notes,
    };
    for &id in ids.iter().filter(|id| id.offset < recovery.start.offset) {
        remove(files, &names::of_snapshot(id))?;
    }
    recovery.read_segments(&bases)?;
    let snapshots = recovery.settle(&newest, &ids)?;
    let end = recovery.index.end_offset();
    if end < flushed.offset {
        let last = recovery.segments.last().map_or("", |segment| &segment.name);
        return Err(LogError::Damaged {
            path: files.path_of(last),
            reason: format!(
                "the log ends at offset {end}, but was on disk up to {}. {REMEDY}",
                flushed.offset
            ),
        });
    }
    if state.epoch < recovery.index.last_epoch() {
        return Err(LogError::Damaged {
            path: files.path_of(names::QUORUM_STATE),
            reason: format!(
                "it has epoch {}, the log has {}. {REMEDY}",
                state.epoch,
                recovery.index.last_epoch()
            ),
        });
    }
    recovery.make_durable()?;
    let recovered = RecoveredState {
        state,
        index: recovery.index,
        endpoints: recovery.endpoints,
        notes: recovery.notes,
    };
    let mut parts = LogParts {
        segments: recovery.segments,
        snapshots,
        flushed,
    };
    parts.flushed.raise(end)?;
    Ok((parts, recovered))
}

/// Return the newest undamaged snapshot, and the ids of the snapshots up to it.
fn newest_snapshot<F: Files>(
    files: &F,
    names: &[String],
    notes: &mut Vec<String>,
) -> Result<(Vec<EpochEnd>, SnapshotReader<F>), LogError> {
    let mut ids: Vec<EpochEnd> = names
        .iter()
        .filter_map(|name| names::snapshot_id(name))
        .collect();
    ids.sort_unstable_by_key(|id| (id.offset, id.epoch));
    loop {
        let Some(&id) = ids.last() else {
            let path = files.path_of("");
            return Err(LogError::NotFormatted { path });
        };
        let whole =
            SnapshotReader::open(files, id).and_then(|reader| reader.verify().map(|()| reader));
        match whole {
            Ok(reader) => return Ok((ids, reader)),
            Err(error) if error.is_damage() && ids.len() > 1 => {
                let name = names::of_snapshot(id);
                files
                    .rename(&name, &format!("{name}{CORRUPT}"))
                    .map_err(LogError::io("rename", files.path_of(&name)))?;
                notes.push(format!("{error}; the snapshot before it is used"));
                ids.pop();
            }
            Err(error) => return Err(error),
        }
    }
}

/// Return the snapshot whose end is the start of the log: the oldest one to which the log reaches back.
fn start_of<F: Files>(
    files: &F,
    ids: &[EpochEnd],
    newest: &SnapshotReader<F>,
    bases: &[i64],
    notes: &mut Vec<String>,
) -> Result<SnapshotReader<F>, LogError> {
    let newest_id = newest.header().id;
    let first = bases.first().copied().unwrap_or(newest_id.offset);
    if first > newest_id.offset {
        return Err(LogError::Damaged {
            path: files.path_of(&names::of_segment(first)),
            reason: format!(
                "the log begins at offset {first}, the latest snapshot ends at {}: the records between are missing. \
                 {REMEDY}",
                newest_id.offset
            ),
        });
    }
    let older = ids
        .iter()
        .filter(|id| (first..newest_id.offset).contains(&id.offset));
    for id in older {
        match SnapshotReader::open(files, *id) {
            Err(error) if error.is_damage() => notes.push(error.to_string()),
            opened => return opened,
        }
    }
    SnapshotReader::open(files, newest_id)
}

struct Recovery<'a, F: Files> {
    files: &'a F,
    unsynced_bytes_max: u64,
    /// The log was on disk up to this offset.
    flushed: i64,
    start: EpochEnd,
    index: LogIndex,
    endpoints: Vec<Endpoint>,
    segments: Vec<Segment<F>>,
    notes: Vec<String>,
}

impl<F: Files> Recovery<'_, F> {
    fn read_segments(&mut self, bases: &[i64]) -> Result<(), LogError> {
        let unneeded = bases
            .windows(2)
            .take_while(|pair| pair[1] <= self.start.offset)
            .count();
        let (unneeded, needed) = bases.split_at(unneeded);
        for &base in unneeded {
            remove(self.files, &names::of_segment(base))?;
        }
        for (place, &base) in needed.iter().enumerate() {
            let last = place + 1 == needed.len();
            let end = self.index.end_offset();
            if place > 0 && base != end {
                return Err(LogError::Damaged {
                    path: self.files.path_of(&names::of_segment(base)),
                    reason: format!(
                        "it begins at offset {base}, the segment before it ends at {end}. {REMEDY}"
                    ),
                });
            }
            self.read_segment(base, last)?;
        }
        Ok(())
    }

    fn read_segment(&mut self, base: i64, last: bool) -> Result<(), LogError> {
        let mut segment = Segment::open(self.files, base)?;
        let (mut positions, mut first_ms) = (Vec::new(), None);
        let mut next = base;
        let start = self.start.offset;
        let (index, endpoints) = (&mut self.index, &mut self.endpoints);
        let invalid = segment.walk(
            self.files,
            |position, header: &BatchHeader, bytes: Bytes| {
                if header.base_offset != next {
                    return Err(format!(
                        "offset {} where {next} follows",
                        header.base_offset
                    ));
                }
                let batch = decode(header, bytes.clone()).map_err(|error| error.to_string())?;
                if batch.end_offset() > start {
                    if batch.base_offset < start || batch.epoch < index.last_epoch() {
                        return Err(format!(
                            "epoch {} after {}, or records below the log's start {start}",
                            batch.epoch,
                            index.last_epoch()
                        ));
                    }
                    index.append(&batch);
                    if matches!(batch.body, Body::Voters(_)) {
                        *endpoints = endpoints_of(&bytes).unwrap_or_default();
                    }
                }
                next = batch.end_offset();
                positions.push((batch.base_offset, position));
                first_ms.get_or_insert(header.max_timestamp);
                Ok(())
            },
        )?;
        for (base_offset, position) in positions {
            segment.note(base_offset, position);
        }
        segment.first_ms = first_ms;
        if let Some(invalid) = invalid {
            self.cut_torn_tail(&mut segment, next, &invalid, last)?;
        }
        self.segments.push(segment);
        Ok(())
    }

    /// Truncate an invalid end that a crash may have left; return an error if it cannot come from a crash.
    fn cut_torn_tail(
        &mut self,
        segment: &mut Segment<F>,
        offset: i64,
        invalid: &Invalid,
        last: bool,
    ) -> Result<(), LogError> {
        let Invalid { position, reason } = invalid;
        let damaged = |why: String| LogError::Damaged {
            path: self.files.path_of(&segment.name),
            reason: format!("at position {position}, offset {offset}: {reason}; {why}. {REMEDY}"),
        };
        if !last {
            return Err(damaged(
                "a later segment exists, so this had been on disk".into(),
            ));
        }
        if offset < self.flushed {
            return Err(damaged(format!(
                "the log had been on disk up to offset {}",
                self.flushed
            )));
        }
        let unsynced_end = position + self.unsynced_bytes_max;
        if let Some(valid) = segment.valid_from(self.files, unsynced_end, offset)? {
            return Err(damaged(format!(
                "a valid batch at position {valid} was written when this had been on disk"
            )));
        }
        self.notes.push(format!(
            "cut off {} bytes of an incomplete write at the end of {}, at offset {offset}: {reason}",
            segment.size - position,
            self.files.path_of(&segment.name),
        ));
        segment
            .file
            .set_size(*position)
            .map_err(LogError::io("truncate", self.files.path_of(&segment.name)))?;
        segment.forget(*position);
        Ok(())
    }

    /// Remove a log that the newest snapshot replaces, and ensure that there is a segment for appends. Return the ids
    /// of the snapshots.
    fn settle(
        &mut self,
        newest: &SnapshotReader<F>,
        ids: &[EpochEnd],
    ) -> Result<Vec<EpochEnd>, LogError> {
        let header = newest.header();
        let id = header.id;
        let agrees =
            self.index.end_offset() >= id.offset && self.index.epoch_before(id.offset) == id.epoch;
        if !agrees {
            let end = self.index.end_offset();
            while let Some(segment) = self.segments.pop() {
                remove(self.files, &segment.name)?;
            }
            self.sync_names()?;
            let older = self.start.offset..id.offset;
            for other in ids.iter().filter(|other| older.contains(&other.offset)) {
                remove(self.files, &names::of_snapshot(*other))?;
            }
            self.notes.push(format!(
                "the log up to offset {end} was dropped: the snapshot at {} replaces it",
                id.offset
            ));
            self.start = id;
            self.index = LogIndex::new(header);
            self.endpoints = newest.endpoints().to_vec();
        }
        if self.segments.is_empty() {
            self.segments.push(Segment::create(self.files, id.offset)?);
        }
        let start = self.start.offset;
        let kept = ids.iter().filter(|other| other.offset >= start);
        Ok(kept.copied().collect())
    }

    /// Flush the files, because a process that died may have left writes in the page cache. After this call, all data
    /// found at the start counts as flushed.
    fn make_durable(&self) -> Result<(), LogError> {
        if let Some(segment) = self.segments.last() {
            segment
                .file
                .sync()
                .map_err(LogError::io("sync", self.files.path_of(&segment.name)))?;
        }
        self.sync_names()
    }

    fn sync_names(&self) -> Result<(), LogError> {
        self.files
            .sync_names()
            .map_err(LogError::io("sync", self.files.path_of("")))
    }
}

fn remove<F: Files>(files: &F, name: &str) -> Result<(), LogError> {
    files
        .remove(name)
        .map_err(LogError::io("remove", files.path_of(name)))
}
