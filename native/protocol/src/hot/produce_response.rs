//! Produce response (key 0), versions 3–13. v8 explains refused records (KIP-467), v10 has the current leader
//! (KIP-951), v13 uses topic ids. Brokers among themselves use version 9, by topic id.

use pybroker_model::Uuid;

use super::produce_request::{FLEXIBLE, INTER_BROKER, VERSIONS, is_by_id};
use super::{LeaderIdAndEpoch, NodeEndpoint, WireVersion, read_endpoints, write_endpoints_section};
use crate::primitives::{DecodeError, Reader, Writer};

/// The response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProduceResponse<'a> {
    /// One entry for each topic of the request.
    pub topics: Vec<TopicProduceResponse<'a>>,
    /// Throttle time in milliseconds.
    pub throttle_time_ms: i32,
    /// Addresses of the leaders that the response names (v10+).
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// One topic of a Produce response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopicProduceResponse<'a> {
    /// The topic's name (to v12 on client listeners).
    pub name: &'a str,
    /// The topic's id (from v13, and among brokers).
    pub topic_id: Uuid,
    /// One entry for each partition.
    pub partitions: Vec<PartitionProduceResponse<'a>>,
}

/// One partition of a Produce response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PartitionProduceResponse<'a> {
    /// Partition index.
    pub index: i32,
    /// Kafka error code.
    pub error_code: i16,
    /// Offset of the first record, or −1 if nothing was appended.
    pub base_offset: i64,
    /// The broker's append time if the topic uses LogAppendTime; otherwise −1.
    pub log_append_time_ms: i64,
    /// First offset of the log, or −1 if unknown (v5+).
    pub log_start_offset: i64,
    /// The records that caused the refusal of the batch (v8+).
    pub record_errors: Vec<RecordError<'a>>,
    /// Error message (v8+).
    pub error_message: Option<&'a str>,
    /// The current leader, if the error says that this broker does not lead (v10+).
    pub current_leader: Option<LeaderIdAndEpoch>,
}

/// A refused record.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecordError<'a> {
    /// Index of the record in the batch.
    pub batch_index: i32,
    /// Error message.
    pub message: Option<&'a str>,
}

impl<'a> PartitionProduceResponse<'a> {
    /// Create the response of a refused partition.
    pub fn refused(index: i32, error_code: i16, error_message: Option<&'a str>) -> Self {
        PartitionProduceResponse {
            index,
            error_code,
            base_offset: -1,
            log_append_time_ms: -1,
            log_start_offset: -1,
            record_errors: Vec::new(),
            error_message,
            current_leader: None,
        }
    }
}

/// Writer of a Produce response in pieces, in the order of the methods.
#[derive(Debug)]
pub struct ProduceResponseWriter<'v> {
    writer: Writer<'v>,
    version: i16,
    by_id: bool,
}

impl<'v> ProduceResponseWriter<'v> {
    /// Start the body of a response with `topics` topics.
    #[inline]
    pub fn new(out: &'v mut Vec<u8>, version: impl Into<WireVersion>, topics: usize) -> Self {
        let wire = version.into();
        let mut writer = Writer::new(out, wire.number >= FLEXIBLE);
        writer.array_len(topics);
        ProduceResponseWriter {
            writer,
            version: wire.number,
            by_id: is_by_id(wire),
        }
    }

    /// Resume a response that another writer has begun, at the end of `out`.
    pub fn resume(out: &'v mut Vec<u8>, version: impl Into<WireVersion>) -> Self {
        let wire = version.into();
        ProduceResponseWriter {
            writer: Writer::new(out, wire.number >= FLEXIBLE),
            version: wire.number,
            by_id: is_by_id(wire),
        }
    }

    /// Start a topic.
    #[inline]
    pub fn topic(&mut self, name: &str, topic_id: Uuid, partitions: usize) {
        if self.by_id {
            self.writer.uuid(topic_id);
        } else {
            self.writer.string(name);
        }
        self.writer.array_len(partitions);
    }

    /// Write a partition. Return the position of its error code in the output, to patch it later.
    #[inline]
    pub fn partition(&mut self, partition: &PartitionProduceResponse<'_>) -> usize {
        let writer = &mut self.writer;
        writer.i32(partition.index);
        let error_position = writer.position();
        writer.i16(partition.error_code);
        writer.i64(partition.base_offset);
        writer.i64(partition.log_append_time_ms);
        if self.version >= 5 {
            writer.i64(partition.log_start_offset);
        }
        if self.version >= 8 {
            writer.array_len(partition.record_errors.len());
            for error in &partition.record_errors {
                writer.i32(error.batch_index);
                writer.nullable_string(error.message);
                writer.no_tags();
            }
            writer.nullable_string(partition.error_message);
        }
        match partition.current_leader {
            Some(leader) if self.version >= 10 => {
                writer.tag_count(1);
                writer.tag(0, |writer| leader.write(writer));
            }
            _ => writer.no_tags(),
        }
        error_position
    }

    /// End a topic.
    #[inline]
    pub fn end_topic(&mut self) {
        self.writer.no_tags();
    }

    /// End the response.
    #[inline]
    pub fn end(mut self, throttle_time_ms: i32, node_endpoints: &[NodeEndpoint<'_>]) {
        self.writer.i32(throttle_time_ms);
        write_endpoints_section(
            &mut self.writer,
            0,
            if self.version >= 10 {
                node_endpoints
            } else {
                &[]
            },
        );
    }
}

impl<'a> ProduceResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let mut writer = ProduceResponseWriter::new(out, version, self.topics.len());
        for topic in &self.topics {
            writer.topic(topic.name, topic.topic_id, topic.partitions.len());
            for partition in &topic.partitions {
                writer.partition(partition);
            }
            writer.end_topic();
        }
        writer.end(self.throttle_time_ms, &self.node_endpoints);
    }

    /// Decode a response body.
    pub fn decode(body: &'a [u8], version: impl Into<WireVersion>) -> Result<Self, DecodeError> {
        let wire = version.into();
        wire.check(VERSIONS, INTER_BROKER..=INTER_BROKER)?;
        let (version, by_id) = (wire.number, is_by_id(wire));
        let flexible = version >= FLEXIBLE;
        let mut reader = Reader::new(body);
        let count = reader.array_len(flexible, 3)?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            let name = if by_id { "" } else { reader.string(flexible)? };
            let topic_id = if by_id { reader.uuid()? } else { Uuid::ZERO };
            let count = reader.array_len(flexible, 22)?;
            let mut partitions = Vec::with_capacity(count);
            for _ in 0..count {
                partitions.push(read_partition(&mut reader, version)?);
            }
            reader.skip_tags(flexible)?;
            topics.push(TopicProduceResponse {
                name,
                topic_id,
                partitions,
            });
        }
        let throttle_time_ms = reader.i32()?;
        let mut node_endpoints = Vec::new();
        if flexible {
            reader.tags(|tag, value| {
                let known = tag == 0 && version >= 10;
                if known {
                    node_endpoints = read_endpoints(value)?;
                }
                Ok(known)
            })?;
        }
        reader.finish()?;
        Ok(ProduceResponse {
            topics,
            throttle_time_ms,
            node_endpoints,
        })
    }
}

fn read_partition<'a>(
    reader: &mut Reader<'a>,
    version: i16,
) -> Result<PartitionProduceResponse<'a>, DecodeError> {
    let flexible = version >= FLEXIBLE;
    let mut partition = PartitionProduceResponse::refused(reader.i32()?, reader.i16()?, None);
    partition.base_offset = reader.i64()?;
    partition.log_append_time_ms = reader.i64()?;
    if version >= 5 {
        partition.log_start_offset = reader.i64()?;
    }
    if version >= 8 {
        let count = reader.array_len(flexible, 6 - usize::from(flexible))?;
        partition.record_errors.reserve(count);
        for _ in 0..count {
            let (batch_index, message) = (reader.i32()?, reader.nullable_string(flexible)?);
            reader.skip_tags(flexible)?;
            partition.record_errors.push(RecordError {
                batch_index,
                message,
            });
        }
        partition.error_message = reader.nullable_string(flexible)?;
    }
    if flexible {
        reader.tags(|tag, value| {
            let known = tag == 0 && version >= 10;
            if known {
                partition.current_leader = Some(LeaderIdAndEpoch::read(value)?);
            }
            Ok(known)
        })?;
    }
    Ok(partition)
}
