//! OffsetForLeaderEpoch, versions 0–4, by name in all of them; among brokers version 4, by topic id.
//!
//! Returns where an epoch ends in the leader's log. Clients and followers use it to find where their log diverges from
//! the leader's (KIP-320). For an epoch below the log's first epoch, the leader returns the first epoch and the log
//! start offset. So a client that read a deleted topic of the same name resets to the start of the new topic's log.

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartitionResponse, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};

use super::Call;
use super::each_partition::{answer_each, naming, refusals};
use crate::authorizer::Operation;
use crate::clients::close_reason::CloseReason;
use crate::error_codes::of_partition;
use crate::net::reply::ReplyFrame;

/// Answer the request; `errors` gets the error codes in the answer.
pub(crate) fn run(
    call: &Call<'_>,
    body: &[u8],
    out: &mut Vec<u8>,
    errors: &mut Vec<i16>,
) -> Result<(), CloseReason> {
    let request = OffsetForLeaderEpochRequest::decode(body, call.wire_version())
        .map_err(|error| call.bad_request(error))?;
    // A client with CLUSTER_ACTION may ask about any topic, a consumer about topics that it may describe (KIP-320).
    let refused = if call.access().permits_on_cluster(Operation::CLUSTER_ACTION) {
        vec![None; request.topics.len()]
    } else {
        refusals(call, &request.topics)
    };
    for topic in &request.topics {
        if let Some(name) = topic.topic.name() {
            call.connection.compares_epochs(name);
        }
    }
    let topics = answer_each(
        call.shared,
        &request.topics,
        &refused,
        |wanted| wanted.partition,
        |topic, wanted, partition| {
            let end = partition.and_then(|partition| {
                partition
                    .end_offset_for_epoch(wanted.leader_epoch, wanted.current_leader_epoch)
                    .map_err(|error| of_partition(&error, naming(topic)))
            });
            let (error, leader_epoch, end_offset) = match end {
                Ok(end) => (ErrorCode::NONE, end.leader_epoch, end.end_offset),
                Err(error) => (error, -1, -1),
            };
            errors.extend((error != ErrorCode::NONE).then_some(error.0));
            EpochPartitionResponse {
                error_code: error.0,
                partition: wanted.partition,
                leader_epoch,
                end_offset,
            }
        },
    );
    let response = OffsetForLeaderEpochResponse {
        throttle_time_ms: call.throttle_time_ms,
        topics,
    };
    let frame = ReplyFrame::begin(out, call.reply);
    response.encode(call.wire_version(), out);
    frame.end(out);
    Ok(())
}
