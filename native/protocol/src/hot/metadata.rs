//! Metadata (key 3), versions 0–13. v1: null topics mean all topics (in v0 an empty array does). v2: cluster id
//! (KIP-78). v3: throttle time. v4: automatic creation. v5: offline replicas. v7: leader epochs. v8: authorized
//! operations (those of the cluster only to v10). v9: flexible. v10: topic ids (KIP-516). v12: nullable names. v13: an
//! error of the whole response.

use std::borrow::Cow;

use pybroker_model::Uuid;

use super::check_version;
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=13;
/// First flexible version.
pub const FLEXIBLE: i16 = 9;
/// First version with topic ids.
pub const IDS: i16 = 10;
/// Value of the authorized operations if the client did not request them.
pub const OPERATIONS_OMITTED: i32 = i32::MIN;

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataRequest<'a> {
    /// The requested topics; `None` means all topics.
    pub topics: Option<Vec<MetadataRequestTopic<'a>>>,
    /// Whether to create an unknown topic automatically (v4+).
    pub allow_auto_topic_creation: bool,
    /// Whether the client requests the authorized operations on the cluster (v8–10).
    pub include_cluster_authorized_operations: bool,
    /// Whether the client requests the authorized operations on topics (v8+).
    pub include_topic_authorized_operations: bool,
}

/// A requested topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct MetadataRequestTopic<'a> {
    /// The topic's id; zero if the topic is requested by name (v10+).
    pub topic_id: Uuid,
    /// The topic's name. From v10 on it is null if the topic is requested by id.
    pub name: Option<&'a str>,
}

impl<'a> MetadataRequest<'a> {
    /// Decode a request body.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let flexible = version >= FLEXIBLE;
        let mut reader = Reader::new(body);
        let topic_bytes_min = if version >= IDS { 18 } else { 2 };
        let count = match reader.nullable_array(flexible, topic_bytes_min)? {
            None if version == 0 => return Err(DecodeError::UnexpectedNull),
            Some(0) if version == 0 => None,
            count => count,
        };
        let topics = match count {
            None => None,
            Some(count) => {
                let mut topics = Vec::with_capacity(count);
                for _ in 0..count {
                    let topic_id = if version >= IDS {
                        reader.uuid()?
                    } else {
                        Uuid::ZERO
                    };
                    let name = reader.nullable_string(flexible)?;
                    if name.is_none() && version < IDS {
                        return Err(DecodeError::UnexpectedNull);
                    }
                    reader.skip_tags(flexible)?;
                    topics.push(MetadataRequestTopic { topic_id, name });
                }
                Some(topics)
            }
        };
        let allow_auto_topic_creation = if version >= 4 { reader.bool()? } else { true };
        let include_cluster_authorized_operations = (8..=10).contains(&version) && reader.bool()?;
        let include_topic_authorized_operations = version >= 8 && reader.bool()?;
        reader.skip_tags(flexible)?;
        reader.finish()?;
        Ok(MetadataRequest {
            topics,
            allow_auto_topic_creation,
            include_cluster_authorized_operations,
            include_topic_authorized_operations,
        })
    }

    /// Append the request body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        match &self.topics {
            None if version == 0 => writer.array_len(0),
            None => writer.nullable_len(None),
            Some(topics) => {
                writer.array_len(topics.len());
                for topic in topics {
                    if version >= IDS {
                        writer.uuid(topic.topic_id);
                        writer.nullable_string(topic.name);
                    } else {
                        writer.string(topic.name.unwrap_or_default());
                    }
                    writer.no_tags();
                }
            }
        }
        if version >= 4 {
            writer.bool(self.allow_auto_topic_creation);
        }
        if (8..=10).contains(&version) {
            writer.bool(self.include_cluster_authorized_operations);
        }
        if version >= 8 {
            writer.bool(self.include_topic_authorized_operations);
        }
        writer.no_tags();
    }
}

/// The response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataResponse<'a> {
    /// All fields before the topics.
    pub head: MetadataHead<'a>,
    /// The topics.
    pub topics: Vec<MetadataTopic<'a>>,
    /// Authorized operations on the cluster (v8–10).
    pub cluster_authorized_operations: i32,
    /// Kafka error code of the whole response (v13+).
    pub error_code: i16,
}

/// The fields before the topics.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataHead<'a> {
    /// Throttle time in milliseconds (v3+).
    pub throttle_time_ms: i32,
    /// Live brokers.
    pub brokers: Vec<super::NodeEndpoint<'a>>,
    /// The cluster's id (v2+).
    pub cluster_id: Option<&'a str>,
    /// Broker id of the controller, or −1 if unknown (v1+).
    pub controller_id: i32,
}

/// One topic of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataTopic<'a> {
    /// Kafka error code.
    pub error_code: i16,
    /// The topic's name. `None`, for an unknown id, is written as "" before v12.
    pub name: Option<&'a str>,
    /// The topic's id (v10+).
    pub topic_id: Uuid,
    /// Whether the topic is an internal topic of the broker (v1+).
    pub internal: bool,
    /// The topic's partitions.
    pub partitions: Vec<MetadataPartition<'a>>,
    /// Authorized operations (v8+).
    pub authorized_operations: i32,
}

/// One partition of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct MetadataPartition<'a> {
    /// Kafka error code.
    pub error_code: i16,
    /// Partition index.
    pub partition: i32,
    /// Broker id of the leader, or −1 if there is none.
    pub leader: i32,
    /// Leader epoch (v7+).
    pub leader_epoch: i32,
    /// All replicas.
    pub replicas: Cow<'a, [i32]>,
    /// In-sync replicas.
    pub isr: Cow<'a, [i32]>,
    /// Offline replicas (v5+).
    pub offline: Cow<'a, [i32]>,
}

/// Writer of a Metadata response in pieces, in the order of the methods.
#[derive(Debug)]
pub struct MetadataResponseWriter<'v> {
    writer: Writer<'v>,
    version: i16,
}

impl<'v> MetadataResponseWriter<'v> {
    /// Start the body of a response with `topics` topics.
    pub fn new(out: &'v mut Vec<u8>, version: i16, head: &MetadataHead<'_>, topics: usize) -> Self {
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version >= 3 {
            writer.i32(head.throttle_time_ms);
        }
        writer.array_len(head.brokers.len());
        for broker in &head.brokers {
            writer.i32(broker.node_id);
            writer.string(broker.host);
            writer.i32(broker.port);
            if version >= 1 {
                writer.nullable_string(broker.rack);
            }
            writer.no_tags();
        }
        if version >= 2 {
            writer.nullable_string(head.cluster_id);
        }
        if version >= 1 {
            writer.i32(head.controller_id);
        }
        writer.array_len(topics);
        MetadataResponseWriter { writer, version }
    }

    /// Start a topic.
    #[inline]
    pub fn topic(
        &mut self,
        error_code: i16,
        name: Option<&str>,
        id: Uuid,
        internal: bool,
        partitions: usize,
    ) {
        self.writer.i16(error_code);
        let name = if self.version >= 12 {
            name
        } else {
            Some(name.unwrap_or_default())
        };
        self.writer.nullable_string(name);
        if self.version >= IDS {
            self.writer.uuid(id);
        }
        if self.version >= 1 {
            self.writer.bool(internal);
        }
        self.writer.array_len(partitions);
    }

    /// Write a partition.
    #[inline]
    pub fn partition(&mut self, partition: &MetadataPartition<'_>) {
        self.writer.i16(partition.error_code);
        self.writer.i32(partition.partition);
        self.writer.i32(partition.leader);
        if self.version >= 7 {
            self.writer.i32(partition.leader_epoch);
        }
        self.writer.i32_array(&partition.replicas);
        self.writer.i32_array(&partition.isr);
        if self.version >= 5 {
            self.writer.i32_array(&partition.offline);
        }
        self.writer.no_tags();
    }

    /// End a topic.
    #[inline]
    pub fn end_topic(&mut self, authorized_operations: i32) {
        if self.version >= 8 {
            self.writer.i32(authorized_operations);
        }
        self.writer.no_tags();
    }

    /// End the response.
    pub fn end(mut self, cluster_authorized_operations: i32, error_code: i16) {
        if (8..=10).contains(&self.version) {
            self.writer.i32(cluster_authorized_operations);
        }
        if self.version >= 13 {
            self.writer.i16(error_code);
        }
        self.writer.no_tags();
    }
}

impl<'a> MetadataResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = MetadataResponseWriter::new(out, version, &self.head, self.topics.len());
        for topic in &self.topics {
            writer.topic(
                topic.error_code,
                topic.name,
                topic.topic_id,
                topic.internal,
                topic.partitions.len(),
            );
            for partition in &topic.partitions {
                writer.partition(partition);
            }
            writer.end_topic(topic.authorized_operations);
        }
        writer.end(self.cluster_authorized_operations, self.error_code);
    }

    /// Decode a response body.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let flexible = version >= FLEXIBLE;
        let mut reader = Reader::new(body);
        let throttle_time_ms = if version >= 3 { reader.i32()? } else { 0 };
        let count = reader.array_len(flexible, 9)?;
        let mut brokers = Vec::with_capacity(count);
        for _ in 0..count {
            brokers.push(super::NodeEndpoint {
                node_id: reader.i32()?,
                host: reader.string(flexible)?,
                port: reader.i32()?,
                rack: if version >= 1 {
                    reader.nullable_string(flexible)?
                } else {
                    None
                },
            });
            reader.skip_tags(flexible)?;
        }
        let cluster_id = if version >= 2 {
            reader.nullable_string(flexible)?
        } else {
            None
        };
        let controller_id = if version >= 1 { reader.i32()? } else { -1 };
        let count = reader.array_len(flexible, 5)?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            topics.push(read_topic(&mut reader, version)?);
        }
        let cluster_authorized_operations = if (8..=10).contains(&version) {
            reader.i32()?
        } else {
            OPERATIONS_OMITTED
        };
        let error_code = if version >= 13 { reader.i16()? } else { 0 };
        reader.skip_tags(flexible)?;
        reader.finish()?;
        let head = MetadataHead {
            throttle_time_ms,
            brokers,
            cluster_id,
            controller_id,
        };
        Ok(MetadataResponse {
            head,
            topics,
            cluster_authorized_operations,
            error_code,
        })
    }
}

fn read_topic<'a>(reader: &mut Reader<'a>, version: i16) -> Result<MetadataTopic<'a>, DecodeError> {
    let flexible = version >= FLEXIBLE;
    let error_code = reader.i16()?;
    let name = reader.nullable_string(flexible)?;
    if name.is_none() && version < 12 {
        return Err(DecodeError::UnexpectedNull);
    }
    let topic_id = if version >= IDS {
        reader.uuid()?
    } else {
        Uuid::ZERO
    };
    let internal = version >= 1 && reader.bool()?;
    let count = reader.array_len(flexible, 12)?;
    let mut partitions = Vec::with_capacity(count);
    for _ in 0..count {
        partitions.push(MetadataPartition {
            error_code: reader.i16()?,
            partition: reader.i32()?,
            leader: reader.i32()?,
            leader_epoch: if version >= 7 { reader.i32()? } else { -1 },
            replicas: read_ids(reader, flexible)?,
            isr: read_ids(reader, flexible)?,
            offline: if version >= 5 {
                read_ids(reader, flexible)?
            } else {
                Cow::Borrowed(&[])
            },
        });
        reader.skip_tags(flexible)?;
    }
    let authorized_operations = if version >= 8 {
        reader.i32()?
    } else {
        OPERATIONS_OMITTED
    };
    reader.skip_tags(flexible)?;
    Ok(MetadataTopic {
        error_code,
        name,
        topic_id,
        internal,
        partitions,
        authorized_operations,
    })
}

fn read_ids(reader: &mut Reader<'_>, flexible: bool) -> Result<Cow<'static, [i32]>, DecodeError> {
    let count = reader.array_len(flexible, 4)?;
    let mut ids = Vec::with_capacity(count);
    for _ in 0..count {
        ids.push(reader.i32()?);
    }
    Ok(Cow::Owned(ids))
}
