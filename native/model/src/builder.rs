//! Construction of record batches: control markers, internal topics, tests.

use crate::record_batch::{
    CONTROL_BIT, DELETE_HORIZON_BIT, LOG_APPEND_TIME_BIT, TRANSACTIONAL_BIT,
};
use crate::stamp::recompute_crc;
use crate::varint::VARINT_BYTES_MAX;
use crate::{
    BATCH_LENGTH_END, BatchError, BatchHeader, Codec, HEADER_BYTES, MAGIC_V2,
    NO_PARTITION_LEADER_EPOCH, NO_PRODUCER_EPOCH, NO_PRODUCER_ID, NO_SEQUENCE, NO_TIMESTAMP,
    RecordRef, TimestampType, compress, varint_size, varlong_size, write_varint, write_varlong,
};

/// Collects records into one batch.
#[derive(Debug, Clone)]
pub struct BatchBuilder {
    header: BatchHeader,
    codec: Codec,
    level: Option<i32>,
    /// Space for the header, then the records. An uncompressed batch is thus completed without a copy.
    bytes: Vec<u8>,
}

/// Type of a transaction marker.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ControlType {
    /// The transaction was aborted.
    Abort,
    /// The transaction was committed.
    Commit,
}

impl BatchBuilder {
    /// Return an empty batch at base offset 0, without producer, with CreateTime.
    #[must_use]
    pub fn new(codec: Codec) -> Self {
        Self::reusing(codec, Vec::new())
    }

    /// Like [`BatchBuilder::new`], but reuse the memory of an old batch.
    #[must_use]
    pub fn reusing(codec: Codec, memory: Vec<u8>) -> Self {
        let header = BatchHeader {
            base_offset: 0,
            batch_length: 0,
            partition_leader_epoch: NO_PARTITION_LEADER_EPOCH,
            magic: MAGIC_V2,
            crc: 0,
            attributes: codec as i16,
            last_offset_delta: -1,
            base_timestamp: NO_TIMESTAMP,
            max_timestamp: NO_TIMESTAMP,
            producer_id: NO_PRODUCER_ID,
            producer_epoch: NO_PRODUCER_EPOCH,
            base_sequence: NO_SEQUENCE,
            record_count: 0,
        };
        Self {
            header,
            codec,
            level: None,
            bytes: header_room(memory),
        }
    }

    /// Return a batch with identity, offsets, producer and times of `original`, but no records yet (compaction). Add
    /// records with [`BatchBuilder::push_raw`] or, if `delete_horizon_ms` moved the base timestamp,
    /// [`BatchBuilder::push_shifted`].
    ///
    /// # Errors
    /// If the original has an unknown codec.
    pub fn rewriting(
        original: &BatchHeader,
        delete_horizon_ms: Option<i64>,
    ) -> Result<Self, BatchError> {
        let mut header = *original;
        header.record_count = 0;
        if let Some(horizon) = delete_horizon_ms {
            header.attributes |= DELETE_HORIZON_BIT;
            header.base_timestamp = horizon;
        }
        // The largest timestamp is computed from the remaining records, unless all records share the append time.
        if header.timestamp_type() == TimestampType::CreateTime {
            header.max_timestamp = NO_TIMESTAMP;
        }
        Ok(Self {
            header,
            codec: original.codec()?,
            level: None,
            bytes: header_room(Vec::new()),
        })
    }

    /// Set the offset of the first record.
    #[must_use]
    pub const fn base_offset(mut self, offset: i64) -> Self {
        self.header.base_offset = offset;
        self
    }

    /// Set the leader epoch.
    #[must_use]
    pub const fn leader_epoch(mut self, epoch: i32) -> Self {
        self.header.partition_leader_epoch = epoch;
        self
    }

    /// Make the batch idempotent: producer id, epoch and the sequence of the first record.
    #[must_use]
    pub const fn producer(mut self, id: i64, epoch: i16, base_sequence: i32) -> Self {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
        self
    }

    /// Like [`BatchBuilder::producer`], for a borrowed builder, because a batch is built again when its producer gets a
    /// new id.
    pub const fn set_producer(&mut self, id: i64, epoch: i16, base_sequence: i32) {
        self.header.producer_id = id;
        self.header.producer_epoch = epoch;
        self.header.base_sequence = base_sequence;
    }

    /// Disable compression.
    #[must_use]
    pub const fn uncompressed(mut self) -> Self {
        self.codec = Codec::None;
        self.header.attributes &= !crate::record_batch::CODEC_MASK;
        self
    }

    /// Make the batch part of its producer's transaction.
    #[must_use]
    pub const fn transactional(mut self) -> Self {
        self.header.attributes |= TRANSACTIONAL_BIT;
        self
    }

    /// Make the batch a control batch.
    #[must_use]
    pub const fn control(mut self) -> Self {
        self.header.attributes |= CONTROL_BIT;
        self
    }

    /// Set the timestamp type to LogAppendTime.
    #[must_use]
    pub const fn log_append_time(mut self) -> Self {
        self.header.attributes |= LOG_APPEND_TIME_BIT;
        self
    }

    /// Set the compression level, if the codec has levels.
    #[must_use]
    pub const fn level(mut self, level: i32) -> Self {
        self.level = Some(level);
        self
    }

    /// Add a record at the next offset. `timestamp` is in milliseconds.
    pub fn push(&mut self, timestamp: i64, key: Option<&[u8]>, value: Option<&[u8]>) {
        self.push_with_headers(timestamp, key, value, &[]);
    }

    /// Add a record with headers at the next offset.
    pub fn push_with_headers(
        &mut self,
        timestamp: i64,
        key: Option<&[u8]>,
        value: Option<&[u8]>,
        headers: &[(&[u8], Option<&[u8]>)],
    ) {
        if self.header.record_count == 0 {
            self.header.base_timestamp = timestamp;
        }
        let delta = self.header.last_offset_delta + 1;
        let timestamp_delta = timestamp.wrapping_sub(self.header.base_timestamp);
        let field =
            |bytes: Option<&[u8]>| bytes.map_or(1, |b| varint_size(b.len() as i32) + b.len());
        let size = 1
            + varlong_size(timestamp_delta)
            + varint_size(delta)
            + field(key)
            + field(value)
            + varint_size(headers.len() as i32)
            + headers
                .iter()
                .map(|(k, v)| field(Some(k)) + field(*v))
                .sum::<usize>();
        let out = &mut self.bytes;
        out.reserve(VARINT_BYTES_MAX + size);
        write_varint(out, size as i32);
        out.push(0);
        write_varlong(out, timestamp_delta);
        write_varint(out, delta);
        write_nullable(out, key);
        write_nullable(out, value);
        write_varint(out, headers.len() as i32);
        for (header_key, header_value) in headers {
            write_nullable(out, Some(header_key));
            write_nullable(out, *header_value);
        }
        self.header.last_offset_delta = delta;
        self.header.record_count += 1;
        self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
    }

    /// Add a record of the original batch without changing its bytes. `timestamp` is the record's own.
    pub fn push_raw(&mut self, record: &RecordRef<'_>, timestamp: i64) {
        self.bytes.extend_from_slice(record.raw);
        self.count_rewritten(timestamp);
    }

    /// Add a record of the original batch, with its timestamp relative to the new base timestamp.
    pub fn push_shifted(&mut self, record: &RecordRef<'_>, timestamp: i64) {
        let delta = timestamp.wrapping_sub(self.header.base_timestamp);
        record.write_with_deltas(&mut self.bytes, delta, record.offset_delta);
        self.count_rewritten(timestamp);
    }

    fn count_rewritten(&mut self, timestamp: i64) {
        self.header.record_count += 1;
        if self.header.timestamp_type() == TimestampType::CreateTime {
            self.header.max_timestamp = self.header.max_timestamp.max(timestamp);
        }
    }

    /// Return the number of records so far.
    #[must_use]
    pub const fn len(&self) -> i32 {
        self.header.record_count
    }

    /// Return whether there are no records yet.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.header.record_count == 0
    }

    /// Return the size of the records so far, before compression.
    #[must_use]
    pub const fn records_bytes(&self) -> usize {
        self.bytes.len() - HEADER_BYTES
    }

    /// Return the finished batch.
    ///
    /// # Errors
    /// If the compressor fails or the batch exceeds 2 GiB.
    pub fn build(&self) -> Result<Vec<u8>, BatchError> {
        let out = if self.is_stored_as_it_is() {
            self.bytes.clone()
        } else {
            self.compressed()?
        };
        self.with_header(out)
    }

    /// Like [`BatchBuilder::build`], without a copy of uncompressed records.
    ///
    /// # Errors
    /// As [`BatchBuilder::build`].
    pub fn finish(mut self) -> Result<Vec<u8>, BatchError> {
        if !self.is_stored_as_it_is() {
            return self.build();
        }
        let out = core::mem::take(&mut self.bytes);
        self.with_header(out)
    }

    fn is_stored_as_it_is(&self) -> bool {
        // A batch without records has no compressed stream, so readers must not expect a stream header.
        self.codec == Codec::None || self.records_bytes() == 0
    }

    fn compressed(&self) -> Result<Vec<u8>, BatchError> {
        let mut out = header_room(Vec::with_capacity(self.bytes.len()));
        compress(
            self.codec,
            self.level,
            &self.bytes[HEADER_BYTES..],
            &mut out,
        )?;
        Ok(out)
    }

    fn with_header(&self, mut out: Vec<u8>) -> Result<Vec<u8>, BatchError> {
        let mut header = self.header;
        header.last_offset_delta = header.last_offset_delta.max(0);
        header.batch_length =
            i32::try_from(out.len() - BATCH_LENGTH_END).map_err(|_| BatchError::TooLarge {
                size: out.len(),
                max: i32::MAX,
            })?;
        if out.len() == HEADER_BYTES {
            header.attributes &= !crate::record_batch::CODEC_MASK;
        }
        header.write(&mut out);
        recompute_crc(&mut out);
        Ok(out)
    }
}

fn header_room(mut memory: Vec<u8>) -> Vec<u8> {
    memory.clear();
    memory.resize(HEADER_BYTES, 0);
    memory
}

#[inline]
fn write_nullable(out: &mut Vec<u8>, bytes: Option<&[u8]>) {
    match bytes {
        Some(bytes) => {
            write_varint(out, bytes.len() as i32);
            out.extend_from_slice(bytes);
        }
        None => write_varint(out, -1),
    }
}

/// Return the control batch that ends a transaction (KIP-98), with base offset 0.
///
/// # Errors
/// As [`BatchBuilder::build`]; a marker is far too small for them.
pub fn end_transaction_marker(
    producer_id: i64,
    producer_epoch: i16,
    kind: ControlType,
    coordinator_epoch: i32,
    timestamp: i64,
) -> Result<Vec<u8>, BatchError> {
    let kind_code: i16 = match kind {
        ControlType::Abort => 0,
        ControlType::Commit => 1,
    };
    // Both key and value start with their version, 0.
    let mut key = [0u8; 4];
    key[2..].copy_from_slice(&kind_code.to_be_bytes());
    let mut value = [0u8; 6];
    value[2..].copy_from_slice(&coordinator_epoch.to_be_bytes());
    let mut batch = BatchBuilder::new(Codec::None)
        .producer(producer_id, producer_epoch, NO_SEQUENCE)
        .transactional()
        .control();
    batch.push(timestamp, Some(&key), Some(&value));
    batch.build()
}

/// Return type and coordinator epoch of a control record; `None` for control records other than transaction markers,
/// which readers must skip.
#[must_use]
pub fn end_transaction_marker_of(record: &RecordRef<'_>) -> Option<(ControlType, i32)> {
    let key = record.key?;
    let kind = match i16::from_be_bytes([*key.get(2)?, *key.get(3)?]) {
        0 => ControlType::Abort,
        1 => ControlType::Commit,
        _ => return None,
    };
    let epoch = record.value?.get(2..6)?;
    Some((
        kind,
        i32::from_be_bytes([epoch[0], epoch[1], epoch[2], epoch[3]]),
    ))
}
