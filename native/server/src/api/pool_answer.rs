//! Responses that a pool of threads computes because they need file I/O.

use super::Call;
use crate::blocking::cold_reads::PoolAnswer;
use crate::metrics::{Moments, ThreadMetrics};
use crate::net::frame::OwnFrame;
use crate::net::reply::{ReplyFrame, ReplyHeader};
use crate::quotas::throttle_place;

/// A request that waits for a pool.
pub(crate) struct PendingPoolAnswer {
    pub(crate) answer: PoolAnswer<Answered>,
    pub(crate) api_key: i16,
    pub(crate) version: i16,
    pub(crate) moments: Moments,
    /// Memory held while waiting, in bytes.
    pub(crate) bytes: usize,
    told: Told,
}

/// The parts of a call that its response needs.
struct Told {
    api_key: i16,
    api_version: i16,
    reply: ReplyHeader,
    throttle_time_ms: i32,
}

impl Told {
    fn of(call: &Call<'_>) -> Self {
        Told {
            api_key: call.api_key,
            api_version: call.version,
            reply: call.reply,
            throttle_time_ms: call.throttle_time_ms,
        }
    }
}

/// A response body, with its error codes for the metrics.
pub(crate) struct Answered {
    body: Vec<u8>,
    errors: Vec<i16>,
    /// The request frame, whose buffer is reused.
    frame: Option<OwnFrame>,
}

impl Answered {
    /// Create an answer from a response body and its error codes.
    pub(crate) fn new(body: Vec<u8>, errors: Vec<i16>) -> Self {
        Answered {
            body,
            errors,
            frame: None,
        }
    }

    /// Attach the request's frame, so that its buffer can be reused.
    pub(crate) fn with_frame(self, frame: OwnFrame) -> Self {
        Answered {
            frame: Some(frame),
            ..self
        }
    }

    /// Return the attached frame.
    pub(crate) fn into_frame(self) -> Option<OwnFrame> {
        self.frame
    }

    /// Append the reply of a call that need not wait, and its error codes.
    pub(crate) fn write_now(&self, call: &Call<'_>, out: &mut Vec<u8>, errors: &mut Vec<i16>) {
        errors.extend(&self.errors);
        self.write(&Told::of(call), out);
    }

    fn write(&self, told: &Told, out: &mut Vec<u8>) {
        let frame = ReplyFrame::begin(out, told.reply);
        let body_at = out.len();
        out.extend_from_slice(&self.body);
        if told.throttle_time_ms > 0 {
            let (key, version) = (told.api_key, told.api_version);
            throttle_place::raise(key, version, &mut out[body_at..], told.throttle_time_ms);
        }
        frame.end(out);
    }
}

impl PendingPoolAnswer {
    /// Wait for a pool's answer to `call`, which holds `bytes` bytes.
    pub(crate) fn new(call: &Call<'_>, answer: PoolAnswer<Answered>, bytes: usize) -> Self {
        PendingPoolAnswer {
            answer,
            api_key: call.api_key,
            version: call.version,
            moments: call.moments(),
            bytes,
            told: Told::of(call),
        }
    }

    /// Append the reply.
    pub(crate) fn write(&self, answered: &Answered, metrics: &ThreadMetrics, out: &mut Vec<u8>) {
        for error in &answered.errors {
            metrics.error(self.api_key, *error);
        }
        answered.write(&self.told, out);
    }
}
