//! ListOffsets (key 2), versions 0–11. v0 answers with several offsets, v1 with one and its timestamp; isolation level
//! from v2, leader epochs from v4, flexible from v6, a timeout from v10. Brokers among themselves use version 6, by
//! topic id, and 5, by name. For the special timestamps see `k02_list_offsets` of the server.

use super::WireVersion;
use super::of_topic::{self, Form, OfTopic};
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=11;
/// Version with the layout of the KIP-516 text, which brokers use among themselves.
pub const INTER_BROKER: i16 = 6;
/// Last version that names topics by name. Brokers use it while `inter.broker.protocol.version` is below 2.8.
pub const INTER_BROKER_BY_NAME: i16 = 5;
const FLEXIBLE: i16 = 6;

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOffsetsRequest<'a> {
    /// Broker id of a follower, −1 for a client.
    pub replica_id: i32,
    /// 0 = read uncommitted, 1 = read committed (v2+).
    pub isolation_level: i8,
    /// The topics.
    pub topics: Vec<OfTopic<'a, ListOffsetsPartition>>,
    /// Timeout of a look-up in remote storage, in milliseconds (v10+).
    pub timeout_ms: i32,
}

/// One partition of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListOffsetsPartition {
    /// Partition index.
    pub partition: i32,
    /// The leader epoch that the client knows, or −1 (v4+).
    pub current_leader_epoch: i32,
    /// A timestamp, or a special negative value.
    pub timestamp: i64,
    /// Maximum number of offsets in v0; otherwise 1.
    pub max_num_offsets: i32,
}

fn form(version: WireVersion) -> Form {
    Form {
        flexible: version.number >= FLEXIBLE,
        by_id: version.is_inter_broker() && version.number >= INTER_BROKER,
    }
}

impl<'a> ListOffsetsRequest<'a> {
    /// Decode a request body.
    pub fn decode(body: &'a [u8], version: impl Into<WireVersion>) -> Result<Self, DecodeError> {
        let wire = version.into();
        wire.check(VERSIONS, INTER_BROKER_BY_NAME..=INTER_BROKER)?;
        let version = wire.number;
        let mut reader = Reader::new(body);
        let replica_id = reader.i32()?;
        let isolation_level = if version >= 2 { reader.i8()? } else { 0 };
        let topics = of_topic::read(&mut reader, form(wire), 12, |reader| {
            Ok(ListOffsetsPartition {
                partition: reader.i32()?,
                current_leader_epoch: if version >= 4 { reader.i32()? } else { -1 },
                timestamp: reader.i64()?,
                max_num_offsets: if version == 0 { reader.i32()? } else { 1 },
            })
        })?;
        let timeout_ms = if version >= 10 { reader.i32()? } else { 0 };
        reader.skip_tags(version >= FLEXIBLE)?;
        reader.finish()?;
        Ok(ListOffsetsRequest {
            replica_id,
            isolation_level,
            topics,
            timeout_ms,
        })
    }

    /// Append the request body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let version = version.into().number;
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        writer.i32(self.replica_id);
        if version >= 2 {
            writer.i8(self.isolation_level);
        }
        of_topic::write(&mut writer, &self.topics, |writer, partition| {
            writer.i32(partition.partition);
            if version >= 4 {
                writer.i32(partition.current_leader_epoch);
            }
            writer.i64(partition.timestamp);
            if version == 0 {
                writer.i32(partition.max_num_offsets);
            }
        });
        if version >= 10 {
            writer.i32(self.timeout_ms);
        }
        writer.no_tags();
    }
}

/// The response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOffsetsResponse<'a> {
    /// Throttle time in milliseconds (v2+).
    pub throttle_time_ms: i32,
    /// The topics, as in the request.
    pub topics: Vec<OfTopic<'a, ListOffsetsPartitionResponse>>,
}

/// One partition of the response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListOffsetsPartitionResponse {
    /// Partition index.
    pub partition: i32,
    /// Kafka error code.
    pub error_code: i16,
    /// Offsets, highest first (v0).
    pub old_style_offsets: Vec<i64>,
    /// Timestamp of the matching record, or −1 (v1+).
    pub timestamp: i64,
    /// Offset of the matching record, or −1 (v1+).
    pub offset: i64,
    /// Leader epoch of the matching record, or −1 (v4+).
    pub leader_epoch: i32,
}

impl<'a> ListOffsetsResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let version = version.into().number;
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version >= 2 {
            writer.i32(self.throttle_time_ms);
        }
        of_topic::write(&mut writer, &self.topics, |writer, partition| {
            writer.i32(partition.partition);
            writer.i16(partition.error_code);
            if version == 0 {
                writer.array_len(partition.old_style_offsets.len());
                for offset in &partition.old_style_offsets {
                    writer.i64(*offset);
                }
            } else {
                writer.i64(partition.timestamp);
                writer.i64(partition.offset);
            }
            if version >= 4 {
                writer.i32(partition.leader_epoch);
            }
        });
        writer.no_tags();
    }

    /// Decode a response body.
    pub fn decode(body: &'a [u8], version: impl Into<WireVersion>) -> Result<Self, DecodeError> {
        let wire = version.into();
        wire.check(VERSIONS, INTER_BROKER_BY_NAME..=INTER_BROKER)?;
        let version = wire.number;
        let mut reader = Reader::new(body);
        let throttle_time_ms = if version >= 2 { reader.i32()? } else { 0 };
        let topics = of_topic::read(&mut reader, form(wire), 10, |reader| {
            let (partition, error_code) = (reader.i32()?, reader.i16()?);
            let mut old_style_offsets = Vec::new();
            if version == 0 {
                let count = reader.array_len(false, 8)?;
                for _ in 0..count {
                    old_style_offsets.push(reader.i64()?);
                }
            }
            let (timestamp, offset) = if version == 0 {
                (-1, -1)
            } else {
                (reader.i64()?, reader.i64()?)
            };
            Ok(ListOffsetsPartitionResponse {
                partition,
                error_code,
                old_style_offsets,
                timestamp,
                offset,
                leader_epoch: if version >= 4 { reader.i32()? } else { -1 },
            })
        })?;
        reader.skip_tags(version >= FLEXIBLE)?;
        reader.finish()?;
        Ok(ListOffsetsResponse {
            throttle_time_ms,
            topics,
        })
    }
}
