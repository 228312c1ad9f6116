//! FetchSnapshot 1 (KIP-630, KIP-853), with the topic's id.

use bytes::Bytes;
use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, Error, ReplicaKey, Request, Response};

use super::common::{
    Api, FETCH_SNAPSHOT, Incoming, PartitionOutcome, Payload, Reply, ReplyTo, Sender, SnapshotPart,
    WireError, cluster_key, codes, malformed, read_node_endpoints, read_partition,
    write_node_endpoints, write_partition,
};

const CLUSTER_ID_TAG: u32 = 0;
const DIRECTORY_TAG: u32 = 0;
const LEADER_TAG: u32 = 0;

pub(super) fn encode_request(
    out: &mut Writer<'_>,
    request: &Request,
    sender: &Sender,
    id: EpochEnd,
    position: i64,
) {
    out.i32(request.sender.id);
    out.i32(sender.fetch_bytes_max);
    write_partition(out, request.topic_id);
    out.i32(request.epoch);
    write_id(out, id);
    out.i64(position);
    out.tag_count(1);
    out.tag(DIRECTORY_TAG, |out| out.uuid(request.sender.directory));
    out.no_tags();
    out.tag_count(1);
    out.tag(CLUSTER_ID_TAG, |out| {
        out.nullable_string(Some(&sender.cluster_id));
    });
}

pub(super) fn decode_request(
    reader: &mut Reader<'_>,
    api: Api,
    own: &Sender,
) -> Result<Incoming, DecodeError> {
    let replica = reader.i32()?;
    let bytes_max = reader.i32()?;
    let topic_id = read_partition(reader, true)?;
    let epoch = reader.i32()?;
    let id = read_id(reader)?;
    let position = reader.i64()?;
    let mut directory = Uuid::ZERO;
    reader.tags(|tag, value| {
        if tag == DIRECTORY_TAG {
            directory = value.uuid()?;
        }
        Ok(tag == DIRECTORY_TAG)
    })?;
    reader.skip_tags(true)?;
    let mut cluster_id = own.cluster_key;
    reader.tags(|tag, value| {
        if tag == CLUSTER_ID_TAG {
            cluster_id = cluster_key(value.nullable_string(true)?, own);
        }
        Ok(tag == CLUSTER_ID_TAG)
    })?;
    Ok(Incoming {
        request: Request {
            cluster_id,
            topic_id,
            epoch,
            sender: ReplicaKey {
                id: replica,
                directory,
            },
            ask: Ask::FetchSnapshot { id },
        },
        reply: ReplyTo {
            api,
            topic_id,
            bytes_max: bytes_max.max(0) as usize,
            snapshot: id,
            position,
        },
        endpoints: Vec::new(),
    })
}

pub(super) fn encode_response<D>(
    out: &mut Writer<'_>,
    response: &Response<D>,
    to: &ReplyTo,
    payload: &Payload,
    endpoints: &[Endpoint],
) {
    let (error, partition_error) = codes(response.error);
    out.i32(0);
    out.i16(error);
    write_partition(out, to.topic_id);
    out.i16(partition_error);
    write_id(out, to.snapshot);
    out.i64(payload.size);
    out.i64(to.position);
    out.bytes(&payload.bytes);
    out.tag_count(1);
    out.tag(LEADER_TAG, |out| {
        out.i32(response.leader.unwrap_or(-1));
        out.i32(response.epoch);
        out.no_tags();
    });
    out.no_tags();
    write_node_endpoints(out, to.api.version, endpoints);
}

pub(super) fn decode_response(reader: &mut Reader<'_>, body: &Bytes) -> Result<Reply, WireError> {
    let mut read = || {
        reader.i32()?;
        let error = reader.i16()?;
        read_partition(reader, true)?;
        let errors = (error, reader.i16()?);
        let id = read_id(reader)?;
        let (size, position) = (reader.i64()?, reader.i64()?);
        let bytes = body.slice_ref(reader.bytes(true)?);
        let mut leader = (-1, -1);
        reader.tags(|tag, value| {
            if tag == LEADER_TAG {
                leader = (value.i32()?, value.i32()?);
                value.skip_tags(true)?;
            }
            Ok(tag == LEADER_TAG)
        })?;
        reader.skip_tags(true)?;
        let endpoints = read_node_endpoints(reader)?;
        let part = SnapshotPart {
            id,
            size,
            position,
            bytes,
        };
        Ok((PartitionOutcome { errors, leader }, part, endpoints))
    };
    let (outcome, part, endpoints) = read().map_err(malformed(FETCH_SNAPSHOT))?;
    let mut reply = outcome.reply(Answer::Empty, endpoints)?;
    reply.part = (reply.response.error == Error::None).then_some(part);
    Ok(reply)
}

fn write_id(out: &mut Writer<'_>, id: EpochEnd) {
    out.i64(id.offset);
    out.i32(id.epoch);
    out.no_tags();
}

fn read_id(reader: &mut Reader<'_>) -> Result<EpochEnd, DecodeError> {
    let offset = reader.i64()?;
    let epoch = reader.i32()?;
    reader.skip_tags(true)?;
    Ok(EpochEnd { epoch, offset })
}
