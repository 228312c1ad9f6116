//! OffsetForLeaderEpoch, versions 0–4, by name in all of them. Where an epoch ends in the leader's log: clients
//! find with it where their position parts from it (KIP-320). Below the first epoch: that epoch and the log
//! start, so that a client with an epoch of a deleted incarnation resets exactly to the new start.

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartitionResponse, EpochTopicResponse, OffsetForLeaderEpochRequest,
    OffsetForLeaderEpochResponse,
};

use super::Call;
use crate::authorizer::Operation;
use crate::close::CloseReason;
use crate::error_codes::{Naming, of_partition};
use crate::reply::ReplyFrame;
use crate::resolve::ResolvedTopic;
use crate::shared::ThreadState;

/// Answers the request.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &ThreadState,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CloseReason> {
    let request = OffsetForLeaderEpochRequest::decode(body, call.version)
        .map_err(|error| call.bad_request(error))?;
    let map = call.shared.replicas.snapshot();
    let view = call.shared.metadata.load();
    // Brokers ask with the right to act for the cluster, consumers with that to describe the topic (KIP-320).
    let access = call.access();
    let all = access.permits_on_cluster(Operation::CLUSTER_ACTION);
    let topics = request.topics.iter().map(|topic| {
        let permitted = all || access.permits(Operation::DESCRIBE, topic.name);
        let resolved = ResolvedTopic::by_name(&map, &view, topic.name);
        let partitions = topic.partitions.iter().map(|wanted| {
            let end = if permitted {
                resolved
                    .partition(&view, wanted.partition)
                    .and_then(|partition| {
                        partition
                            .end_offset_for_epoch(wanted.leader_epoch, wanted.current_leader_epoch)
                            .map_err(|error| of_partition(&error, Naming::Name))
                    })
            } else {
                Err(ErrorCode::TOPIC_AUTHORIZATION_FAILED)
            };
            let (error, leader_epoch, end_offset) = match end {
                Ok(end) => (ErrorCode::NONE, end.leader_epoch, end.end_offset),
                Err(error) => (error, -1, -1),
            };
            thread.metrics.error(error.0);
            EpochPartitionResponse {
                error_code: error.0,
                partition: wanted.partition,
                leader_epoch,
                end_offset,
            }
        });
        EpochTopicResponse {
            name: topic.name,
            partitions: partitions.collect(),
        }
    });
    let response = OffsetForLeaderEpochResponse {
        throttle_time_ms: 0,
        topics: topics.collect(),
    };
    let frame = ReplyFrame::begin(out, call.reply);
    response.encode(call.version, out);
    frame.end(out);
    Ok(())
}
