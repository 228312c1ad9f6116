//! BeginQuorumEpoch and EndQuorumEpoch. Version 0 is from the text of KIP-516; version 1 adds the leader's directory id
//! and addresses.

use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, ReplicaKey, Request, Response};

use super::common::{
    Api, BEGIN_QUORUM_EPOCH, Incoming, PARTITION, Reply, ReplyTo, Sender, WireError, cluster_key,
    codes, error_of, malformed, one, read_node_endpoints, write_node_endpoints,
};

/// Encode a request. `successors` is used by EndQuorumEpoch only.
pub(super) fn encode_request(
    out: &mut Writer<'_>,
    request: &Request,
    sender: &Sender,
    successors: Option<&[i32]>,
) {
    out.nullable_string(Some(&sender.cluster_id));
    if successors.is_none() {
        out.i32(-1);
    }
    out.array_len(1);
    out.uuid(request.topic_id);
    out.array_len(1);
    out.i32(PARTITION);
    if successors.is_none() {
        out.uuid(Uuid::ZERO);
    }
    out.i32(request.sender.id);
    out.uuid(request.sender.directory);
    out.i32(request.epoch);
    if let Some(successors) = successors {
        out.i32_array(successors);
    }
    out.no_tags();
    out.no_tags();
    out.array_len(sender.endpoints.len());
    for endpoint in &sender.endpoints {
        out.string(&endpoint.listener);
        out.string(&endpoint.host);
        out.i16(endpoint.port.cast_signed());
        out.no_tags();
    }
    out.no_tags();
}

pub(super) fn decode_request(
    reader: &mut Reader<'_>,
    api: Api,
    own: &Sender,
) -> Result<Incoming, DecodeError> {
    let (begins, newer) = (api.key == BEGIN_QUORUM_EPOCH, api.version > 0);
    let cluster_id = cluster_key(reader.nullable_string(newer)?, own);
    if begins && newer {
        reader.i32()?;
    }
    one(reader, newer)?;
    let topic_id = reader.uuid()?;
    one(reader, newer)?;
    reader.i32()?;
    if begins && newer {
        reader.uuid()?;
    }
    let id = reader.i32()?;
    let directory = if newer { reader.uuid()? } else { Uuid::ZERO };
    let epoch = reader.i32()?;
    let mut preferred_successors = Vec::new();
    if !begins {
        for _ in 0..reader.array_len(newer, 4)? {
            preferred_successors.push(reader.i32()?);
        }
    }
    reader.skip_tags(newer)?;
    reader.skip_tags(newer)?;
    let mut endpoints = Vec::new();
    if newer {
        for _ in 0..reader.array_len(true, 5)? {
            endpoints.push(Endpoint {
                node: id,
                listener: reader.string(true)?.to_owned(),
                host: reader.string(true)?.to_owned(),
                port: reader.u16()?,
            });
            reader.skip_tags(true)?;
        }
        reader.skip_tags(true)?;
    }
    let ask = match begins {
        true => Ask::BeginQuorumEpoch,
        false => Ask::EndQuorumEpoch {
            preferred_successors,
        },
    };
    Ok(Incoming {
        request: Request {
            cluster_id,
            topic_id,
            epoch,
            sender: ReplicaKey { id, directory },
            ask,
        },
        reply: ReplyTo {
            api,
            topic_id,
            bytes_max: 0,
            snapshot: EpochEnd::default(),
            position: 0,
        },
        endpoints,
    })
}

pub(super) fn encode_response<D>(
    out: &mut Writer<'_>,
    response: &Response<D>,
    to: &ReplyTo,
    endpoints: &[Endpoint],
) {
    let (error, partition_error) = codes(response.error);
    out.i16(error);
    out.array_len(1);
    out.uuid(to.topic_id);
    out.array_len(1);
    out.i32(PARTITION);
    out.i16(partition_error);
    out.i32(response.leader.unwrap_or(-1));
    out.i32(response.epoch);
    out.no_tags();
    out.no_tags();
    write_node_endpoints(out, to.api.version, endpoints);
}

pub(super) fn decode_response(reader: &mut Reader<'_>, api: Api) -> Result<Reply, WireError> {
    let newer = api.version > 0;
    let mut read = || {
        let error = reader.i16()?;
        one(reader, newer)?;
        reader.uuid()?;
        one(reader, newer)?;
        reader.i32()?;
        let partition_error = reader.i16()?;
        let (leader, epoch) = (reader.i32()?, reader.i32()?);
        reader.skip_tags(newer)?;
        reader.skip_tags(newer)?;
        let endpoints = match newer {
            true => read_node_endpoints(reader)?,
            false => Vec::new(),
        };
        Ok((error, partition_error, leader, epoch, endpoints))
    };
    let (error, partition_error, leader, epoch, endpoints) = read().map_err(malformed(api.key))?;
    let response = Response {
        error: error_of(error, partition_error)?,
        epoch,
        leader: (leader >= 0).then_some(leader),
        answer: Answer::Empty,
    };
    Ok(Reply {
        response,
        endpoints,
        part: None,
    })
}
