//! Produce request (key 0), versions 3–13: by name to v12, by topic id from v13; flexible from v9. Brokers among
//! themselves use version 9, by topic id. v0–2 carry message formats 0 and 1; the broker answers them with
//! UNSUPPORTED_VERSION.

use pybroker_model::Uuid;

use super::WireVersion;
use crate::primitives::{DecodeError, Reader, Span, Writer};

/// Versions that are implemented.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 3..=13;
/// First flexible version.
pub const FLEXIBLE: i16 = 9;
/// First version that names topics by id.
pub const BY_ID: i16 = 13;
/// Version with the layout of the KIP-516 text, which brokers use among themselves.
pub const INTER_BROKER: i16 = 9;

/// Return whether requests and responses use topic ids.
#[inline]
pub const fn is_by_id(version: WireVersion) -> bool {
    version.is_inter_broker() || version.number >= BY_ID
}

/// The request. Its spans refer to the body from which it was decoded. The caller reuses the object for each request.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct ProduceRequest {
    /// The transactional id of a transactional producer.
    pub transactional_id: Option<Span>,
    /// Required acknowledgments: 0 = no response, 1 = leader, −1 = all in-sync replicas.
    pub acks: i16,
    /// Maximum time to wait for the in-sync replicas, in milliseconds.
    pub timeout_ms: i32,
    /// The topics, in the request's order.
    pub topics: Vec<ProduceTopic>,
    /// The partitions of all topics, in the request's order.
    pub partitions: Vec<ProducePartition>,
}

/// One topic of a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProduceTopic {
    /// The topic's name (up to v12, on client listeners).
    pub name: Span,
    /// The topic's id (from v13, and among brokers); otherwise zero.
    pub topic_id: Uuid,
    /// Index of the topic's first partition in [`ProduceRequest::partitions`].
    pub partitions_start: u32,
    /// Index after the topic's last partition.
    pub partitions_end: u32,
}

/// One partition of a Produce request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ProducePartition {
    /// Partition index.
    pub index: i32,
    /// The record batches; `None` = null.
    pub records: Option<Span>,
}

impl ProduceTopic {
    /// The topic's partitions in [`ProduceRequest::partitions`].
    #[inline]
    pub fn partitions(&self) -> core::ops::Range<usize> {
        self.partitions_start as usize..self.partitions_end as usize
    }
}

impl ProduceRequest {
    /// Decode a request body and replace the content of `self`. After an error the content is unspecified.
    pub fn decode(
        &mut self,
        body: &[u8],
        version: impl Into<WireVersion>,
    ) -> Result<(), DecodeError> {
        let version = version.into();
        version.check(VERSIONS, INTER_BROKER..=INTER_BROKER)?;
        self.topics.clear();
        self.partitions.clear();
        let flexible = version.number >= FLEXIBLE;
        let by_id = is_by_id(version);
        let mut reader = Reader::new(body);
        self.transactional_id = match reader.nullable_string(flexible)? {
            None => None,
            Some(text) => {
                let end = reader.position() as u32;
                Some(Span {
                    start: end - text.len() as u32,
                    end,
                })
            }
        };
        self.acks = reader.i16()?;
        self.timeout_ms = reader.i32()?;
        let topic_bytes_min = if by_id {
            18
        } else if flexible {
            3
        } else {
            6
        };
        let partition_bytes_min = if flexible { 6 } else { 8 };
        let topics = reader.array_len(flexible, topic_bytes_min)?;
        self.topics.reserve(topics);
        for _ in 0..topics {
            let name = if by_id {
                Span::default()
            } else {
                reader.string_span(flexible)?
            };
            let topic_id = if by_id { reader.uuid()? } else { Uuid::ZERO };
            let partitions = reader.array_len(flexible, partition_bytes_min)?;
            let partitions_start = self.partitions.len() as u32;
            self.partitions.reserve(partitions);
            for _ in 0..partitions {
                let index = reader.i32()?;
                let records = reader.nullable_bytes_span(flexible)?;
                reader.skip_tags(flexible)?;
                self.partitions.push(ProducePartition { index, records });
            }
            reader.skip_tags(flexible)?;
            let partitions_end = self.partitions.len() as u32;
            self.topics.push(ProduceTopic {
                name,
                topic_id,
                partitions_start,
                partitions_end,
            });
        }
        reader.skip_tags(flexible)?;
        reader.finish()
    }

    /// Append the request body. The request's spans refer to `buffer`.
    pub fn encode(&self, buffer: &[u8], version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let version = version.into();
        let text = |span: Span| core::str::from_utf8(span.of(buffer)).unwrap_or_default();
        let mut writer = Writer::new(out, version.number >= FLEXIBLE);
        writer.nullable_string(self.transactional_id.map(text));
        writer.i16(self.acks);
        writer.i32(self.timeout_ms);
        writer.array_len(self.topics.len());
        for topic in &self.topics {
            if is_by_id(version) {
                writer.uuid(topic.topic_id);
            } else {
                writer.string(text(topic.name));
            }
            let partitions = &self.partitions[topic.partitions()];
            writer.array_len(partitions.len());
            for partition in partitions {
                writer.i32(partition.index);
                writer.nullable_bytes(partition.records.map(|records| records.of(buffer)));
                writer.no_tags();
            }
            writer.no_tags();
        }
        writer.no_tags();
    }
}
