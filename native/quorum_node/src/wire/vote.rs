//! Vote. Version 0 is from the text of KIP-516; version 1 adds pre-votes and directory ids.

use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, ReplicaKey, Request, Response};

use super::common::{
    Api, Incoming, PartitionOutcome, Reply, ReplyTo, Sender, VOTE, WireError, cluster_key,
    malformed, read_node_endpoints, read_partition, write_node_endpoints, write_outcome,
    write_partition,
};

pub(super) fn encode_request(
    out: &mut Writer<'_>,
    request: &Request,
    sender: &Sender,
    voter: Option<ReplicaKey>,
    last: EpochEnd,
    pre_vote: bool,
) {
    out.nullable_string(Some(&sender.cluster_id));
    out.i32(voter.map_or(-1, |voter| voter.id));
    write_partition(out, request.topic_id);
    out.i32(request.epoch);
    out.i32(request.sender.id);
    out.uuid(request.sender.directory);
    out.uuid(voter.map_or(Uuid::ZERO, |voter| voter.directory));
    out.i32(last.epoch);
    out.i64(last.offset);
    out.bool(pre_vote);
    (0..3).for_each(|_| out.no_tags());
}

pub(super) fn decode_request(
    reader: &mut Reader<'_>,
    api: Api,
    own: &Sender,
) -> Result<Incoming, DecodeError> {
    let newer = api.version > 0;
    let cluster_id = cluster_key(reader.nullable_string(true)?, own);
    let voter_id = if newer { reader.i32()? } else { -1 };
    let topic_id = read_partition(reader, true)?;
    let (epoch, id) = (reader.i32()?, reader.i32()?);
    let directory = if newer { reader.uuid()? } else { Uuid::ZERO };
    let voter_directory = if newer { reader.uuid()? } else { Uuid::ZERO };
    let last = EpochEnd {
        epoch: reader.i32()?,
        offset: reader.i64()?,
    };
    let pre_vote = newer && reader.bool()?;
    for _ in 0..3 {
        reader.skip_tags(true)?;
    }
    let voter = ReplicaKey {
        id: voter_id,
        directory: voter_directory,
    };
    let request = Request {
        cluster_id,
        topic_id,
        epoch,
        sender: ReplicaKey { id, directory },
        ask: Ask::Vote {
            voter: newer.then_some(voter),
            last,
            pre_vote,
        },
    };
    Ok(Incoming {
        reply: ReplyTo::new(api, topic_id),
        request,
        endpoints: Vec::new(),
    })
}

pub(super) fn encode_response<D>(
    out: &mut Writer<'_>,
    response: &Response<D>,
    to: &ReplyTo,
    endpoints: &[Endpoint],
) {
    write_outcome(out, response, to);
    out.bool(matches!(response.answer, Answer::Vote { granted: true }));
    out.no_tags();
    out.no_tags();
    write_node_endpoints(out, to.api.version, endpoints);
}

pub(super) fn decode_response(reader: &mut Reader<'_>, _: Api) -> Result<Reply, WireError> {
    let mut read = || {
        let outcome = PartitionOutcome::read(reader, true)?;
        let granted = reader.bool()?;
        reader.skip_tags(true)?;
        reader.skip_tags(true)?;
        let endpoints = read_node_endpoints(reader)?;
        Ok((outcome, granted, endpoints))
    };
    let (outcome, granted, endpoints) = read().map_err(malformed(VOTE))?;
    outcome.reply(Answer::Vote { granted }, endpoints)
}
