//! The request at the head of the slots: is what it waits for there, and what is written then.

use std::future::Future;
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Instant;

use super::{Connection, Work};
use crate::api::k00_produce::Appended;
use crate::close::CloseReason;
use crate::control_plane::ControlReply;
use crate::dispatch::{Dispatched, Output, Turn, dispatch};
use crate::frame::Frame;
use crate::limits::PENDING_REPLY_BYTES_MAX;
use crate::reply::ReplyFrame;
use crate::sasl;
use crate::shared::ThreadState;
use crate::slots::{PendingControl, Slot};

impl Connection {
    /// Finishes requests at the head of the slots. True if one was.
    pub(super) fn advance(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        work: &mut Work,
        now: Instant,
    ) -> Result<bool, CloseReason> {
        let mut moved = false;
        if work.head_waits || self.ending {
            return Ok(false);
        }
        // A slow reader's finished replies wait in their slots, where they are counted.
        while self.outgoing.pending_bytes() < PENDING_REPLY_BYTES_MAX {
            let Some(slot) = self.slots.pop() else { break };
            let unfinished = match slot {
                Slot::Ready(reply) => {
                    self.outgoing
                        .tail(&mut thread.pool)
                        .extend_from_slice(&reply);
                    None
                }
                Slot::Produce(mut pending) => match pending.poll(context, now) {
                    Poll::Ready(()) => {
                        self.outgoing
                            .tail(&mut thread.pool)
                            .extend_from_slice(pending.reply());
                        thread.metrics.request(0, pending.received);
                        None
                    }
                    Poll::Pending => Some(Slot::Produce(pending)),
                },
                Slot::Appending(mut pending) => match pending.poll(context, &thread.metrics)? {
                    Poll::Ready(Appended::Answered(reply)) => {
                        self.outgoing
                            .tail(&mut thread.pool)
                            .extend_from_slice(&reply);
                        thread.metrics.request(0, pending.received);
                        None
                    }
                    Poll::Ready(Appended::Waits(produce)) => {
                        self.slots.put_back(Slot::Produce(produce));
                        continue;
                    }
                    Poll::Pending => Some(Slot::Appending(pending)),
                },
                Slot::Fetch(mut pending) => {
                    match pending.poll(
                        &self.shared,
                        thread,
                        &self.info,
                        context,
                        now,
                        &mut self.outgoing,
                    ) {
                        Poll::Ready(result) => {
                            result?;
                            thread.metrics.request(1, pending.received);
                            None
                        }
                        Poll::Pending => Some(Slot::Fetch(pending)),
                    }
                }
                Slot::Lookup(mut pending) => match pending.answer.as_mut().poll(context) {
                    Poll::Pending => Some(Slot::Lookup(pending)),
                    Poll::Ready(Err(_)) => {
                        return Err(CloseReason::ReplyLost {
                            api_key: pending.api_key,
                        });
                    }
                    Poll::Ready(Ok(answered)) => {
                        pending.write(
                            &answered,
                            &thread.metrics,
                            self.outgoing.tail(&mut thread.pool),
                        );
                        if let Some(frame) = answered.into_frame() {
                            thread.pool.give(frame.into_buffer());
                        }
                        thread.metrics.request(pending.api_key, pending.received);
                        None
                    }
                },
                Slot::Control(mut pending) => {
                    match self.poll_control(&mut pending, thread, context)? {
                        Poll::Ready(()) => None,
                        Poll::Pending => Some(Slot::Control(pending)),
                    }
                }
                Slot::Deferred {
                    frame, received, ..
                } => {
                    let mut turn = Turn {
                        shared: &self.shared,
                        thread: &mut *thread,
                        connection: &self.info,
                        context,
                    };
                    match dispatch(
                        &mut turn,
                        Frame::Own(frame),
                        received,
                        Output::Head(&mut self.outgoing),
                    )? {
                        Dispatched::Done => None,
                        Dispatched::Slot(slot) => {
                            work.head_waits = matches!(slot, Slot::Fetch(_));
                            self.slots.put_back(slot);
                            if work.head_waits {
                                break;
                            }
                            // Not looked at yet: in the next round.
                            continue;
                        }
                    }
                }
            };
            match unfinished {
                None => {
                    moved = true;
                    self.active = now;
                }
                Some(slot) => {
                    self.slots.put_back(slot);
                    work.head_waits = true;
                    break;
                }
            }
        }
        Ok(moved)
    }

    fn poll_control(
        &mut self,
        pending: &mut PendingControl,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<Poll<()>, CloseReason> {
        if let Some(request) = pending.unsent.take()
            && let Err(busy) = self.shared.control.submit(*request)
        {
            let lane = busy.0.lane;
            pending.unsent = Some(busy.0);
            if self.shared.control.poll_ready(lane, context).is_ready() {
                // Room came between the two calls: another turn, after the others.
                context.waker().wake_by_ref();
            }
            return Ok(Poll::Pending);
        }
        let body = match Pin::new(&mut pending.answer).poll(context) {
            Poll::Pending => return Ok(Poll::Pending),
            Poll::Ready(Err(_)) => {
                return Err(CloseReason::ReplyLost {
                    api_key: pending.api_key,
                });
            }
            Poll::Ready(Ok(ControlReply::Close)) => return Err(CloseReason::ControlPlane),
            Poll::Ready(Ok(ControlReply::Body(body))) => {
                sasl::after_answer(&mut self.info, pending, &body);
                body
            }
            Poll::Ready(Ok(ControlReply::Last(body))) => {
                if pending.raw {
                    // Without Kafka's header there is no way to say why.
                    return Err(CloseReason::AuthenticationFailed);
                }
                self.ending = true;
                body
            }
            Poll::Ready(Ok(ControlReply::Authenticated {
                body,
                principal,
                session_lifetime_ms,
            })) => {
                sasl::authenticated(&mut self.info, principal, session_lifetime_ms);
                body
            }
        };
        let out = self.outgoing.tail(&mut thread.pool);
        if pending.raw {
            sasl::write_raw_answer(&body, out)?;
        } else {
            let frame = ReplyFrame::begin(out, pending.correlation_id, pending.flexible);
            out.extend_from_slice(&body);
            frame.end(out);
        }
        thread.metrics.request(pending.api_key, pending.received);
        Ok(Poll::Ready(()))
    }
}
