//! OffsetForLeaderEpoch (key 23), versions 0–4: KIP-101, epochs in the response from v1, fencing from v2 (KIP-320), a
//! replica id from v3, flexible from v4. Brokers among themselves use version 4, by topic id, and 3, by name.

use super::WireVersion;
use super::of_topic::{self, Form, OfTopic};
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=4;
/// Version with the layout of the KIP-516 text, which brokers use among themselves.
pub const INTER_BROKER: i16 = 4;
/// Last version that names topics by name. Brokers use it while `inter.broker.protocol.version` is below 2.8.
pub const INTER_BROKER_BY_NAME: i16 = 3;
const FLEXIBLE: i16 = 4;

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetForLeaderEpochRequest<'a> {
    /// Broker id of a follower, −1 for a consumer, −2 if unknown (v3+).
    pub replica_id: i32,
    /// The topics.
    pub topics: Vec<OfTopic<'a, EpochPartition>>,
}

/// One partition of the request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochPartition {
    /// Partition index.
    pub partition: i32,
    /// The leader epoch that the client knows, or −1 (v2+).
    pub current_leader_epoch: i32,
    /// The requested epoch.
    pub leader_epoch: i32,
}

fn form(version: WireVersion) -> Form {
    Form {
        flexible: version.number >= FLEXIBLE,
        by_id: version.is_inter_broker() && version.number >= INTER_BROKER,
    }
}

impl<'a> OffsetForLeaderEpochRequest<'a> {
    /// Decode a request body.
    pub fn decode(body: &'a [u8], version: impl Into<WireVersion>) -> Result<Self, DecodeError> {
        let wire = version.into();
        wire.check(VERSIONS, INTER_BROKER_BY_NAME..=INTER_BROKER)?;
        let version = wire.number;
        let mut reader = Reader::new(body);
        let replica_id = if version >= 3 { reader.i32()? } else { -2 };
        let topics = of_topic::read(&mut reader, form(wire), 8, |reader| {
            Ok(EpochPartition {
                partition: reader.i32()?,
                current_leader_epoch: if version >= 2 { reader.i32()? } else { -1 },
                leader_epoch: reader.i32()?,
            })
        })?;
        reader.skip_tags(version >= FLEXIBLE)?;
        reader.finish()?;
        Ok(OffsetForLeaderEpochRequest { replica_id, topics })
    }

    /// Append the request body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let version = version.into().number;
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version >= 3 {
            writer.i32(self.replica_id);
        }
        of_topic::write(&mut writer, &self.topics, |writer, partition| {
            writer.i32(partition.partition);
            if version >= 2 {
                writer.i32(partition.current_leader_epoch);
            }
            writer.i32(partition.leader_epoch);
        });
        writer.no_tags();
    }
}

/// The response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetForLeaderEpochResponse<'a> {
    /// Throttle time in milliseconds (v2+).
    pub throttle_time_ms: i32,
    /// The topics, as in the request.
    pub topics: Vec<OfTopic<'a, EpochPartitionResponse>>,
}

/// One partition of the response.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochPartitionResponse {
    /// Kafka error code.
    pub error_code: i16,
    /// Partition index.
    pub partition: i32,
    /// The largest epoch not above the requested one, or −1 if there is none (v1+).
    pub leader_epoch: i32,
    /// End offset of that epoch, or −1 if unknown.
    pub end_offset: i64,
}

impl<'a> OffsetForLeaderEpochResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let version = version.into().number;
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version >= 2 {
            writer.i32(self.throttle_time_ms);
        }
        of_topic::write(&mut writer, &self.topics, |writer, partition| {
            writer.i16(partition.error_code);
            writer.i32(partition.partition);
            if version >= 1 {
                writer.i32(partition.leader_epoch);
            }
            writer.i64(partition.end_offset);
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
        let topics = of_topic::read(&mut reader, form(wire), 14, |reader| {
            Ok(EpochPartitionResponse {
                error_code: reader.i16()?,
                partition: reader.i32()?,
                leader_epoch: if version >= 1 { reader.i32()? } else { -1 },
                end_offset: reader.i64()?,
            })
        })?;
        reader.skip_tags(version >= FLEXIBLE)?;
        reader.finish()?;
        Ok(OffsetForLeaderEpochResponse {
            throttle_time_ms,
            topics,
        })
    }
}
