//! Control records, in Kafka's layout. All of them use version 0, as in Kafka; additional fields are tagged fields of
//! pybroker.
//!
//! | type | record | pybroker's fields |
//! |---|---|---|
//! | 2 | LeaderChangeMessage | tag 10000: the leader's directory id |
//! | 3, 4 | SnapshotHeaderRecord, SnapshotFooterRecord | tag 10000 of the header: offset of the topic id's record |
//! | 5 | KRaftVersionRecord, always 1 | tag 10000: the topic id of the metadata topic |
//! | 6 | VotersRecord | |

use pybroker_model::{BatchBuilder, Codec, RecordRef, Uuid};
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{ReplicaKey, VoterSet};

use crate::error::LogError;

const LEADER_CHANGE: i16 = 2;
const SNAPSHOT_HEADER: i16 = 3;
const SNAPSHOT_FOOTER: i16 = 4;
const KRAFT_VERSION: i16 = 5;
const KRAFT_VOTERS: i16 = 6;

/// Tag of pybroker's fields; lower tags are left for Kafka.
const TAG: u32 = 10_000;
/// The value of Kafka's `kraft.version` for dynamic voters (KIP-853).
const DYNAMIC_VOTERS: i16 = 1;

/// An address of a voter's controller listener.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Endpoint {
    /// Node id.
    pub node: i32,
    /// Name of the listener.
    pub listener: String,
    /// Host.
    pub host: String,
    /// Port.
    pub port: u16,
}

/// Data for control records that the state machine does not supply.
#[derive(Debug, Clone, Copy)]
pub struct EncodeContext<'a> {
    /// Milliseconds since 1970.
    pub timestamp_ms: i64,
    /// The voters as of the end of the log.
    pub voters: &'a VoterSet,
    /// Known addresses of voters.
    pub endpoints: &'a [Endpoint],
}

/// A control record.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Control {
    LeaderChange(ReplicaKey),
    SnapshotHeader {
        last_timestamp_ms: i64,
        /// Offset of the topic id's record, if it is below the snapshot's end.
        topic_id_offset: Option<i64>,
    },
    SnapshotFooter,
    /// [`Uuid::METADATA`] if the topic has no id yet.
    TopicId(Uuid),
    Voters(VoterSet, Vec<Endpoint>),
}

impl Control {
    /// Add the record to a control batch.
    pub(crate) fn push_to(&self, batch: &mut BatchBuilder, context: &EncodeContext<'_>) {
        let (kind, value) = self.encode(context);
        let mut key = [0; 4];
        key[2..].copy_from_slice(&kind.to_be_bytes());
        batch.push(context.timestamp_ms, Some(&key), Some(&value));
    }

    fn encode(&self, context: &EncodeContext<'_>) -> (i16, Vec<u8>) {
        let mut value = Vec::new();
        let mut out = Writer::new(&mut value, true);
        out.i16(0);
        let kind = match self {
            Self::LeaderChange(leader) => {
                out.i32(leader.id);
                let voters: Vec<i32> = context.voters.iter().map(|voter| voter.id).collect();
                for ids in [&voters[..], &[leader.id]] {
                    out.array_len(ids.len());
                    for &id in ids {
                        out.i32(id);
                        out.no_tags();
                    }
                }
                out.tag_count(1);
                out.tag(TAG, |out| out.uuid(leader.directory));
                LEADER_CHANGE
            }
            Self::SnapshotHeader {
                last_timestamp_ms,
                topic_id_offset,
            } => {
                out.i64(*last_timestamp_ms);
                out.tag_count(u32::from(topic_id_offset.is_some()));
                if let Some(offset) = *topic_id_offset {
                    out.tag(TAG, |out| out.i64(offset));
                }
                SNAPSHOT_HEADER
            }
            Self::SnapshotFooter => {
                out.no_tags();
                SNAPSHOT_FOOTER
            }
            Self::TopicId(id) => {
                out.i16(DYNAMIC_VOTERS);
                out.tag_count(u32::from(*id != Uuid::METADATA));
                if *id != Uuid::METADATA {
                    out.tag(TAG, |out| out.uuid(*id));
                }
                KRAFT_VERSION
            }
            Self::Voters(voters, endpoints) => {
                encode_voters(&mut out, voters, endpoints);
                KRAFT_VOTERS
            }
        };
        (kind, value)
    }

    /// Decode a record of a control batch.
    ///
    /// # Errors
    /// If the type is unknown, or the bytes are not a record of that type.
    pub(crate) fn decode(record: &RecordRef<'_>) -> Result<Self, LogError> {
        let kind = record.key.and_then(|key| key.get(2..4));
        let kind = kind.map_or(-1, |bytes| i16::from_be_bytes([bytes[0], bytes[1]]));
        let value = record.value.unwrap_or_default();
        let decoded = match kind {
            LEADER_CHANGE => decode_leader_change(value),
            SNAPSHOT_HEADER => decode_header(value),
            SNAPSHOT_FOOTER => Ok(Self::SnapshotFooter),
            KRAFT_VERSION => decode_topic_id(value),
            KRAFT_VOTERS => decode_voters(value),
            _ => {
                return Err(LogError::Batch(format!(
                    "control record of type {kind}, which this version does not know"
                )));
            }
        };
        decoded.map_err(|error| LogError::Batch(format!("control record of type {kind}: {error}")))
    }
}

fn encode_voters(out: &mut Writer<'_>, voters: &VoterSet, endpoints: &[Endpoint]) {
    out.array_len(voters.len());
    for voter in voters.iter() {
        out.i32(voter.id);
        out.uuid(voter.directory);
        let own = || {
            endpoints
                .iter()
                .filter(|endpoint| endpoint.node == voter.id)
        };
        out.array_len(own().count());
        for endpoint in own() {
            out.string(&endpoint.listener);
            out.string(&endpoint.host);
            out.i16(endpoint.port.cast_signed());
            out.no_tags();
        }
        // The range of `kraft.version` that the voter supports.
        out.i16(0);
        out.i16(DYNAMIC_VOTERS);
        out.no_tags();
        out.no_tags();
    }
    out.no_tags();
}

fn decode_leader_change(value: &[u8]) -> Result<Control, DecodeError> {
    let mut reader = Reader::new(value);
    reader.i16()?;
    let id = reader.i32()?;
    for _ in 0..2 {
        for _ in 0..reader.array_len(true, 5)? {
            reader.i32()?;
            reader.skip_tags(true)?;
        }
    }
    let mut directory = Uuid::ZERO;
    reader.tags(|tag, value| {
        if tag == TAG {
            directory = value.uuid()?;
        }
        Ok(tag == TAG)
    })?;
    reader.finish()?;
    Ok(Control::LeaderChange(ReplicaKey { id, directory }))
}

fn decode_header(value: &[u8]) -> Result<Control, DecodeError> {
    let mut reader = Reader::new(value);
    reader.i16()?;
    let last_timestamp_ms = reader.i64()?;
    let mut topic_id_offset = None;
    reader.tags(|tag, value| {
        if tag == TAG {
            topic_id_offset = Some(value.i64()?);
        }
        Ok(tag == TAG)
    })?;
    reader.finish()?;
    Ok(Control::SnapshotHeader {
        last_timestamp_ms,
        topic_id_offset,
    })
}

fn decode_topic_id(value: &[u8]) -> Result<Control, DecodeError> {
    let mut reader = Reader::new(value);
    reader.i16()?;
    reader.i16()?;
    let mut id = Uuid::METADATA;
    reader.tags(|tag, value| {
        if tag == TAG {
            id = value.uuid()?;
        }
        Ok(tag == TAG)
    })?;
    reader.finish()?;
    Ok(Control::TopicId(id))
}

fn decode_voters(value: &[u8]) -> Result<Control, DecodeError> {
    let mut reader = Reader::new(value);
    reader.i16()?;
    let (mut keys, mut endpoints) = (Vec::new(), Vec::new());
    for _ in 0..reader.array_len(true, 27)? {
        let (id, directory) = (reader.i32()?, reader.uuid()?);
        keys.push(ReplicaKey { id, directory });
        for _ in 0..reader.array_len(true, 5)? {
            endpoints.push(Endpoint {
                node: id,
                listener: reader.string(true)?.to_owned(),
                host: reader.string(true)?.to_owned(),
                port: reader.u16()?,
            });
            reader.skip_tags(true)?;
        }
        reader.i16()?;
        reader.i16()?;
        reader.skip_tags(true)?;
        reader.skip_tags(true)?;
    }
    reader.skip_tags(true)?;
    reader.finish()?;
    Ok(Control::Voters(VoterSet::new(keys), endpoints))
}

/// Return a control batch that the caller must finish.
pub(crate) fn control_batch() -> BatchBuilder {
    BatchBuilder::new(Codec::None).control()
}
