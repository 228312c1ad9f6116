//! Types and functions that all quorum messages share.

use bytes::Bytes;
use pybroker_metadata_log::{Endpoint, LogError};
use pybroker_model::Uuid;
use pybroker_protocol::ErrorCode;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, Error, Request, Response};

/// Fetch.
pub const FETCH: i16 = 1;
/// Vote.
pub const VOTE: i16 = 52;
/// BeginQuorumEpoch.
pub const BEGIN_QUORUM_EPOCH: i16 = 53;
/// EndQuorumEpoch.
pub const END_QUORUM_EPOCH: i16 = 54;
/// FetchSnapshot.
pub const FETCH_SNAPSHOT: i16 = 59;

/// The partition of the metadata topic.
const PARTITION: i32 = 0;

/// An unreadable message.
#[derive(Debug, Clone, thiserror::Error)]
pub enum WireError {
    /// The API key and version do not belong to the quorum.
    #[error("version {1} of API key {0} is not spoken in the quorum")]
    Unsupported(i16, i16),
    /// The bytes do not have the message's layout.
    #[error("malformed message of API key {0}: {1}")]
    Malformed(i16, DecodeError),
    /// A Fetch response has invalid batches.
    #[error(transparent)]
    Batches(#[from] LogError),
    /// The quorum does not know the error code.
    #[error("error code {0}")]
    Code(i16),
}

/// Key and version of a message.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Api {
    /// API key.
    pub key: i16,
    /// Version.
    pub version: i16,
}

/// Return the API key and version of a request.
pub(crate) fn api_of(ask: &Ask) -> Api {
    let (key, version) = match ask {
        Ask::Vote { .. } => (VOTE, 1),
        Ask::BeginQuorumEpoch => (BEGIN_QUORUM_EPOCH, 1),
        Ask::EndQuorumEpoch { .. } => (END_QUORUM_EPOCH, 1),
        Ask::Fetch { .. } => (FETCH, 13),
        Ask::FetchSnapshot { .. } => (FETCH_SNAPSHOT, 1),
    };
    Api { key, version }
}

/// The identity that a node sends with each request.
#[derive(Debug, Clone)]
pub(crate) struct Sender {
    pub(crate) cluster_id: String,
    /// The state machine's id of the cluster.
    pub(crate) cluster_key: Uuid,
    /// The node's own addresses.
    pub(crate) endpoints: Vec<Endpoint>,
    pub(crate) fetch_bytes_max: i32,
}

/// A received request.
#[derive(Debug)]
pub(crate) struct Incoming {
    pub(crate) request: Request,
    /// Data of the request that the response needs.
    pub(crate) reply: ReplyTo,
    /// Addresses of the sender.
    pub(crate) endpoints: Vec<Endpoint>,
}

/// Data of a request that its response needs.
#[derive(Debug, Clone, Copy)]
pub(crate) struct ReplyTo {
    pub(crate) api: Api,
    pub(crate) topic_id: Uuid,
    pub(crate) bytes_max: usize,
    /// For a FetchSnapshot: the requested snapshot, and the position in it.
    pub(crate) snapshot: EpochEnd,
    pub(crate) position: i64,
}

impl ReplyTo {
    pub(super) fn new(api: Api, topic_id: Uuid) -> Self {
        Self {
            api,
            topic_id,
            bytes_max: 0,
            snapshot: EpochEnd::default(),
            position: 0,
        }
    }
}

/// The parts of a response that do not come from the state machine.
#[derive(Debug, Clone, Default)]
pub(crate) struct Payload {
    /// For a Fetch, batches; for a FetchSnapshot, a part of the file.
    pub(crate) bytes: Bytes,
    /// For a FetchSnapshot: the size of the file.
    pub(crate) size: i64,
}

/// A received response.
#[derive(Debug)]
pub(crate) struct Reply {
    pub(crate) response: Response<Bytes>,
    /// Addresses in the response.
    pub(crate) endpoints: Vec<Endpoint>,
    /// The received part, for a FetchSnapshot without an error.
    pub(crate) part: Option<SnapshotPart>,
}

#[derive(Debug)]
pub(crate) struct SnapshotPart {
    pub(crate) id: EpochEnd,
    pub(crate) size: i64,
    pub(crate) position: i64,
    pub(crate) bytes: Bytes,
}

const CODES: &[(Error, ErrorCode)] = &[
    (Error::None, ErrorCode::NONE),
    (
        Error::InconsistentClusterId,
        ErrorCode::INCONSISTENT_CLUSTER_ID,
    ),
    (Error::UnknownTopicId, ErrorCode::UNKNOWN_TOPIC_ID),
    (Error::InvalidVoterKey, ErrorCode::INVALID_VOTER_KEY),
    (Error::FencedLeaderEpoch, ErrorCode::FENCED_LEADER_EPOCH),
    (Error::UnknownLeaderEpoch, ErrorCode::UNKNOWN_LEADER_EPOCH),
    (Error::NotLeader, ErrorCode::NOT_LEADER_OR_FOLLOWER),
    (Error::SnapshotNotFound, ErrorCode::SNAPSHOT_NOT_FOUND),
];

/// Return the error codes of the response and of the partition.
pub(super) fn codes(error: Error) -> (i16, i16) {
    let code = CODES.iter().find(|(known, _)| *known == error);
    let code = code
        .map_or(ErrorCode::UNKNOWN_SERVER_ERROR, |(_, code)| *code)
        .0;
    match error {
        Error::InconsistentClusterId => (code, 0),
        _ => (0, code),
    }
}

fn error_of(response: i16, partition: i16) -> Result<Error, WireError> {
    let code = if response == 0 { partition } else { response };
    let known = CODES.iter().find(|(_, known)| known.0 == code);
    known.map(|(error, _)| *error).ok_or(WireError::Code(code))
}

/// Convert a cluster id for the state machine. Like Kafka, accept an absent cluster id. An id other than this node's
/// matches no cluster.
pub(super) fn cluster_key(cluster_id: Option<&str>, own: &Sender) -> Uuid {
    match cluster_id {
        Some(id) if id != own.cluster_id => Uuid::ZERO,
        _ => own.cluster_key,
    }
}

/// Write the topics and partitions arrays up to the index of the metadata log's only partition.
pub(super) fn write_partition(out: &mut Writer<'_>, topic_id: Uuid) {
    out.array_len(1);
    out.uuid(topic_id);
    out.array_len(1);
    out.i32(PARTITION);
}

/// Read what `write_partition` writes; return the topic's id.
pub(super) fn read_partition(reader: &mut Reader<'_>, flexible: bool) -> Result<Uuid, DecodeError> {
    one(reader, flexible)?;
    let topic_id = reader.uuid()?;
    one(reader, flexible)?;
    reader.i32()?;
    Ok(topic_id)
}

/// Write the errors, the partition and the leader of a Vote, BeginQuorumEpoch or EndQuorumEpoch response.
pub(super) fn write_outcome<D>(out: &mut Writer<'_>, response: &Response<D>, to: &ReplyTo) {
    let (error, partition_error) = codes(response.error);
    out.i16(error);
    write_partition(out, to.topic_id);
    out.i16(partition_error);
    out.i32(response.leader.unwrap_or(-1));
    out.i32(response.epoch);
}

/// Errors, leader and epoch of a response.
pub(super) struct PartitionOutcome {
    /// The errors of the response and of the partition.
    pub(super) errors: (i16, i16),
    /// Node id and epoch of the leader.
    pub(super) leader: (i32, i32),
}

impl PartitionOutcome {
    /// Read what `write_outcome` writes.
    pub(super) fn read(reader: &mut Reader<'_>, flexible: bool) -> Result<Self, DecodeError> {
        let error = reader.i16()?;
        read_partition(reader, flexible)?;
        let errors = (error, reader.i16()?);
        let leader = (reader.i32()?, reader.i32()?);
        Ok(Self { errors, leader })
    }

    pub(super) fn error(&self) -> Result<Error, WireError> {
        error_of(self.errors.0, self.errors.1)
    }

    /// Return the response for the state machine.
    pub(super) fn reply(
        &self,
        answer: Answer<Bytes>,
        endpoints: Vec<Endpoint>,
    ) -> Result<Reply, WireError> {
        let (leader, epoch) = self.leader;
        let response = Response {
            error: self.error()?,
            epoch,
            leader: (leader >= 0).then_some(leader),
            answer,
        };
        Ok(Reply {
            response,
            endpoints,
            part: None,
        })
    }
}

/// Read an array that must have exactly one element: the topic or the partition of a quorum message.
fn one(reader: &mut Reader<'_>, flexible: bool) -> Result<(), DecodeError> {
    match reader.array_len(flexible, 1)? {
        1 => Ok(()),
        _ => Err(DecodeError::CountTooLarge),
    }
}

/// Write a section of tagged fields that contains only tag 0, the node endpoints of a response.
pub(super) fn write_node_endpoints(out: &mut Writer<'_>, version: i16, endpoints: &[Endpoint]) {
    if !out.flexible() {
        return;
    }
    if endpoints.is_empty() || version == 0 {
        return out.no_tags();
    }
    out.tag_count(1);
    out.tag(0, |out| {
        out.array_len(endpoints.len());
        for endpoint in endpoints {
            out.i32(endpoint.node);
            out.string(&endpoint.host);
            out.i16(endpoint.port.cast_signed());
            out.no_tags();
        }
    });
}

pub(super) fn read_node_endpoints(reader: &mut Reader<'_>) -> Result<Vec<Endpoint>, DecodeError> {
    let mut endpoints = Vec::new();
    reader.tags(|tag, value| {
        if tag != 0 {
            return Ok(false);
        }
        for _ in 0..value.array_len(true, 8)? {
            endpoints.push(Endpoint {
                node: value.i32()?,
                listener: String::new(),
                host: value.string(true)?.to_owned(),
                port: value.u16()?,
            });
            value.skip_tags(true)?;
        }
        Ok(true)
    })?;
    Ok(endpoints)
}

pub(super) fn malformed(key: i16) -> impl Fn(DecodeError) -> WireError {
    move |error| WireError::Malformed(key, error)
}
