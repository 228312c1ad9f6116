//! OffsetCommit (key 8), versions 5–10: leader epochs from v6, group.instance.id from v7, flexible from v8, topics by
//! id in v10. The schema interpreter decodes earlier versions, which have timestamps.

use pybroker_model::Uuid;

use super::check_version;
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions that this codec supports.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 5..=10;
const LEADER_EPOCHS: i16 = 6;
const INSTANCES: i16 = 7;
const FLEXIBLE: i16 = 8;
/// The first version that names topics by id.
pub const BY_ID: i16 = 10;

/// The request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitRequest<'a> {
    /// Group id.
    pub group_id: &'a str,
    /// Generation or member epoch; −1 if the client is not a member of the group.
    pub generation_id_or_member_epoch: i32,
    /// Member id.
    pub member_id: &'a str,
    /// `group.instance.id` (v7+).
    pub group_instance_id: Option<&'a str>,
    /// Offsets to commit.
    pub topics: Vec<OffsetCommitTopic<'a>>,
}

/// One topic of the request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OffsetCommitTopic<'a> {
    /// The topic's name; empty from v10 on.
    pub name: &'a str,
    /// The topic's id; zero below v10.
    pub topic_id: Uuid,
    /// The topic's partitions.
    pub partitions: Vec<OffsetCommitPartition<'a>>,
}

/// One partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct OffsetCommitPartition<'a> {
    /// Partition index.
    pub partition_index: i32,
    /// Committed offset.
    pub committed_offset: i64,
    /// Leader epoch of the last consumed record, or −1 if unknown (v6+).
    pub committed_leader_epoch: i32,
    /// Metadata of the commit.
    pub committed_metadata: Option<&'a str>,
}

impl<'a> OffsetCommitRequest<'a> {
    /// Decode a request body.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        Self::decode_with_head(body, version).map(|(request, _)| request)
    }

    /// Decode a request body. Also return the number of bytes before the topics; these bytes identify the group and the
    /// member.
    pub fn decode_with_head(body: &'a [u8], version: i16) -> Result<(Self, usize), DecodeError> {
        check_version(version, VERSIONS)?;
        let flexible = version >= FLEXIBLE;
        let mut reader = Reader::new(body);
        let group_id = reader.string(flexible)?;
        let generation_id_or_member_epoch = reader.i32()?;
        let member_id = reader.string(flexible)?;
        let group_instance_id = if version >= INSTANCES {
            reader.nullable_string(flexible)?
        } else {
            None
        };
        let head = reader.position();
        let count = reader.array_len(flexible, 2)?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            topics.push(OffsetCommitTopic::read(&mut reader, version)?);
        }
        reader.skip_tags(flexible)?;
        reader.finish()?;
        let request = OffsetCommitRequest {
            group_id,
            generation_id_or_member_epoch,
            member_id,
            group_instance_id,
            topics,
        };
        Ok((request, head))
    }

    /// Append the request body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        writer.string(self.group_id);
        writer.i32(self.generation_id_or_member_epoch);
        writer.string(self.member_id);
        if version >= INSTANCES {
            writer.nullable_string(self.group_instance_id);
        }
        writer.array_len(self.topics.len());
        for topic in &self.topics {
            topic.write_name(&mut writer, version);
            writer.array_len(topic.partitions.len());
            for partition in &topic.partitions {
                writer.i32(partition.partition_index);
                writer.i64(partition.committed_offset);
                if version >= LEADER_EPOCHS {
                    writer.i32(partition.committed_leader_epoch);
                }
                writer.nullable_string(partition.committed_metadata);
                writer.no_tags();
            }
            writer.no_tags();
        }
        writer.no_tags();
    }

    /// Append the body of a response in which every partition succeeds. Return the positions of the error codes, in
    /// order, relative to the body's first byte.
    pub fn encode_success(
        &self,
        version: i16,
        throttle_time_ms: i32,
        out: &mut Vec<u8>,
    ) -> Vec<usize> {
        let start = out.len();
        let mut places = Vec::with_capacity(self.topics.len());
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        writer.i32(throttle_time_ms);
        writer.array_len(self.topics.len());
        for topic in &self.topics {
            topic.write_name(&mut writer, version);
            writer.array_len(topic.partitions.len());
            for partition in &topic.partitions {
                writer.i32(partition.partition_index);
                places.push(writer.position() - start);
                writer.i16(0);
                writer.no_tags();
            }
            writer.no_tags();
        }
        writer.no_tags();
        places
    }
}

impl<'a> OffsetCommitTopic<'a> {
    fn read(reader: &mut Reader<'a>, version: i16) -> Result<Self, DecodeError> {
        let flexible = version >= FLEXIBLE;
        let (name, topic_id) = if version >= BY_ID {
            ("", reader.uuid()?)
        } else {
            (reader.string(flexible)?, Uuid::ZERO)
        };
        let count = reader.array_len(flexible, 13)?;
        let mut partitions = Vec::with_capacity(count);
        for _ in 0..count {
            partitions.push(OffsetCommitPartition {
                partition_index: reader.i32()?,
                committed_offset: reader.i64()?,
                committed_leader_epoch: if version >= LEADER_EPOCHS {
                    reader.i32()?
                } else {
                    -1
                },
                committed_metadata: reader.nullable_string(flexible)?,
            });
            reader.skip_tags(flexible)?;
        }
        reader.skip_tags(flexible)?;
        Ok(OffsetCommitTopic {
            name,
            topic_id,
            partitions,
        })
    }

    fn write_name(&self, writer: &mut Writer<'_>, version: i16) {
        if version >= BY_ID {
            writer.uuid(self.topic_id);
        } else {
            writer.string(self.name);
        }
    }
}
