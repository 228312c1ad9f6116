//! Every request that Rust does not answer by itself.

use bytes::Bytes;
use pybroker_protocol::ApiKey;

use super::{Answer, Call};
use crate::control_plane::{Busy, ControlRequest, Lane, ReplySender};
use crate::slots::{PendingControl, Slot};

/// Hands the request over. If the control plane is busy, the slot keeps it until there is room.
pub(crate) fn submit(call: &Call<'_, '_>, body: &[u8]) -> Answer {
    let (reply, answer) = ReplySender::new();
    let request = ControlRequest {
        api_key: call.api_key,
        api_version: call.version,
        correlation_id: call.correlation_id,
        client_id: call.client_id.map(Into::into),
        principal: call.connection.principal.clone(),
        sasl_authenticated: call.connection.sasl && call.connection.authenticated,
        peer: call.connection.peer.clone(),
        lane: lane(call.api_key),
        body: Bytes::copy_from_slice(body),
        received_at: call.received,
        reply,
    };
    let unsent = match call.shared.control.submit(request) {
        Ok(()) => None,
        Err(Busy(request)) => Some(request),
    };
    Answer::Later(Slot::Control(Box::new(PendingControl {
        unsent,
        answer,
        api_key: call.api_key,
        api_version: call.version,
        raw: call.connection.expects_raw_token(),
        correlation_id: call.correlation_id,
        flexible: call.flexible,
        received: call.received,
    })))
}

/// The queue of a key (R13).
pub(crate) fn lane(api_key: i16) -> Lane {
    use ApiKey::*;
    match ApiKey::from_code(api_key) {
        Some(LeaderAndIsr | StopReplica | UpdateMetadata | ControlledShutdown | AlterPartition) => {
            Lane::InterBroker
        }
        Some(
            SaslHandshake | SaslAuthenticate | Heartbeat | OffsetCommit | OffsetFetch
            | FindCoordinator | JoinGroup | SyncGroup | LeaveGroup | InitProducerId,
        ) => Lane::Session,
        _ => Lane::Admin,
    }
}
