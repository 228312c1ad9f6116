//! Fetch response (key 1), versions 4–18. It is written in pieces, so that records can stay in their file: first the
//! head of a partition, then its records (as bytes, or sent from the file later), then its tail. Among brokers, version
//! 13 has released Kafka's tagged fields as ordinary fields between the others. Version 12, by name, has the released
//! layout.

use pybroker_model::Uuid;

use super::fetch_request::{BY_ID, FLEXIBLE, SESSIONS, VERSIONS};
use super::{LeaderIdAndEpoch, NodeEndpoint, WireVersion, read_endpoints, write_endpoints_section};
use crate::primitives::{DecodeError, Reader, Writer};

/// Version with the layout of the KIP-516 text, which brokers use among themselves.
pub const INTER_BROKER: i16 = 13;
/// Last version that names topics by name. Brokers use it while `inter.broker.protocol.version` is below 2.8.
pub const INTER_BROKER_BY_NAME: i16 = 12;
/// Tag of pybroker's own field `attach`.
const ATTACH_TAG: u32 = 10_000;
/// Tag of the snapshot id of the metadata topic, because the KIP-516 text's version does not have that field.
const SNAPSHOT_TAG: u32 = 10_001;
/// Tag of the node endpoints, because the KIP-516 text's version does not have that field.
const ENDPOINTS_TAG: u32 = 10_000;

/// The response.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct FetchResponse<'a> {
    /// Throttle time in milliseconds.
    pub throttle_time_ms: i32,
    /// Kafka error code of the session or the whole request (v7+).
    pub error_code: i16,
    /// Session id, 0 = none (v7+).
    pub session_id: i32,
    /// The topics.
    pub topics: Vec<FetchableTopicResponse<'a>>,
    /// Addresses of the leaders that the response names (v16+).
    pub node_endpoints: Vec<NodeEndpoint<'a>>,
}

/// One topic of a Fetch response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchableTopicResponse<'a> {
    /// The topic's name (to v12).
    pub name: &'a str,
    /// The topic's id (from v13).
    pub topic_id: Uuid,
    /// The topic's partitions.
    pub partitions: Vec<FetchPartitionResponse<'a>>,
}

/// An aborted transaction, for consumers that read committed records only.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AbortedTransaction {
    /// The transaction's producer id.
    pub producer_id: i64,
    /// Offset of the transaction's first record in the partition.
    pub first_offset: i64,
}

/// An epoch and the offset where it ends.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct EpochEndOffset {
    /// Leader epoch.
    pub epoch: i32,
    /// End offset.
    pub end_offset: i64,
}

/// One partition of a Fetch response, without its records.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPartitionHead {
    /// Partition index.
    pub partition: i32,
    /// Kafka error code.
    pub error_code: i16,
    /// High watermark; −1 with most errors.
    pub high_watermark: i64,
    /// Last stable offset.
    pub last_stable_offset: i64,
    /// First offset of the log (v5+).
    pub log_start_offset: i64,
    /// Where the follower's or client's log diverges from the leader's (v12+).
    pub diverging_epoch: Option<EpochEndOffset>,
    /// The current leader, if the error says that this broker does not lead (v12+).
    pub current_leader: Option<LeaderIdAndEpoch>,
    /// Snapshot to fetch instead of records (v12+; metadata quorum only).
    pub snapshot_id: Option<EpochEndOffset>,
    /// Aborted transactions; `None` (null) if they were not requested.
    pub aborted_transactions: Option<Vec<AbortedTransaction>>,
    /// Broker id of a nearer replica, or −1 (v11+).
    pub preferred_read_replica: i32,
    /// Instruction to attach the records that the replica has staged (among brokers only; a field of pybroker's own).
    pub attach: Option<Box<StagedAttach>>,
}

/// Offsets at which the leader attached an ingest's staged records, which this replica has staged too.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StagedAttach {
    /// The ingest's directory.
    pub directory: String,
    /// Number of the committed plan.
    pub plan: i64,
    /// Offset of the first record.
    pub base_offset: i64,
    /// Offset after the last record.
    pub end_offset: i64,
    /// Leader epoch of the leader that attached them.
    pub leader_epoch: i32,
    /// The LogAppendTime timestamp, or −1.
    pub append_time: i64,
}

/// One partition of a Fetch response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct FetchPartitionResponse<'a> {
    /// All fields except the records.
    pub head: FetchPartitionHead,
    /// The record batches.
    pub records: Option<&'a [u8]>,
}

impl FetchPartitionHead {
    /// Create the response of a refused partition.
    pub fn refused(partition: i32, error_code: i16) -> Self {
        FetchPartitionHead {
            partition,
            error_code,
            high_watermark: -1,
            last_stable_offset: -1,
            log_start_offset: -1,
            diverging_epoch: None,
            current_leader: None,
            snapshot_id: None,
            aborted_transactions: None,
            preferred_read_replica: -1,
            attach: None,
        }
    }
}

/// Writer of a Fetch response in pieces, in the order of the methods. Holds no buffer, so that file bytes can come
/// between two pieces.
#[derive(Debug, Clone, Copy)]
pub struct FetchResponseWriter {
    version: i16,
    inter_broker: bool,
    inline: bool,
}

impl FetchResponseWriter {
    /// Create a writer for one version.
    pub fn new(version: impl Into<WireVersion>) -> Self {
        let version = version.into();
        FetchResponseWriter {
            version: version.number,
            inter_broker: version.is_inter_broker(),
            inline: is_inline(version),
        }
    }

    #[inline]
    fn writer<'v>(&self, out: &'v mut Vec<u8>) -> Writer<'v> {
        Writer::new(out, self.version >= FLEXIBLE)
    }

    /// Start the body of a response with `topics` topics.
    pub fn start(
        &self,
        out: &mut Vec<u8>,
        throttle_time_ms: i32,
        error_code: i16,
        session_id: i32,
        topics: usize,
    ) {
        let mut writer = self.writer(out);
        writer.i32(throttle_time_ms);
        if self.version >= SESSIONS {
            writer.i16(error_code);
            writer.i32(session_id);
        }
        writer.array_len(topics);
    }

    /// Start a topic.
    #[inline]
    pub fn topic(&self, out: &mut Vec<u8>, name: &str, topic_id: Uuid, partitions: usize) {
        let mut writer = self.writer(out);
        if self.version >= BY_ID {
            writer.uuid(topic_id);
        } else {
            writer.string(name);
        }
        writer.array_len(partitions);
    }

    /// Start a partition, up to and including the length of its records, which must follow.
    #[inline]
    pub fn partition(
        &self,
        out: &mut Vec<u8>,
        head: &FetchPartitionHead,
        records_bytes: Option<usize>,
    ) {
        let mut writer = self.writer(out);
        writer.i32(head.partition);
        writer.i16(head.error_code);
        writer.i64(head.high_watermark);
        writer.i64(head.last_stable_offset);
        if self.version >= 5 {
            writer.i64(head.log_start_offset);
        }
        if self.inline {
            write_inline(&mut writer, head);
        }
        match &head.aborted_transactions {
            None => writer.nullable_len(None),
            Some(transactions) => {
                writer.array_len(transactions.len());
                for transaction in transactions {
                    writer.i64(transaction.producer_id);
                    writer.i64(transaction.first_offset);
                    writer.no_tags();
                }
            }
        }
        if self.version >= 11 {
            writer.i32(head.preferred_read_replica);
        }
        writer.nullable_len(records_bytes);
    }

    /// End a partition, after its records.
    #[inline]
    pub fn end_partition(&self, out: &mut Vec<u8>, head: &FetchPartitionHead) {
        let mut writer = self.writer(out);
        if self.version < FLEXIBLE {
            return;
        }
        let attach = head.attach.as_deref().filter(|_| self.inter_broker);
        let tagged = !self.inline;
        let diverging = head.diverging_epoch.filter(|_| tagged);
        let leader = head.current_leader.filter(|_| tagged);
        let snapshot = head.snapshot_id;
        let count = u32::from(diverging.is_some())
            + u32::from(leader.is_some())
            + u32::from(snapshot.is_some())
            + u32::from(attach.is_some());
        writer.tag_count(count);
        if let Some(diverging) = diverging {
            writer.tag(0, |writer| {
                writer.i32(diverging.epoch);
                writer.i64(diverging.end_offset);
                writer.no_tags();
            });
        }
        if let Some(leader) = leader {
            writer.tag(1, |writer| leader.write(writer));
        }
        let write_snapshot = |writer: &mut Writer<'_>, tag| {
            if let Some(snapshot) = snapshot {
                writer.tag(tag, |writer| {
                    writer.i64(snapshot.end_offset);
                    writer.i32(snapshot.epoch);
                    writer.no_tags();
                });
            }
        };
        if tagged {
            write_snapshot(&mut writer, 2);
        }
        if let Some(attach) = attach {
            writer.tag(ATTACH_TAG, |writer| {
                writer.string(&attach.directory);
                writer.i64(attach.plan);
                writer.i64(attach.base_offset);
                writer.i64(attach.end_offset);
                writer.i32(attach.leader_epoch);
                writer.i64(attach.append_time);
                writer.no_tags();
            });
        }
        if !tagged {
            write_snapshot(&mut writer, SNAPSHOT_TAG);
        }
    }

    /// End a topic.
    #[inline]
    pub fn end_topic(&self, out: &mut Vec<u8>) {
        self.writer(out).no_tags();
    }

    /// End the response.
    #[inline]
    pub fn end(&self, out: &mut Vec<u8>, node_endpoints: &[NodeEndpoint<'_>]) {
        let (tag, endpoints) = match self.inline {
            true => (ENDPOINTS_TAG, node_endpoints),
            false if self.version >= 16 => (0, node_endpoints),
            false => (0, &[][..]),
        };
        write_endpoints_section(&mut self.writer(out), tag, endpoints);
    }
}

impl<'a> FetchResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: impl Into<WireVersion>, out: &mut Vec<u8>) {
        let writer = FetchResponseWriter::new(version);
        writer.start(
            out,
            self.throttle_time_ms,
            self.error_code,
            self.session_id,
            self.topics.len(),
        );
        for topic in &self.topics {
            writer.topic(out, topic.name, topic.topic_id, topic.partitions.len());
            for partition in &topic.partitions {
                writer.partition(out, &partition.head, partition.records.map(<[u8]>::len));
                out.extend_from_slice(partition.records.unwrap_or_default());
                writer.end_partition(out, &partition.head);
            }
            writer.end_topic(out);
        }
        writer.end(out, &self.node_endpoints);
    }

    /// Decode a response body.
    pub fn decode(body: &'a [u8], version: impl Into<WireVersion>) -> Result<Self, DecodeError> {
        let wire = version.into();
        wire.check(VERSIONS, INTER_BROKER_BY_NAME..=INTER_BROKER)?;
        let version = wire.number;
        let flexible = version >= FLEXIBLE;
        let by_id = version >= BY_ID;
        let mut reader = Reader::new(body);
        let throttle_time_ms = reader.i32()?;
        let (error_code, session_id) = if version >= SESSIONS {
            (reader.i16()?, reader.i32()?)
        } else {
            (0, 0)
        };
        let count = reader.array_len(
            flexible,
            if by_id {
                18
            } else if flexible {
                3
            } else {
                6
            },
        )?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            let name = if by_id { "" } else { reader.string(flexible)? };
            let topic_id = if by_id { reader.uuid()? } else { Uuid::ZERO };
            let count = reader.array_len(flexible, 24)?;
            let mut partitions = Vec::with_capacity(count);
            for _ in 0..count {
                partitions.push(read_partition(&mut reader, wire)?);
            }
            reader.skip_tags(flexible)?;
            topics.push(FetchableTopicResponse {
                name,
                topic_id,
                partitions,
            });
        }
        let mut node_endpoints = Vec::new();
        if flexible {
            reader.tags(|tag, value| {
                let known = match is_inline(wire) {
                    true => tag == ENDPOINTS_TAG,
                    false => tag == 0 && version >= 16,
                };
                if known {
                    node_endpoints = read_endpoints(value)?;
                }
                Ok(known)
            })?;
        }
        reader.finish()?;
        Ok(FetchResponse {
            throttle_time_ms,
            error_code,
            session_id,
            topics,
            node_endpoints,
        })
    }
}

fn read_partition<'a>(
    reader: &mut Reader<'a>,
    wire: WireVersion,
) -> Result<FetchPartitionResponse<'a>, DecodeError> {
    let version = wire.number;
    let flexible = version >= FLEXIBLE;
    let mut head = FetchPartitionHead::refused(reader.i32()?, reader.i16()?);
    head.high_watermark = reader.i64()?;
    head.last_stable_offset = reader.i64()?;
    if version >= 5 {
        head.log_start_offset = reader.i64()?;
    }
    let inline = is_inline(wire);
    if inline {
        read_inline(reader, &mut head)?;
    }
    if let Some(count) = reader.nullable_array(flexible, 16)? {
        let mut transactions = Vec::with_capacity(count);
        for _ in 0..count {
            transactions.push(AbortedTransaction {
                producer_id: reader.i64()?,
                first_offset: reader.i64()?,
            });
            reader.skip_tags(flexible)?;
        }
        head.aborted_transactions = Some(transactions);
    }
    if version >= 11 {
        head.preferred_read_replica = reader.i32()?;
    }
    let records = reader.nullable_bytes(flexible)?;
    if flexible {
        reader.tags(|tag, value| match tag {
            ATTACH_TAG if wire.is_inter_broker() => {
                head.attach = Some(Box::new(StagedAttach {
                    directory: value.string(true)?.to_owned(),
                    plan: value.i64()?,
                    base_offset: value.i64()?,
                    end_offset: value.i64()?,
                    leader_epoch: value.i32()?,
                    append_time: value.i64()?,
                }));
                value.skip_tags(true).map(|()| true)
            }
            SNAPSHOT_TAG if inline => read_snapshot(value, &mut head),
            _ if inline => Ok(false),
            0 => {
                head.diverging_epoch = Some(EpochEndOffset {
                    epoch: value.i32()?,
                    end_offset: value.i64()?,
                });
                value.skip_tags(true).map(|()| true)
            }
            1 => {
                head.current_leader = Some(LeaderIdAndEpoch::read(value)?);
                Ok(true)
            }
            2 => read_snapshot(value, &mut head),
            _ => Ok(false),
        })?;
    }
    Ok(FetchPartitionResponse { head, records })
}

fn read_snapshot(
    value: &mut Reader<'_>,
    head: &mut FetchPartitionHead,
) -> Result<bool, DecodeError> {
    let end_offset = value.i64()?;
    head.snapshot_id = Some(EpochEndOffset {
        end_offset,
        epoch: value.i32()?,
    });
    value.skip_tags(true).map(|()| true)
}

/// Return whether the version has the layout of the KIP-516 text, which has no tagged fields except pybroker's own.
const fn is_inline(wire: WireVersion) -> bool {
    wire.is_inter_broker() && wire.number >= INTER_BROKER
}

/// Write the tagged fields of released Kafka as ordinary structs. A struct whose fields are all −1 means that there is
/// none.
fn write_inline(writer: &mut Writer<'_>, head: &FetchPartitionHead) {
    let diverging = head.diverging_epoch.unwrap_or(EpochEndOffset {
        epoch: -1,
        end_offset: -1,
    });
    writer.i32(diverging.epoch);
    writer.i64(diverging.end_offset);
    writer.no_tags();
    let none = LeaderIdAndEpoch {
        leader_id: -1,
        leader_epoch: -1,
    };
    head.current_leader.unwrap_or(none).write(writer);
}

fn read_inline(reader: &mut Reader<'_>, head: &mut FetchPartitionHead) -> Result<(), DecodeError> {
    let (epoch, end_offset) = (reader.i32()?, reader.i64()?);
    reader.skip_tags(true)?;
    head.diverging_epoch =
        ((epoch, end_offset) != (-1, -1)).then_some(EpochEndOffset { epoch, end_offset });
    let leader = LeaderIdAndEpoch::read(reader)?;
    head.current_leader = ((leader.leader_id, leader.leader_epoch) != (-1, -1)).then_some(leader);
    Ok(())
}
