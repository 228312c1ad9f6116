//! Processing of the request at the head of the slots: poll it, and write its reply.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use pybroker_protocol::ApiKey;

use super::{Connection, Work};
use crate::api::k00_produce::PendingProduce;
use crate::api::k01_fetch::PendingFetch;
use crate::api::k08_offset_commit::PendingOffsetCommit;
use crate::api::large_request::{Outcome, PendingLarge};
use crate::api::pool_answer::PendingPoolAnswer;
use crate::api::to_control_plane::PendingControl;
use crate::clients::close_reason::CloseReason;
use crate::control_plane::{ControlReply, TimedReply};
use crate::dispatch::sasl;
use crate::dispatch::slots::Slot;
use crate::dispatch::{DispatchOutcome, Output, Turn, dispatch};
use crate::limits::PENDING_REPLY_BYTES_MAX;
use crate::metrics::Moments;
use crate::net::frame::{Frame, OwnedFrame};
use crate::net::reply::ReplyFrame;
use crate::quotas::throttle_time;
use crate::shared::ThreadState;

/// State of the request at the head after polling it.
enum Head {
    /// The reply is in the output.
    Answered,
    /// The request was polled and is pending.
    Waits(Slot),
    /// The request was deferred and has started, but was not polled yet.
    Begun(Slot),
}

impl Connection {
    /// Finish requests at the head of the slots. Return whether one was finished.
    pub(super) fn advance(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        work: &mut Work,
        now: Instant,
    ) -> Result<bool, CloseReason> {
        let mut moved = false;
        if work.head_waits || self.ending.is_some() {
            return Ok(false);
        }
        // Finished replies for a slow reader stay in their slots, whose memory is counted.
        while self.outgoing.pending_bytes() < PENDING_REPLY_BYTES_MAX && !self.begins_muted() {
            let Some(slot) = self.slots.pop() else { break };
            let began = thread.clock;
            let finished = self.finish(slot, thread, context, now)?;
            self.count_time(thread, began);
            let unfinished = match finished {
                Head::Answered => {
                    moved = true;
                    self.active = now;
                    continue;
                }
                Head::Waits(slot) => {
                    work.head_waits = true;
                    slot
                }
                Head::Begun(slot) => {
                    // A Fetch was already polled when it began.
                    work.head_waits = matches!(slot, Slot::Fetch(_));
                    slot
                }
            };
            self.slots.put_back(unfinished);
            if work.head_waits {
                break;
            }
        }
        Ok(moved)
    }

    fn finish(
        &mut self,
        slot: Slot,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<Head, CloseReason> {
        match slot {
            Slot::Ready(ready) => {
                self.send(&ready.reply, thread);
                thread.answered(ApiKey::Produce.code(), ready.version, ready.moments);
                Ok(Head::Answered)
            }
            Slot::Produce(pending) => self.finish_produce(pending, thread, context, now),
            Slot::Fetch(pending) => self.finish_fetch(pending, thread, context, now),
            Slot::OffsetCommit(pending) => self.finish_commit(pending, thread, context, now),
            Slot::Pool(pending) => self.finish_pool(pending, thread, context),
            Slot::Large(pending) => self.finish_large(pending, thread, context),
            Slot::Control(pending) => self.finish_control(pending, thread, context),
            Slot::Deferred {
                frame, received, ..
            } => self.begin(frame, received, thread, context),
        }
    }

    /// Append a whole reply frame to the output.
    fn send(&mut self, reply: &[u8], thread: &mut ThreadState) {
        let out = self.outgoing.tail(&mut thread.pool);
        out.extend_from_slice(reply);
    }

    fn finish_produce(
        &mut self,
        mut pending: Box<PendingProduce>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<Head, CloseReason> {
        match pending.poll(context, now, thread) {
            Poll::Pending => Ok(Head::Waits(Slot::Produce(pending))),
            Poll::Ready(reply) => {
                self.send(&reply?, thread);
                let moments = pending.moments();
                thread.answered(ApiKey::Produce.code(), pending.version(), moments);
                Ok(Head::Answered)
            }
        }
    }

    fn finish_fetch(
        &mut self,
        mut pending: Box<PendingFetch>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<Head, CloseReason> {
        let (shared, info, outgoing) = (&self.shared, &self.info, &mut self.outgoing);
        match pending.poll(shared, thread, info, context, now, outgoing) {
            Poll::Pending => Ok(Head::Waits(Slot::Fetch(pending))),
            Poll::Ready(result) => {
                result?;
                thread.answered(ApiKey::Fetch.code(), pending.version(), pending.moments);
                Ok(Head::Answered)
            }
        }
    }

    fn finish_commit(
        &mut self,
        mut pending: Box<PendingOffsetCommit>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        now: Instant,
    ) -> Result<Head, CloseReason> {
        match pending.poll(context, now) {
            Poll::Pending => Ok(Head::Waits(Slot::OffsetCommit(pending))),
            Poll::Ready(reply) => {
                self.send(&reply, thread);
                let key = ApiKey::OffsetCommit.code();
                thread.answered(key, pending.version, pending.moments);
                Ok(Head::Answered)
            }
        }
    }

    fn finish_pool(
        &mut self,
        mut pending: Box<PendingPoolAnswer>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<Head, CloseReason> {
        let api_key = pending.api_key;
        match pending.answer.as_mut().poll(context) {
            Poll::Pending => Ok(Head::Waits(Slot::Pool(pending))),
            Poll::Ready(Err(_)) => Err(CloseReason::ReplyLost { api_key }),
            Poll::Ready(Ok(answered)) => {
                let out = self.outgoing.tail(&mut thread.pool);
                pending.write(&answered, &thread.metrics, out);
                if let Some(frame) = answered.into_frame() {
                    thread.pool.give(frame.into_buffer());
                }
                thread.answered(api_key, pending.version, pending.moments);
                Ok(Head::Answered)
            }
        }
    }

    fn finish_large(
        &mut self,
        mut pending: Box<PendingLarge>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<Head, CloseReason> {
        let api_key = pending.api_key;
        let returned = match pending.answer.as_mut().poll(context) {
            Poll::Pending => return Ok(Head::Waits(Slot::Large(pending))),
            Poll::Ready(Err(_)) => return Err(CloseReason::ReplyLost { api_key }),
            Poll::Ready(Ok(returned)) => returned,
        };
        self.info.take_back(&returned.connection);
        thread.count_errors(api_key, &returned.errors);
        match returned.outcome? {
            Outcome::Pool(pending) => Ok(Head::Begun(Slot::Pool(pending))),
            Outcome::Control(pending) => Ok(Head::Begun(Slot::Control(pending))),
            Outcome::Reply(reply) => {
                self.send(&reply, thread);
                thread.answered(api_key, pending.version, pending.moments);
                Ok(Head::Answered)
            }
        }
    }

    fn finish_control(
        &mut self,
        mut pending: Box<PendingControl>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<Head, CloseReason> {
        if let Some(request) = pending.unsent.take()
            && let Err(busy) = self.shared.control.submit(*request)
        {
            let lane = busy.0.lane;
            pending.unsent = Some(busy.0);
            if self.shared.control.poll_ready(lane, context).is_ready() {
                // The queue got room between the two calls; try again in another turn.
                context.waker().wake_by_ref();
            }
            return Ok(Head::Waits(Slot::Control(pending)));
        }
        let TimedReply { reply, times } = match Pin::new(&mut pending.answer).poll(context) {
            Poll::Pending => return Ok(Head::Waits(Slot::Control(pending))),
            Poll::Ready(Err(_)) => {
                return Err(CloseReason::ReplyLost {
                    api_key: pending.api_key,
                });
            }
            Poll::Ready(Ok(reply)) => reply,
        };
        self.write_control(&pending, reply, thread)?;
        let moments = Moments {
            began: times.taken.unwrap_or(pending.moments.began),
            waits: times.waits,
            ready: times.ready,
            ..pending.moments
        };
        thread.answered(pending.api_key, pending.api_version, moments);
        Ok(Head::Answered)
    }

    /// Write the control plane's answer, and apply its changes to the connection.
    fn write_control(
        &mut self,
        pending: &PendingControl,
        reply: ControlReply,
        thread: &mut ThreadState,
    ) -> Result<(), CloseReason> {
        let body = match reply {
            ControlReply::Close => return Err(CloseReason::ControlPlane),
            ControlReply::Body(body) => {
                sasl::after_answer(&mut self.info, pending.api_key, pending.api_version, &body);
                body
            }
            ControlReply::Cached(answer) => {
                let body = answer.body().clone();
                self.info.cached_responses.insert(answer);
                body
            }
            ControlReply::Delegated { body, lease } => {
                self.info.commit_leases.insert(lease);
                body
            }
            ControlReply::Throttled { body, wait_ms } => {
                self.info.quotas.mute(wait_ms, Instant::now());
                body
            }
            ControlReply::Last(body) => {
                if pending.raw {
                    // Without Kafka's header the reply cannot carry an error.
                    return Err(CloseReason::AuthenticationFailed);
                }
                self.ending = Some(CloseReason::AuthenticationFailed);
                body
            }
            ControlReply::Authenticated {
                body,
                principal,
                by_token,
                session_lifetime_ms,
            } => {
                sasl::authenticated(&mut self.info, principal, by_token, session_lifetime_ms);
                body
            }
        };
        let out = self.outgoing.tail(&mut thread.pool);
        if pending.raw {
            return sasl::write_raw_answer(&body, out);
        }
        let frame = ReplyFrame::begin(out, pending.reply);
        let body_at = out.len();
        out.extend_from_slice(&body);
        if pending.throttle_time_ms > 0 {
            let (key, version) = (pending.api_key, pending.api_version);
            throttle_time::raise(key, version, &mut out[body_at..], pending.throttle_time_ms);
        }
        frame.end(out);
        Ok(())
    }

    /// Start a deferred request, which has reached the head.
    fn begin(
        &mut self,
        frame: OwnedFrame,
        received: Instant,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<Head, CloseReason> {
        let mut turn = Turn {
            shared: &self.shared,
            thread,
            connection: &self.info,
            context,
        };
        let output = Output::Head(&mut self.outgoing);
        Ok(
            match dispatch(&mut turn, Frame::Own(frame), received, output)? {
                DispatchOutcome::Done => Head::Answered,
                DispatchOutcome::Last(reason) => {
                    self.ending = Some(reason);
                    Head::Answered
                }
                DispatchOutcome::Slot(slot) => Head::Begun(slot),
            },
        )
    }
}
