//! Forwarding of requests that the data plane does not answer itself.

use bytes::Bytes;
use pybroker_protocol::ApiKey;
use tokio::sync::oneshot;

use super::Call;
use crate::control_plane::{Busy, ControlRequest, Lane, ReplySender, TimedReply};
use crate::metrics::Moments;
use crate::net::reply::ReplyHeader;

/// A request that the control plane processes.
pub(crate) struct PendingControl {
    /// The request, while the control plane's queue is full.
    pub(crate) unsent: Option<Box<ControlRequest>>,
    pub(crate) answer: oneshot::Receiver<TimedReply>,
    pub(crate) api_key: i16,
    pub(crate) api_version: i16,
    /// The request is a SASL token without Kafka header; its answer has none either.
    pub(crate) raw: bool,
    pub(crate) reply: ReplyHeader,
    /// Throttle time, in milliseconds, unless the control plane asks for a longer one.
    pub(crate) throttle_time_ms: i32,
    pub(crate) moments: Moments,
}

/// Submit the request. If the queue is full, the returned value keeps the request until there is room.
pub(crate) fn submit(call: &Call<'_>, body: &[u8]) -> Box<PendingControl> {
    let (reply, answer) = ReplySender::new();
    let request = ControlRequest {
        api_key: call.api_key,
        api_version: call.version,
        correlation_id: call.reply.correlation_id,
        client_id: call.client_id.map(Into::into),
        principal: call.connection.principal.clone(),
        sasl_authenticated: call.connection.sasl && call.connection.authenticated,
        by_token: call.connection.by_token,
        peer: call.connection.peer.clone(),
        lane: lane(call.api_key),
        body: Bytes::copy_from_slice(body),
        received_at: call.received,
        time: call.connection.quotas.request_usage(),
        reply,
    };
    let unsent = match call.shared.control.submit(request) {
        Ok(()) => None,
        Err(Busy(request)) => Some(request),
    };
    Box::new(PendingControl {
        unsent,
        answer,
        api_key: call.api_key,
        api_version: call.version,
        raw: call.connection.raw_tokens,
        reply: call.reply,
        throttle_time_ms: call.throttle_time_ms,
        moments: call.moments(),
    })
}

/// Return the queue for an API key.
pub(crate) fn lane(api_key: i16) -> Lane {
    use ApiKey::*;
    match ApiKey::from_code(api_key) {
        Some(
            LeaderAndIsr | StopReplica | UpdateMetadata | ControlledShutdown | AlterPartition
            | Fetch | Vote | BeginQuorumEpoch | EndQuorumEpoch | FetchSnapshot,
        ) => Lane::InterBroker,
        Some(
            SaslHandshake
            | SaslAuthenticate
            | Heartbeat
            | ConsumerGroupHeartbeat
            | OffsetCommit
            | OffsetFetch
            | FindCoordinator
            | JoinGroup
            | SyncGroup
            | LeaveGroup
            | InitProducerId
            | AddPartitionsToTxn
            | AddOffsetsToTxn
            | EndTxn
            | TxnOffsetCommit
            | ShareGroupHeartbeat
            | ShareFetch
            | ShareAcknowledge
            | StreamsGroupHeartbeat,
        ) => Lane::Session,
        _ => Lane::Admin,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_protocol::api_key::APIS;

    #[test]
    fn heartbeats_of_all_kinds_do_not_wait_behind_administrators() {
        let heartbeats = APIS
            .iter()
            .filter(|api| api.served && api.name().ends_with("Heartbeat"));
        let keys: Vec<i16> = heartbeats.map(|api| api.key.code()).collect();
        assert_eq!(keys.len(), 4);
        assert!(keys.iter().all(|&key| lane(key) == Lane::Session));
    }
}
