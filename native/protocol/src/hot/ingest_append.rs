//! IngestAppend (key 32151), version 0, flexible: stages records for a topic (docs/staged-ingest.md).

use pybroker_model::Uuid;

use super::check_version;
use crate::primitives::{DecodeError, Reader, Span, Writer};

/// Versions that are implemented.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=0;

/// The request. Its spans refer to the body from which it was decoded.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct IngestAppendRequest<'a> {
    /// The topic's id.
    pub topic_id: Uuid,
    /// The client's name of the ingest.
    pub ingest_id: &'a str,
    /// Batch number of a stream, or -1 if there is no stream.
    pub batch_id: i64,
    /// Epoch from IngestBegin.
    pub epoch: i32,
    /// Number of the writer, which determines the order of the writers' records.
    pub writer: i32,
    /// Number of the writer's attempt.
    pub attempt: i64,
    /// Partitions, in order.
    pub partitions: Vec<IngestAppendPartition>,
}

/// Records for one partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct IngestAppendPartition {
    /// Partition index.
    pub partition: i32,
    /// Number of records that this attempt has sent before.
    pub sequence: i64,
    /// Complete batches; `None` is null.
    pub records: Option<Span>,
}

impl<'a> IngestAppendRequest<'a> {
    /// Decode a request body.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a request.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let mut reader = Reader::new(body);
        let topic_id = reader.uuid()?;
        let ingest_id = reader.string(true)?;
        let batch_id = reader.i64()?;
        let epoch = reader.i32()?;
        let writer = reader.i32()?;
        let attempt = reader.i64()?;
        let count = reader.array_len(true, 14)?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            let partition = reader.i32()?;
            let sequence = reader.i64()?;
            let records = reader.nullable_bytes_span(true)?;
            reader.skip_tags(true)?;
            partitions.push(IngestAppendPartition {
                partition,
                sequence,
                records,
            });
        }
        reader.skip_tags(true)?;
        reader.finish()?;
        Ok(Self {
            topic_id,
            ingest_id,
            batch_id,
            epoch,
            writer,
            attempt,
            partitions,
        })
    }
}

/// The response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestAppendResponse {
    /// Time that the client must wait before the next append, in milliseconds.
    pub throttle_time_ms: i32,
    /// Error code of the whole request.
    pub error_code: i16,
    /// Error message.
    pub error_message: Option<String>,
    /// Results in the request's order. Empty if the whole request is refused.
    pub partitions: Vec<IngestAppendPartitionResponse>,
}

/// Result of staging one partition's records.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct IngestAppendPartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// Error code; 0 means that the records are staged.
    pub error_code: i16,
    /// Error message.
    pub error_message: Option<String>,
    /// Number of records of this attempt that are staged, or -1 if unknown.
    pub next_sequence: i64,
}

/// Encode the body of a request for one partition in two parts. The caller sends the records between them.
pub fn encode_one(
    head: &IngestAppendRequest<'_>,
    partition: i32,
    sequence: i64,
    records: usize,
) -> (Vec<u8>, Vec<u8>) {
    let (mut before, mut after) = (Vec::new(), Vec::new());
    let mut writer = Writer::new(&mut before, true);
    writer.uuid(head.topic_id);
    writer.string(head.ingest_id);
    writer.i64(head.batch_id);
    writer.i32(head.epoch);
    writer.i32(head.writer);
    writer.i64(head.attempt);
    writer.array_len(1);
    writer.i32(partition);
    writer.i64(sequence);
    writer.nullable_len(Some(records));
    let mut writer = Writer::new(&mut after, true);
    // Empty sections of tagged fields of the partition and of the request.
    writer.no_tags();
    writer.no_tags();
    (before, after)
}

impl IngestAppendResponse {
    /// Decode a response body.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a response.
    pub fn decode(body: &[u8]) -> Result<Self, DecodeError> {
        let mut reader = Reader::new(body);
        let mut response = Self {
            throttle_time_ms: reader.i32()?,
            error_code: reader.i16()?,
            error_message: reader.nullable_string(true)?.map(str::to_owned),
            partitions: Vec::new(),
        };
        for _ in 0..reader.array_len(true, 16)? {
            response.partitions.push(IngestAppendPartitionResponse {
                partition: reader.i32()?,
                error_code: reader.i16()?,
                error_message: reader.nullable_string(true)?.map(str::to_owned),
                next_sequence: reader.i64()?,
            });
            reader.skip_tags(true)?;
        }
        reader.skip_tags(true)?;
        reader.finish()?;
        Ok(response)
    }

    /// Append the response body.
    pub fn encode(&self, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, true);
        writer.i32(self.throttle_time_ms);
        writer.i16(self.error_code);
        writer.nullable_string(self.error_message.as_deref());
        writer.array_len(self.partitions.len());
        for partition in &self.partitions {
            writer.i32(partition.partition);
            writer.i16(partition.error_code);
            writer.nullable_string(partition.error_message.as_deref());
            writer.i64(partition.next_sequence);
            writer.no_tags();
        }
        writer.no_tags();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn request() -> Vec<u8> {
        let mut body = Vec::new();
        let mut writer = Writer::new(&mut body, true);
        writer.uuid(Uuid::from_u128(7));
        writer.string("job");
        writer.i64(-1);
        writer.i32(3);
        writer.i32(4);
        writer.i64(5);
        writer.array_len(2);
        for records in [Some(&b"abc"[..]), None] {
            writer.i32(1);
            writer.i64(9);
            writer.nullable_bytes(records);
            writer.no_tags();
        }
        writer.no_tags();
        body
    }

    #[test]
    fn every_field_is_read_and_every_beginning_refused() {
        let body = request();
        let read = IngestAppendRequest::decode(&body, 0).expect("a request");
        assert_eq!(
            (read.topic_id, read.ingest_id, read.batch_id),
            (Uuid::from_u128(7), "job", -1)
        );
        assert_eq!((read.epoch, read.writer, read.attempt), (3, 4, 5));
        assert_eq!(read.partitions[0].sequence, 9);
        let records = read.partitions[0].records.map(|span| span.of(&body));
        assert_eq!(records, Some(&b"abc"[..]));
        assert_eq!(read.partitions[1].records, None);
        for end in 0..body.len() {
            assert!(
                IngestAppendRequest::decode(&body[..end], 0).is_err(),
                "{end}"
            );
        }
        assert!(IngestAppendRequest::decode(&body, 1).is_err());
    }
}
