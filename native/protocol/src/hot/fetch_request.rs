//! Fetch request (key 1), versions 4–18: sessions from v7 (KIP-227), flexible from v12, by topic id from v13 (KIP-516;
//! brokers among themselves use version 13 of that text, which is the same request), replica state as a tagged field
//! from v15 (KIP-903), replica directory from v17, high watermark from v18.

use pybroker_model::Uuid;

use super::check_version;
use crate::primitives::{DecodeError, Reader, Span, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 4..=18;
/// First flexible version.
pub const FLEXIBLE: i16 = 12;
/// First version that names topics by id.
pub const BY_ID: i16 = 13;
/// Tag of the follower's broker epoch (KIP-903) in versions 12 and 13 among brokers. This field is pybroker's own,
/// because in these versions neither released Kafka nor the KIP-516 text has one.
const REPLICA_EPOCH_TAG: u32 = 10_000;
/// Tags of a follower's directory and high watermark in version 13 among brokers, for the metadata topic. Released
/// Kafka has these fields in versions 17 and 18.
const DIRECTORY_TAG: u32 = 10_000;
const HIGH_WATERMARK_TAG: u32 = 10_001;
/// Tag of the offset up to which a broker has applied the metadata topic.
const APPLIED_TAG: u32 = 10_001;
/// First version with the consumer's rack (KIP-392).
pub const WITH_RACK: i16 = 11;
/// First version with fetch sessions.
pub const SESSIONS: i16 = 7;
/// First version with the client's leader epoch.
pub const WITH_EPOCH: i16 = 9;

/// The request. Its spans refer to the body from which it was decoded. The caller reuses the object for each request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchRequest {
    /// The cluster that the client expects (v12+, tagged; metadata quorum only).
    pub cluster_id: Option<Span>,
    /// Broker id of a follower, −1 for a consumer (tagged from v15).
    pub replica_id: i32,
    /// Broker epoch of a follower (v15+), else −1.
    pub replica_epoch: i64,
    /// The offset up to which a broker has applied the metadata topic (among brokers, v13), or −1 if unknown.
    pub applied_offset: i64,
    /// Maximum time to wait for `min_bytes`, in milliseconds.
    pub max_wait_ms: i32,
    /// Number of record bytes from which the fetch is answered.
    pub min_bytes: i32,
    /// Maximum bytes of records in the response. The response has at least one batch in any case.
    pub max_bytes: i32,
    /// 0 = read uncommitted, 1 = read committed.
    pub isolation_level: i8,
    /// Session id, 0 = none (v7+).
    pub session_id: i32,
    /// Session epoch, −1 = sessionless, 0 = new session (v7+).
    pub session_epoch: i32,
    /// Topics whose partitions the session adds or changes; without a session, all topics.
    pub topics: Vec<FetchTopic>,
    /// Partitions of all topics, in order.
    pub partitions: Vec<FetchPartition>,
    /// Partitions to remove from the session (v7+).
    pub forgotten: Vec<ForgottenTopic>,
    /// Partition indexes of all forgotten topics, in order.
    pub forgotten_partitions: Vec<i32>,
    /// The consumer's rack (v11+).
    pub rack_id: Span,
}

impl Default for FetchRequest {
    fn default() -> Self {
        FetchRequest {
            cluster_id: None,
            replica_id: -1,
            replica_epoch: -1,
            applied_offset: -1,
            max_wait_ms: 0,
            min_bytes: 0,
            max_bytes: i32::MAX,
            isolation_level: 0,
            session_id: 0,
            session_epoch: -1,
            topics: Vec::new(),
            partitions: Vec::new(),
            forgotten: Vec::new(),
            forgotten_partitions: Vec::new(),
            rack_id: Span::default(),
        }
    }
}

/// One topic of a Fetch request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchTopic {
    /// The topic's name (to v12).
    pub name: Span,
    /// The topic's id (from v13); zero before.
    pub topic_id: Uuid,
    /// Index of the topic's first partition in [`FetchRequest::partitions`].
    pub partitions_start: u32,
    /// Index after the topic's last partition.
    pub partitions_end: u32,
}

impl FetchTopic {
    /// The topic's partitions in [`FetchRequest::partitions`].
    #[inline]
    pub fn partitions(&self) -> core::ops::Range<usize> {
        self.partitions_start as usize..self.partitions_end as usize
    }
}

/// One partition of a Fetch request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct FetchPartition {
    /// Partition index.
    pub partition: i32,
    /// The leader epoch that the client knows, or −1 (v9+).
    pub current_leader_epoch: i32,
    /// First offset to return.
    pub fetch_offset: i64,
    /// Epoch of the record before `fetch_offset`, or −1 if unknown (v12+).
    pub last_fetched_epoch: i32,
    /// First offset of a follower's log (v5+).
    pub log_start_offset: i64,
    /// Maximum bytes for this partition.
    pub partition_max_bytes: i32,
    /// A follower's directory (v17+, tagged).
    pub replica_directory_id: Uuid,
    /// A follower's high watermark (v18+, tagged); `i64::MAX` = unknown.
    pub high_watermark: i64,
}

/// Partitions of one topic to remove from the session.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ForgottenTopic {
    /// The topic's name (v7–12).
    pub name: Span,
    /// The topic's id (from v13); zero before.
    pub topic_id: Uuid,
    /// Index of the topic's first partition in [`FetchRequest::forgotten_partitions`].
    pub partitions_start: u32,
    /// Index after the topic's last partition.
    pub partitions_end: u32,
}

impl ForgottenTopic {
    /// The topic's partitions in [`FetchRequest::forgotten_partitions`].
    #[inline]
    pub fn partitions(&self) -> core::ops::Range<usize> {
        self.partitions_start as usize..self.partitions_end as usize
    }
}

impl FetchRequest {
    /// Decode a request body and replace the content of `self`. After an error the content is unspecified.
    pub fn decode(&mut self, body: &[u8], version: i16) -> Result<(), DecodeError> {
        check_version(version, VERSIONS)?;
        let flexible = version >= FLEXIBLE;
        self.topics.clear();
        self.partitions.clear();
        self.forgotten.clear();
        self.forgotten_partitions.clear();
        self.cluster_id = None;
        self.replica_epoch = -1;
        self.applied_offset = -1;
        self.rack_id = Span::default();
        let mut reader = Reader::new(body);
        self.replica_id = if version <= 14 { reader.i32()? } else { -1 };
        self.max_wait_ms = reader.i32()?;
        self.min_bytes = reader.i32()?;
        self.max_bytes = reader.i32()?;
        self.isolation_level = reader.i8()?;
        (self.session_id, self.session_epoch) = if version >= SESSIONS {
            (reader.i32()?, reader.i32()?)
        } else {
            (0, -1)
        };
        self.read_topics(&mut reader, version)?;
        if version >= SESSIONS {
            self.read_forgotten(&mut reader, version)?;
        }
        if version >= WITH_RACK {
            self.rack_id = reader.string_span(flexible)?;
        }
        if flexible {
            let mut cluster_id = None;
            let mut replica = (self.replica_id, -1);
            let mut applied_offset = -1;
            reader.tags(|tag, value| match tag {
                0 => {
                    if let Some(text) = value.nullable_string(true)? {
                        let end = value.position() as u32;
                        cluster_id = Some(Span {
                            start: end - text.len() as u32,
                            end,
                        });
                    }
                    Ok(true)
                }
                REPLICA_EPOCH_TAG if matches!(version, FLEXIBLE | BY_ID) => {
                    replica.1 = value.i64()?;
                    Ok(true)
                }
                APPLIED_TAG if version == BY_ID => {
                    applied_offset = value.i64()?;
                    Ok(true)
                }
                1 if version >= 15 => {
                    replica = (value.i32()?, value.i64()?);
                    value.skip_tags(true)?;
                    Ok(true)
                }
                _ => Ok(false),
            })?;
            self.cluster_id = cluster_id;
            (self.replica_id, self.replica_epoch) = replica;
            self.applied_offset = applied_offset;
        }
        reader.finish()
    }

    fn read_topics(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
        let flexible = version >= FLEXIBLE;
        let topics = read_topic_count(reader, version)?;
        self.topics.reserve(topics);
        for _ in 0..topics {
            let (name, topic_id) = read_topic_head(reader, version)?;
            let count = reader.array_len(flexible, 16)?;
            let partitions_start = self.partitions.len() as u32;
            self.partitions.reserve(count);
            for _ in 0..count {
                self.partitions.push(read_partition(reader, version)?);
            }
            reader.skip_tags(flexible)?;
            let partitions_end = self.partitions.len() as u32;
            self.topics.push(FetchTopic {
                name,
                topic_id,
                partitions_start,
                partitions_end,
            });
        }
        Ok(())
    }

    fn read_forgotten(&mut self, reader: &mut Reader<'_>, version: i16) -> Result<(), DecodeError> {
        let flexible = version >= FLEXIBLE;
        let topics = read_topic_count(reader, version)?;
        self.forgotten.reserve(topics);
        for _ in 0..topics {
            let (name, topic_id) = read_topic_head(reader, version)?;
            let count = reader.array_len(flexible, 4)?;
            let partitions_start = self.forgotten_partitions.len() as u32;
            self.forgotten_partitions.reserve(count);
            for _ in 0..count {
                self.forgotten_partitions.push(reader.i32()?);
            }
            reader.skip_tags(flexible)?;
            let partitions_end = self.forgotten_partitions.len() as u32;
            self.forgotten.push(ForgottenTopic {
                name,
                topic_id,
                partitions_start,
                partitions_end,
            });
        }
        Ok(())
    }

    /// Append the request body. The request's spans refer to `buffer`.
    pub fn encode(&self, buffer: &[u8], version: i16, out: &mut Vec<u8>) {
        let text = |span: Span| core::str::from_utf8(span.of(buffer)).unwrap_or_default();
        let by_id = version >= BY_ID;
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version <= 14 {
            writer.i32(self.replica_id);
        }
        writer.i32(self.max_wait_ms);
        writer.i32(self.min_bytes);
        writer.i32(self.max_bytes);
        writer.i8(self.isolation_level);
        if version >= SESSIONS {
            writer.i32(self.session_id);
            writer.i32(self.session_epoch);
        }
        writer.array_len(self.topics.len());
        for topic in &self.topics {
            if by_id {
                writer.uuid(topic.topic_id)
            } else {
                writer.string(text(topic.name))
            }
            let partitions = &self.partitions[topic.partitions()];
            writer.array_len(partitions.len());
            for partition in partitions {
                write_partition(&mut writer, version, partition);
            }
            writer.no_tags();
        }
        if version >= SESSIONS {
            writer.array_len(self.forgotten.len());
            for topic in &self.forgotten {
                if by_id {
                    writer.uuid(topic.topic_id)
                } else {
                    writer.string(text(topic.name))
                }
                writer.i32_array(&self.forgotten_partitions[topic.partitions()]);
                writer.no_tags();
            }
        }
        if version >= 11 {
            writer.string(text(self.rack_id));
        }
        if version >= FLEXIBLE {
            let replica = version >= 15 && (self.replica_id, self.replica_epoch) != (-1, -1);
            let life = matches!(version, FLEXIBLE | BY_ID) && self.replica_epoch != -1;
            let applied = version == BY_ID && self.applied_offset != -1;
            let count = [self.cluster_id.is_some(), replica, life, applied];
            writer.tag_count(count.into_iter().map(u32::from).sum());
            if let Some(cluster_id) = self.cluster_id {
                writer.tag(0, |writer| writer.string(text(cluster_id)));
            }
            if replica {
                writer.tag(1, |writer| {
                    writer.i32(self.replica_id);
                    writer.i64(self.replica_epoch);
                    writer.no_tags();
                });
            }
            if life {
                writer.tag(REPLICA_EPOCH_TAG, |writer| writer.i64(self.replica_epoch));
            }
            if applied {
                writer.tag(APPLIED_TAG, |writer| writer.i64(self.applied_offset));
            }
        }
    }
}

/// Decode the number of topics. Each takes at least the bytes of its name or id and of an empty array.
fn read_topic_count(reader: &mut Reader<'_>, version: i16) -> Result<usize, DecodeError> {
    let topic_bytes_min = if version >= BY_ID {
        18
    } else if version >= FLEXIBLE {
        3
    } else {
        6
    };
    reader.array_len(version >= FLEXIBLE, topic_bytes_min)
}

/// Decode a topic: its name up to v12, its id from v13.
#[inline]
fn read_topic_head(reader: &mut Reader<'_>, version: i16) -> Result<(Span, Uuid), DecodeError> {
    if version >= BY_ID {
        Ok((Span::default(), reader.uuid()?))
    } else {
        Ok((reader.string_span(version >= FLEXIBLE)?, Uuid::ZERO))
    }
}

#[inline]
fn read_partition(reader: &mut Reader<'_>, version: i16) -> Result<FetchPartition, DecodeError> {
    let mut partition = FetchPartition {
        partition: reader.i32()?,
        current_leader_epoch: if version >= 9 { reader.i32()? } else { -1 },
        fetch_offset: reader.i64()?,
        last_fetched_epoch: if version >= 12 { reader.i32()? } else { -1 },
        log_start_offset: if version >= 5 { reader.i64()? } else { -1 },
        partition_max_bytes: reader.i32()?,
        replica_directory_id: Uuid::ZERO,
        high_watermark: i64::MAX,
    };
    if let Some((directory, watermark)) = replica_tags(version) {
        reader.tags(|tag, value| {
            if tag == directory {
                partition.replica_directory_id = value.uuid()?;
            } else if Some(tag) == watermark {
                partition.high_watermark = value.i64()?;
            } else {
                return Ok(false);
            }
            Ok(true)
        })?;
    } else {
        reader.skip_tags(version >= FLEXIBLE)?;
    }
    Ok(partition)
}

fn write_partition(writer: &mut Writer<'_>, version: i16, partition: &FetchPartition) {
    writer.i32(partition.partition);
    if version >= 9 {
        writer.i32(partition.current_leader_epoch);
    }
    writer.i64(partition.fetch_offset);
    if version >= 12 {
        writer.i32(partition.last_fetched_epoch);
    }
    if version >= 5 {
        writer.i64(partition.log_start_offset);
    }
    writer.i32(partition.partition_max_bytes);
    if let Some((directory, watermark)) = replica_tags(version) {
        let directory = (partition.replica_directory_id != Uuid::ZERO).then_some(directory);
        let watermark = watermark.filter(|_| partition.high_watermark != i64::MAX);
        writer.tag_count(u32::from(directory.is_some()) + u32::from(watermark.is_some()));
        if let Some(tag) = directory {
            writer.tag(tag, |writer| writer.uuid(partition.replica_directory_id));
        }
        if let Some(tag) = watermark {
            writer.tag(tag, |writer| writer.i64(partition.high_watermark));
        }
    } else {
        writer.no_tags();
    }
}

/// Return the tags of a follower's directory and high watermark, if the version has these fields.
const fn replica_tags(version: i16) -> Option<(u32, Option<u32>)> {
    match version {
        BY_ID => Some((DIRECTORY_TAG, Some(HIGH_WATERMARK_TAG))),
        17 => Some((0, None)),
        18.. => Some((0, Some(1))),
        _ => None,
    }
}
