//! Vote. Version 0 is from the text of KIP-516; version 1 adds pre-votes and directory ids.

use pybroker_metadata_log::Endpoint;
use pybroker_model::Uuid;
use pybroker_protocol::primitives::{DecodeError, Reader, Writer};
use pybroker_quorum::{Answer, Ask, EpochEnd, ReplicaKey, Request, Response};

use super::common::{
    Api, Incoming, PARTITION, Reply, ReplyTo, Sender, VOTE, WireError, cluster_key, codes,
    error_of, malformed, one, read_node_endpoints, write_node_endpoints,
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
    out.array_len(1);
    out.uuid(request.topic_id);
    out.array_len(1);
    out.i32(PARTITION);
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
    one(reader, true)?;
    let topic_id = reader.uuid()?;
    one(reader, true)?;
    reader.i32()?;
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
        reply: ReplyTo {
            api,
            topic_id,
            bytes_max: 0,
            snapshot: EpochEnd::default(),
            position: 0,
        },
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
    let (error, partition_error) = codes(response.error);
    out.i16(error);
    out.array_len(1);
    out.uuid(to.topic_id);
    out.array_len(1);
    out.i32(PARTITION);
    out.i16(partition_error);
    out.i32(response.leader.unwrap_or(-1));
    out.i32(response.epoch);
    out.bool(matches!(response.answer, Answer::Vote { granted: true }));
    out.no_tags();
    out.no_tags();
    write_node_endpoints(out, to.api.version, endpoints);
}

pub(super) fn decode_response(reader: &mut Reader<'_>, _: Api) -> Result<Reply, WireError> {
    let mut read = || {
        let error = reader.i16()?;
        one(reader, true)?;
        reader.uuid()?;
        one(reader, true)?;
        reader.i32()?;
        let partition_error = reader.i16()?;
        let (leader, epoch) = (reader.i32()?, reader.i32()?);
        let granted = reader.bool()?;
        reader.skip_tags(true)?;
        reader.skip_tags(true)?;
        let endpoints = read_node_endpoints(reader)?;
        Ok((error, partition_error, leader, epoch, granted, endpoints))
    };
    let (error, partition_error, leader, epoch, granted, endpoints) =
        read().map_err(malformed(VOTE))?;
    let response = Response {
        error: error_of(error, partition_error)?,
        epoch,
        leader: (leader >= 0).then_some(leader),
        answer: Answer::Vote { granted },
    };
    Ok(Reply {
        response,
        endpoints,
        part: None,
    })
}
