//! Operations on the log of a stopped node: reading its snapshot, and starting a new quorum with this node as the only
//! voter.

use pybroker_quorum::{Batch, Body, EpochEnd, QuorumState, ReplicaKey, SnapshotHeader, VoterSet};

use crate::control::{EncodeContext, Endpoint};
use crate::error::LogError;
use crate::files::Files;
use crate::log::{LogOptions, MetadataLog};
use crate::snapshot::{SnapshotReader, SnapshotWriter};

/// How far a restarted quorum's epoch is above the last known epoch. Elections unknown to this node may have raised the
/// epoch on other nodes.
const NEW_EPOCHS: i32 = 1000;

/// A complete snapshot.
#[derive(Debug)]
pub struct SnapshotSummary {
    /// End of the log that it replaces.
    pub id: EpochEnd,
    /// Append time of the last record in it.
    pub timestamp_ms: i64,
    /// The voters at its end.
    pub voters: VoterSet,
}

/// The log of a stopped node.
#[derive(Debug)]
pub struct LogSummary {
    /// The latest snapshot.
    pub snapshot: EpochEnd,
    /// End of the log, and the epoch of its last record.
    pub end: EpochEnd,
    /// Epoch of the quorum state.
    pub epoch: i32,
    /// The latest voters.
    pub voters: VoterSet,
}

/// Check a whole snapshot.
///
/// # Errors
/// If the file is not a complete snapshot with this id.
pub fn check_snapshot<F: Files>(files: &F, id: EpochEnd) -> Result<SnapshotSummary, LogError> {
    let reader = SnapshotReader::open(files, id)?;
    reader.verify()?;
    Ok(SnapshotSummary {
        id,
        timestamp_ms: reader.timestamp_ms(),
        voters: reader.header().voters.clone(),
    })
}

/// Return a summary of a log. Repairs the traces of a crash.
///
/// # Errors
/// As [`MetadataLog::open`].
pub fn summary<F: Files>(files: &F, options: LogOptions) -> Result<LogSummary, LogError> {
    let (log, recovered) = MetadataLog::open(files.clone(), options)?;
    Ok(LogSummary {
        snapshot: log.latest_snapshot(),
        end: EpochEnd {
            epoch: recovered.index.last_epoch(),
            offset: log.end_offset(),
        },
        epoch: recovered.state.epoch,
        voters: recovered.index.voters().clone(),
    })
}

/// Make a node the only voter: all records of its log become committed when it starts.
///
/// # Errors
/// As [`MetadataLog::open`], or if the disk fails.
pub fn make_only_voter<F: Files>(
    files: &F,
    options: LogOptions,
    voter: ReplicaKey,
    endpoints: &[Endpoint],
    timestamp_ms: i64,
) -> Result<(), LogError> {
    let (mut log, recovered) = MetadataLog::open(files.clone(), options)?;
    let epoch = recovered.state.epoch.saturating_add(NEW_EPOCHS);
    // Write the state first, because the log's epoch must not be above the state's.
    let state = QuorumState {
        epoch,
        leader: None,
        voted: None,
        ..recovered.state
    };
    log.state_write(state).run()?;
    let voters = VoterSet::new([voter]);
    let batch = Batch {
        base_offset: log.end_offset(),
        records: 1,
        epoch,
        body: Body::Voters(voters.clone()),
        encoded: None,
    };
    let context = EncodeContext {
        timestamp_ms,
        voters: &voters,
        endpoints,
    };
    log.append(&[batch], &context)?;
    log.close()
}

/// Begin a log with a copy of a snapshot, with this node as the only voter.
///
/// # Errors
/// If the snapshot is damaged, or the disk fails.
pub fn restore<F: Files>(
    from: &F,
    id: EpochEnd,
    to: &F,
    voter: ReplicaKey,
    endpoints: &[Endpoint],
) -> Result<(), LogError> {
    let mut reader = SnapshotReader::open(from, id)?;
    reader.verify()?;
    let header = SnapshotHeader {
        voters: VoterSet::new([voter]),
        ..reader.header().clone()
    };
    let state = QuorumState {
        epoch: id.epoch.saturating_add(NEW_EPOCHS),
        topic_id: header.topic_id.map(|(_, id)| id),
        ..QuorumState::default()
    };
    let mut writer = SnapshotWriter::begin(to, &header, endpoints, reader.timestamp_ms())?;
    while let Some(records) = reader.next_records()? {
        writer.append(records.iter().map(|record| &record[..]))?;
    }
    crate::state_file::StateWrite::new(to.clone(), state).run()?;
    writer.finish().map(drop)
}
