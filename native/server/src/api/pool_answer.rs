//! Responses that a pool of threads computes because they need file I/O.

use super::Call;
use crate::blocking::cold_reads::PoolAnswer;
use crate::metrics::{Moments, ThreadMetrics};
use crate::net::frame::OwnedFrame;
use crate::net::reply::{ReplyFrame, ReplyHeader};
use crate::quotas::throttle_time;

/// A request that waits for a pool.
pub(crate) struct PendingPoolAnswer {
    pub(crate) answer: PoolAnswer<PoolResponse>,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
    /// Memory held while waiting, in bytes.
    pub(crate) bytes: usize,
    context: ResponseContext,
}

/// The parts of a call that its response needs.
struct ResponseContext {
    api_key: i16,
    api_version: i16,
    reply: ReplyHeader,
    throttle_time_ms: i32,
}

impl ResponseContext {
    fn of(call: &Call<'_>) -> Self {
        ResponseContext {
            api_key: call.api_key,
            api_version: call.version,
            reply: call.reply,
            throttle_time_ms: call.throttle_time_ms,
        }
    }
}

/// A response body, with its error codes for the metrics.
pub(crate) struct PoolResponse {
    body: Vec<u8>,
    errors: Vec<i16>,
    /// The request frame, whose buffer is reused.
    frame: Option<OwnedFrame>,
}

impl PoolResponse {
    /// Create an answer from a response body and its error codes.
    pub(crate) fn new(body: Vec<u8>, errors: Vec<i16>) -> Self {
        PoolResponse {
            body,
            errors,
            frame: None,
        }
    }

    /// Attach the request's frame, so that its buffer can be reused.
    pub(crate) fn with_frame(self, frame: OwnedFrame) -> Self {
        PoolResponse {
            frame: Some(frame),
            ..self
        }
    }

    /// Return the attached frame.
    pub(crate) fn into_frame(self) -> Option<OwnedFrame> {
        self.frame
    }

    /// Append the reply of a call that need not wait, and its error codes.
    pub(crate) fn write_now(&self, call: &Call<'_>, out: &mut Vec<u8>, errors: &mut Vec<i16>) {
        errors.extend(&self.errors);
        self.write(&ResponseContext::of(call), out);
    }

    fn write(&self, context: &ResponseContext, out: &mut Vec<u8>) {
        let frame = ReplyFrame::begin(out, context.reply);
        let body_at = out.len();
        out.extend_from_slice(&self.body);
        if context.throttle_time_ms > 0 {
            let (key, version) = (context.api_key, context.api_version);
            throttle_time::raise(key, version, &mut out[body_at..], context.throttle_time_ms);
        }
        frame.end(out);
    }
}

impl PendingPoolAnswer {
    /// Wait for a pool's answer to `call`, which holds `bytes` bytes.
    pub(crate) fn new(call: &Call<'_>, answer: PoolAnswer<PoolResponse>, bytes: usize) -> Self {
        PendingPoolAnswer {
            answer,
            api_key: call.api_key,
            version: call.version,
            moments: call.moments(),
            bytes,
            context: ResponseContext::of(call),
        }
    }

    /// Append the reply.
    pub(crate) fn write(
        &self,
        response: &PoolResponse,
        metrics: &ThreadMetrics,
        out: &mut Vec<u8>,
    ) {
        for error in &response.errors {
            metrics.error(self.api_key, *error);
        }
        response.write(&self.context, out);
    }
}
