//! Requests with many elements, which a pool answers: on the data thread they would delay its other connections. Both
//! threads run the same handlers.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::ApiKey;
use pybroker_protocol::primitives::DecodeError;

use super::pool_answer::PendingPoolAnswer;
use super::to_control_plane::PendingControl;
use super::{Answer, Call, k02_list_offsets, k03_metadata, k23_offset_for_leader_epoch};
use crate::blocking::cold_reads::PoolAnswer;
use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::limits::LARGE_REQUEST_BYTES;
use crate::metrics::Moments;
use crate::net::reply::ReplyHeader;
use crate::shared::{ServerState, ThreadState};

/// Return whether a pool should answer the request. Requests of brokers stay on the data thread, so that they never
/// wait for requests of clients.
#[inline]
pub(crate) fn is_large(call: &Call<'_>, key: ApiKey, body: &[u8]) -> bool {
    body.len() > LARGE_REQUEST_BYTES
        && !call.is_brokers()
        && matches!(
            key,
            ApiKey::ListOffsets | ApiKey::Metadata | ApiKey::OffsetForLeaderEpoch
        )
}

/// A request that the pool processes.
pub(crate) struct PendingLarge {
    pub(crate) answer: PoolAnswer<LargeResult>,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
    /// Memory held while waiting, in bytes.
    pub(crate) bytes: usize,
}

/// Result of the pool.
pub(crate) struct LargeResult {
    pub(crate) outcome: Result<Outcome, CloseReason>,
    /// Error codes in the reply, for the metrics.
    pub(crate) errors: Vec<i16>,
    /// The connection's cached state.
    pub(crate) connection: ConnectionInfo,
}

/// Outcome of a request.
pub(crate) enum Outcome {
    /// The request is answered: the whole reply frame.
    Reply(Vec<u8>),
    /// The request waits for files or flushes.
    Pool(Box<PendingPoolAnswer>),
    /// The control plane processes the request.
    Control(Box<PendingControl>),
}

/// A call that owns its data.
struct OwnedCall {
    shared: Arc<ServerState>,
    connection: ConnectionInfo,
    client_id: Option<Box<str>>,
    api_key: i16,
    version: i16,
    reply: ReplyHeader,
    received: Instant,
    began: Instant,
    now_ms: i64,
    throttle_time_ms: i32,
    auto_create_topics: bool,
    body: Box<[u8]>,
}

/// Submit the request to the pool. It borrows the connection's cached state, which no other request of the connection
/// uses in the meantime.
pub(crate) fn submit(call: &Call<'_>, thread: &ThreadState, body: &[u8]) -> Box<PendingLarge> {
    let own = OwnedCall {
        shared: Arc::clone(call.shared),
        connection: call.connection.lend(),
        client_id: call.client_id.map(Box::from),
        api_key: call.api_key,
        version: call.version,
        reply: call.reply,
        received: call.received,
        began: call.began,
        now_ms: call.now_ms,
        throttle_time_ms: call.throttle_time_ms,
        auto_create_topics: thread.settings.auto_create_topics,
        body: Box::from(body),
    };
    Box::new(PendingLarge {
        answer: call.shared.large_requests.run(move || Some(own.answer())),
        api_key: call.api_key,
        version: call.version,
        moments: call.moments(),
        bytes: body.len(),
    })
}

impl OwnedCall {
    fn answer(self) -> LargeResult {
        let began = Instant::now();
        let mut errors = Vec::new();
        let call = Call {
            shared: &self.shared,
            connection: &self.connection,
            api_key: self.api_key,
            version: self.version,
            reply: self.reply,
            client_id: self.client_id.as_deref(),
            received: self.received,
            began: self.began,
            now_ms: self.now_ms,
            throttle_time_ms: self.throttle_time_ms,
        };
        let mut outcome = run(&call, self.auto_create_topics, &self.body, &mut errors);
        if let Err(CloseReason::BadRequest {
            error: DecodeError::NotUtf8,
            ..
        }) = outcome
            && let Some(mended) = call.with_replaced_text(&self.body)
        {
            outcome = run(&call, self.auto_create_topics, &mended, &mut errors);
        }
        self.connection.quotas.worked(began, Instant::now());
        LargeResult {
            outcome,
            errors,
            connection: self.connection,
        }
    }
}

fn run(
    call: &Call<'_>,
    auto_create_topics: bool,
    body: &[u8],
    errors: &mut Vec<i16>,
) -> Result<Outcome, CloseReason> {
    let mut out = Vec::new();
    match ApiKey::from_code(call.api_key) {
        Some(ApiKey::ListOffsets) => {
            if let Answer::Later(pending) = k02_list_offsets::run(call, body, &mut out, errors)? {
                return Ok(Outcome::Pool(pending));
            }
        }
        Some(ApiKey::Metadata) => {
            let answer = k03_metadata::run(call, auto_create_topics, body, &mut out, errors)?;
            if let Answer::Later(pending) = answer {
                return Ok(Outcome::Control(pending));
            }
        }
        // `is_large` accepts no other key.
        _ => k23_offset_for_leader_epoch::run(call, body, &mut out, errors)?,
    }
    Ok(Outcome::Reply(out))
}
