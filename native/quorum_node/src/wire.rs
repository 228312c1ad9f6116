//! Messages of the quorum as Kafka requests and responses. `protocol/schema/interbroker` has the layouts. Version 0 of
//! Vote, BeginQuorumEpoch and EndQuorumEpoch and version 13 of Fetch are from the text of KIP-516; version 1 of the
//! first three, FetchSnapshot and the tagged fields of Fetch are pybroker's. This module encodes bodies only; the owner
//! adds the headers and manages the connections.

mod common;
mod epochs;
mod fetch;
mod fetch_snapshot;
#[cfg(test)]
mod tests;
mod vote;

use bytes::Bytes;
use pybroker_metadata_log::Endpoint;
use pybroker_protocol::primitives::{Reader, Writer};
use pybroker_quorum::{Ask, Request, Response};

use common::malformed;
pub use common::{
    Api, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, FETCH, FETCH_SNAPSHOT, VOTE, WireError,
};
pub(crate) use common::{Incoming, Payload, Reply, ReplyTo, Sender, SnapshotPart, api_of};

/// Encode a request. `position` is the position in the snapshot, for FetchSnapshot.
pub(crate) fn encode_request(request: &Request, sender: &Sender, position: i64) -> Bytes {
    let mut body = Vec::with_capacity(128);
    let out = &mut Writer::new(&mut body, true);
    match &request.ask {
        Ask::Vote {
            voter,
            last,
            pre_vote,
        } => vote::encode_request(out, request, sender, *voter, *last, *pre_vote),
        Ask::BeginQuorumEpoch => epochs::encode_request(out, request, sender, None),
        Ask::EndQuorumEpoch {
            preferred_successors,
        } => epochs::encode_request(out, request, sender, Some(preferred_successors)),
        Ask::Fetch {
            from,
            high_watermark,
            wait_ms,
        } => fetch::encode_request(out, request, sender, *from, *high_watermark, *wait_ms),
        Ask::FetchSnapshot { id } => {
            fetch_snapshot::encode_request(out, request, sender, *id, position);
        }
    }
    body.into()
}

/// Decode a request.
pub(crate) fn decode_request(api: Api, body: &[u8], own: &Sender) -> Result<Incoming, WireError> {
    let reader = &mut Reader::new(body);
    let decoded = match (api.key, api.version) {
        (VOTE, 0 | 1) => vote::decode_request(reader, api, own),
        (BEGIN_QUORUM_EPOCH | END_QUORUM_EPOCH, 0 | 1) => epochs::decode_request(reader, api, own),
        (FETCH, 13) => fetch::decode_request(reader, api, own),
        (FETCH_SNAPSHOT, 1) => fetch_snapshot::decode_request(reader, api, own),
        _ => return Err(WireError::Unsupported(api.key, api.version)),
    };
    decoded
        .and_then(|incoming| reader.finish().map(|()| incoming))
        .map_err(|error| WireError::Malformed(api.key, error))
}

/// Encode the response to a request.
pub(crate) fn encode_response(
    response: &Response<Bytes>,
    to: &ReplyTo,
    payload: &Payload,
    endpoints: &[Endpoint],
) -> Bytes {
    let mut body = Vec::with_capacity(64 + payload.bytes.len());
    let flexible = !(to.api.version == 0 && to.api.key != VOTE);
    let out = &mut Writer::new(&mut body, flexible);
    match to.api.key {
        VOTE => vote::encode_response(out, response, to, endpoints),
        FETCH => fetch::encode_response(out, response, to, payload, endpoints),
        FETCH_SNAPSHOT => fetch_snapshot::encode_response(out, response, to, payload, endpoints),
        _ => epochs::encode_response(out, response, to, endpoints),
    }
    body.into()
}

/// Decode the response to a request. `api` is the key and version of that request.
pub(crate) fn decode_response(api: Api, body: &Bytes) -> Result<Reply, WireError> {
    let reader = &mut Reader::new(body);
    let reply = match api.key {
        VOTE => vote::decode_response(reader, api),
        BEGIN_QUORUM_EPOCH | END_QUORUM_EPOCH => epochs::decode_response(reader, api),
        FETCH => fetch::decode_response(reader, body),
        FETCH_SNAPSHOT => fetch_snapshot::decode_response(reader, body),
        _ => return Err(WireError::Unsupported(api.key, api.version)),
    }?;
    reader.finish().map_err(malformed(api.key))?;
    Ok(reply)
}
