//! BeginQuorumEpoch and EndQuorumEpoch. Version 0 is from the text of KIP-516; version 1 adds the leader's directory id
//! and addresses.

use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, ReplicaKey, Request, Response};

use super::common::{
    Api, BEGIN_QUORUM_EPOCH, Incoming, PartitionOutcome, Reply, ReplyTo, Sender, WireError,
    cluster_key, malformed, read_node_endpoints, read_partition, write_node_endpoints,
    write_outcome, write_partition,
};

/// Encode a request. Only EndQuorumEpoch uses `successors`.
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
    write_partition(out, request.topic_id);
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
    let topic_id = read_partition(reader, newer)?;
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
        reply: ReplyTo::new(api, topic_id),
        endpoints,
    })
}

pub(super) fn encode_response<D>(
    out: &mut Writer<'_>,
    response: &Response<D>,
    to: &ReplyTo,
    endpoints: &[Endpoint],
) {
    write_outcome(out, response, to);
    out.no_tags();
    out.no_tags();
    write_node_endpoints(out, to.api.version, endpoints);
}

pub(super) fn decode_response(reader: &mut Reader<'_>, api: Api) -> Result<Reply, WireError> {
    let newer = api.version > 0;
    let mut read = || {
        let outcome = PartitionOutcome::read(reader, newer)?;
        reader.skip_tags(newer)?;
        reader.skip_tags(newer)?;
        let endpoints = match newer {
            true => read_node_endpoints(reader)?,
            false => Vec::new(),
        };
        Ok((outcome, endpoints))
    };
    let (outcome, endpoints) = read().map_err(malformed(api.key))?;
    outcome.reply(Answer::Empty, endpoints)
}
