//! Conversion of the quorum's batches to record batches of format 2, and back.

use bytes::Bytes;
use pybroker_model::{
    BatchBuilder, BatchHeader, Batches, Codec, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, Records,
    decompressed_records, set_base_offset,
};
use pybroker_quorum::{Batch, Body};

use crate::control::{Control, EncodeContext, Endpoint, control_batch};
use crate::error::LogError;

/// Encode metadata deltas as records without keys, for `Event::Propose` in the given epoch. The log sets the offset.
///
/// # Errors
/// If the batch would exceed 2 GiB.
pub fn encode_records<'a>(
    values: impl IntoIterator<Item = &'a [u8]>,
    timestamp_ms: i64,
    epoch: i32,
) -> Result<Bytes, LogError> {
    let mut batch = with_epoch(BatchBuilder::new(Codec::None), epoch);
    for value in values {
        batch.push(timestamp_ms, None, Some(value));
    }
    finish(batch)
}

/// Set the epoch of a batch, and repeat it in the base sequence. Format 2's checksum does not cover the epoch, so only
/// this copy reveals a flipped bit in it. The base sequence is free, because it has no meaning without a producer id.
pub(crate) fn with_epoch(batch: BatchBuilder, epoch: i32) -> BatchBuilder {
    batch
        .leader_epoch(epoch)
        .producer(NO_PRODUCER_ID, NO_PRODUCER_EPOCH, epoch)
}

pub(crate) fn finish(batch: BatchBuilder) -> Result<Bytes, LogError> {
    let finished = batch.finish();
    finished
        .map(Bytes::from)
        .map_err(|error| LogError::Batch(error.to_string()))
}

/// Return the batch's bytes in the log.
pub(crate) fn encode(batch: &Batch<Bytes>, context: &EncodeContext<'_>) -> Result<Bytes, LogError> {
    if let Some(encoded) = &batch.encoded {
        return Ok(encoded.clone());
    }
    let invalid = |reason: &str| LogError::Batch(format!("{reason} at {}", batch.base_offset));
    let control = match &batch.body {
        Body::Data(data) => {
            let header = BatchHeader::parse(data).map_err(|error| invalid(&error.to_string()))?;
            if header.partition_leader_epoch != batch.epoch {
                return Err(invalid("records encoded for another epoch"));
            }
            let mut stamped = data.to_vec();
            set_base_offset(&mut stamped, batch.base_offset);
            return Ok(stamped.into());
        }
        Body::LeaderChange(leader) => Control::LeaderChange(*leader),
        Body::Voters(voters) => Control::Voters(voters.clone(), context.endpoints.to_vec()),
        Body::TopicId(id) => Control::TopicId(*id),
    };
    let mut builder = with_epoch(control_batch().base_offset(batch.base_offset), batch.epoch);
    control.push_to(&mut builder, context);
    finish(builder)
}

/// Decode one batch. `bytes` contains exactly this batch.
///
/// # Errors
/// If the checksum is wrong, or `bytes` are not a batch of a metadata log.
pub(crate) fn decode(header: &BatchHeader, bytes: Bytes) -> Result<Batch<Bytes>, LogError> {
    let invalid =
        |reason: String| LogError::Batch(format!("at offset {}: {reason}", header.base_offset));
    header
        .check()
        .and_then(|()| header.check_crc(&bytes))
        .map_err(|error| invalid(error.to_string()))?;
    if header.record_count != header.last_offset_delta + 1 || header.partition_leader_epoch < 0 {
        return Err(invalid("a batch without an epoch, or with gaps".into()));
    }
    if header.base_sequence != header.partition_leader_epoch {
        return Err(invalid(format!(
            "epoch {}, and {} in the checksummed part",
            header.partition_leader_epoch, header.base_sequence
        )));
    }
    let body = match header.is_control() {
        false => Body::Data(bytes.clone()),
        true => match only_control(header, &bytes)? {
            Control::LeaderChange(leader) => Body::LeaderChange(leader),
            Control::Voters(voters, _) => Body::Voters(voters),
            Control::TopicId(id) => Body::TopicId(id),
            Control::SnapshotHeader { .. } | Control::SnapshotFooter => {
                return Err(invalid("a control record of snapshots".into()));
            }
        },
    };
    Ok(Batch {
        base_offset: header.base_offset,
        records: header.record_count.unsigned_abs(),
        epoch: header.partition_leader_epoch,
        body,
        encoded: Some(bytes),
    })
}

fn only_control(header: &BatchHeader, bytes: &[u8]) -> Result<Control, LogError> {
    let mut controls = controls(header, bytes)?;
    match controls.len() {
        1 => Ok(controls.remove(0)),
        count => Err(LogError::Batch(format!(
            "{count} control records in a batch"
        ))),
    }
}

/// Return the control records of a batch.
pub(crate) fn controls(header: &BatchHeader, bytes: &[u8]) -> Result<Vec<Control>, LogError> {
    let mut scratch = Vec::new();
    let invalid = |error: pybroker_model::BatchError| LogError::Batch(error.to_string());
    let records = decompressed_records(header, bytes, &mut scratch).map_err(invalid)?;
    Records::new(header, records)
        .map(|record| Control::decode(&record.map_err(invalid)?))
        .collect()
}

/// Decode consecutive batches that another replica sent. Ignore a partial batch at the end.
///
/// # Errors
/// If a batch is invalid.
pub fn decode_batches(bytes: &Bytes) -> Result<Vec<Batch<Bytes>>, LogError> {
    let mut batches = Vec::new();
    let mut position = 0;
    for batch in Batches::new(bytes) {
        let (header, whole) = batch.map_err(|error| LogError::Batch(error.to_string()))?;
        let end = position + whole.len();
        batches.push(decode(&header, bytes.slice(position..end))?);
        position = end;
    }
    let follows = |pair: &[Batch<Bytes>]| {
        pair[0].end_offset() == pair[1].base_offset && pair[0].epoch <= pair[1].epoch
    };
    match batches.windows(2).all(follows) {
        true => Ok(batches),
        false => Err(LogError::Batch(
            "batches that do not follow each other".into(),
        )),
    }
}

/// Return the addresses in a stored batch, if it has a voters record.
#[must_use]
pub fn endpoints_of(encoded: &[u8]) -> Option<Vec<Endpoint>> {
    let header = BatchHeader::parse(encoded)
        .ok()
        .filter(BatchHeader::is_control)?;
    let controls = controls(&header, encoded).ok()?;
    controls.into_iter().find_map(|control| match control {
        Control::Voters(_, endpoints) => Some(endpoints),
        _ => None,
    })
}

/// Return the values of the records in a stored batch of data.
///
/// # Errors
/// If the bytes are not a batch.
pub fn record_values(encoded: &Bytes) -> Result<Vec<Bytes>, LogError> {
    let invalid = |error: pybroker_model::BatchError| LogError::Batch(error.to_string());
    let header = BatchHeader::parse(encoded).map_err(invalid)?;
    let mut scratch = Vec::new();
    let compressed = header.codec().map_err(invalid)? != Codec::None;
    let records = decompressed_records(&header, encoded, &mut scratch).map_err(invalid)?;
    let mut values = Vec::with_capacity(header.record_count.unsigned_abs() as usize);
    for record in Records::new(&header, records) {
        let value = record.map_err(invalid)?.value.unwrap_or_default();
        values.push(match compressed {
            true => Bytes::copy_from_slice(value),
            false => encoded.slice_ref(value),
        });
    }
    Ok(values)
}
