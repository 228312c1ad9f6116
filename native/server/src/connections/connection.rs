//! One client connection: a task of its data thread.
//!
//! In a turn the task advances the slots, sends, and reads and runs requests, until it can make no progress or has used
//! up its share of work. It stops reading while replies or requests of this connection hold too much memory:
//! backpressure on the socket slows down a client that does not read, or sends faster than the broker serves it.

mod deadlines;
mod head;
mod muted;
mod sent;

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::task::{Context, Poll, Waker};
use std::time::Instant;

use pybroker_model::ExpansionBudget;
use pybroker_protocol::frame::Guess;
use tokio::net::TcpStream;
use tokio::time::Sleep;

use crate::clients::close_reason::CloseReason;
use crate::clients::connection_info::ConnectionInfo;
use crate::config::Registry;
use crate::dispatch::sasl;
use crate::dispatch::slots::{Slot, Slots};
use crate::dispatch::{DispatchOutcome, Output, Turn, dispatch};
use crate::limits::{
    LAST_REPLY_LINGER, PENDING_REPLY_BYTES_MAX, SLOTS_MAX, TURN_BYTES_MAX, TURN_EXPANDED_BYTES_MAX,
    TURN_REQUESTS_MAX, TURN_SEND_BYTES_MAX,
};
use crate::metrics::UnsentReplies;
use crate::net::frame::{Frame, takes_buffer};
use crate::net::incoming::{Incoming, NextFrame};
use crate::net::outgoing::Outgoing;
use crate::net::tls::{TlsProblem, TlsSession};
use crate::shared::{ServerState, ThreadState, with_thread_state};

/// A fatal TLS alert, handshake_failure (RFC 8446, section 6), for a TLS client on a plaintext listener. Without it a
/// Java client retries until it times out.
const TLS_ALERT: [u8; 7] = [0x15, 0x03, 0x03, 0, 2, 2, 40];

/// State of one client connection.
pub(crate) struct Connection {
    shared: Arc<ServerState>,
    info: ConnectionInfo,
    socket: TcpStream,
    /// TLS session between the socket and the connection's buffers, on a TLS listener.
    tls: Option<Box<TlsSession>>,
    /// Whether the client's certificate has been evaluated.
    identified: bool,
    incoming: Incoming,
    slots: Slots,
    outgoing: Outgoing,
    /// Requests answered in earlier turns whose replies are not sent yet.
    unsent: UnsentReplies,
    /// Bytes of slots and pending replies charged to the memory budget.
    charged: usize,
    /// Reason to close after the last reply is sent.
    ending: Option<CloseReason>,
    /// When the connection closes after the last reply was sent.
    ends: Option<Instant>,
    /// When a whole request last arrived or a reply was last sent.
    active: Instant,
    /// When the socket last accepted reply bytes, while some are pending.
    write_progress: Option<Instant>,
    /// When reading last resumed after a mute.
    resumed: Instant,
    timer: Pin<Box<Sleep>>,
    /// Current deadline of the timer. The timer may fire early and is then set again, so most turns do not touch it.
    armed: Option<Instant>,
    /// Waker for pending requests, created in the first turn.
    waker: Option<Waker>,
}

/// Work done in a turn.
#[derive(Default)]
struct Work {
    requests: usize,
    bytes: usize,
    sent: usize,
    /// Whether the request at the head was polled in this turn and is pending. Its event wakes the task; polling it
    /// again in this turn would repeat the work.
    head_waits: bool,
}

impl Work {
    fn is_used_up(&self) -> bool {
        self.requests >= TURN_REQUESTS_MAX
            || self.bytes >= TURN_BYTES_MAX
            || self.sent >= TURN_SEND_BYTES_MAX
    }
}

impl Connection {
    pub(crate) fn new(
        shared: Arc<ServerState>,
        info: ConnectionInfo,
        socket: TcpStream,
        tls: Option<TlsSession>,
    ) -> Self {
        let now = Instant::now();
        Connection {
            shared,
            info,
            socket,
            tls: tls.map(Box::new),
            identified: false,
            incoming: Incoming::default(),
            slots: Slots::default(),
            outgoing: Outgoing::default(),
            unsent: UnsentReplies::default(),
            charged: 0,
            ending: None,
            ends: None,
            active: now,
            write_progress: None,
            resumed: now,
            timer: Box::pin(tokio::time::sleep_until(now.into())),
            armed: None,
            waker: None,
        }
    }

    fn turn(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Result<(), CloseReason> {
        let now = Instant::now();
        thread.clock = now;
        thread.expansion = ExpansionBudget::new(TURN_EXPANDED_BYTES_MAX);
        let waker = self.waker.take().unwrap_or_else(|| {
            let task = context.waker();
            let id = self.info.peer.connection_id;
            thread.wakers.insert(id, task.clone());
            thread.wakeups.waker(task)
        });
        let requests = &mut Context::from_waker(&waker);
        if self.info.quotas.muted_until().is_some() {
            self.look_whether_muted(context, now)?;
        }
        let mut work = Work::default();
        let mut got_bytes = false;
        loop {
            let mut moved = self.advance(thread, requests, &mut work, now)?;
            moved |= self.flush(thread, context, &mut work, now)?;
            moved |= self.run_frames(thread, requests, &mut work, now)?;
            if !moved
                && self.may_read(thread, context)
                && let Poll::Ready(read) = self.poll_read(thread, context)
            {
                let bytes = read?;
                if bytes == 0 {
                    return Err(CloseReason::PeerClosed);
                }
                thread.metrics.bytes_in.add(bytes as u64);
                got_bytes = true;
                moved = true;
                self.run_frames(thread, requests, &mut work, now)?;
            }
            if work.is_used_up() {
                context.waker().wake_by_ref();
                break;
            }
            if !moved {
                break;
            }
        }
        if self.ending.is_some() && self.is_flushed() {
            self.ends.get_or_insert(now + LAST_REPLY_LINGER);
        }
        if self.shared.draining.load(Ordering::Relaxed)
            && self.slots.is_empty()
            && self.is_flushed()
        {
            return Err(CloseReason::Draining);
        }
        let mut held = self.slots.bytes() + self.outgoing.pending_bytes();
        if let Some(tls) = &mut self.tls {
            tls.end_turn(&mut thread.pool, got_bytes, now);
            held += tls.held_bytes();
        }
        // Return this buffer last, so that a buffer of frame size is the next one to be reused.
        self.incoming
            .end_turn(&mut thread.pool, &self.shared.budget, got_bytes, now);
        self.unsent.append(&mut thread.unsent);
        if self.unsent.is_full() {
            self.note_sent(thread, 0);
        }
        self.charge(held);
        thread.flush_group.end_turn(now, thread.clock);
        self.check_deadlines(thread, now)?;
        self.arm(thread, context, now);
        self.waker = Some(waker);
        Ok(())
    }

    /// Read once. `Ready(0)` means that the peer has closed its side.
    fn poll_read(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
    ) -> Poll<Result<usize, CloseReason>> {
        let Some(tls) = &mut self.tls else {
            let read = self
                .incoming
                .poll_read(context, &mut self.socket, &mut thread.pool);
            return read.map_err(CloseReason::of_io);
        };
        let read = self
            .incoming
            .poll_read_tls(context, &mut self.socket, tls, &mut thread.pool);
        match read {
            // Send an error response only to clients. The operator who configures the brokers reads the log.
            Poll::Ready(Err(TlsProblem::Plaintext { read }))
                if self.info.peer.registry == Registry::Client =>
            {
                self.tls = None;
                self.info.mark_plaintext();
                Poll::Ready(Ok(read))
            }
            Poll::Ready(Err(problem)) if !tls.is_flushed() => {
                // Send an alert first.
                self.ending = Some(CloseReason::of_tls(problem));
                Poll::Ready(Ok(1))
            }
            Poll::Ready(Ok(read)) => Poll::Ready(self.identify().map(|()| read)),
            read => read.map_err(CloseReason::of_tls),
        }
    }

    /// Set the principal from the client's certificate, once, before its first request.
    fn identify(&mut self) -> Result<(), CloseReason> {
        let Some(tls) = self.tls.as_ref().filter(|tls| !tls.is_handshaking()) else {
            return Ok(());
        };
        if self.identified {
            return Ok(());
        }
        self.identified = true;
        // SASL authentication determines the principal.
        if self.info.sasl {
            return Ok(());
        }
        match tls.principal() {
            Some(Ok(name)) => {
                self.info.principal = name.into();
                self.info.certified = true;
            }
            Some(Err(subject)) => return Err(CloseReason::Nameless { subject }),
            None => {}
        }
        Ok(())
    }

    /// Return whether all replies have been written to the socket.
    fn is_flushed(&self) -> bool {
        self.outgoing.is_empty() && self.tls.as_ref().is_none_or(|tls| tls.is_flushed())
    }

    /// Send pending replies. Return whether bytes were sent.
    fn flush(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        work: &mut Work,
        now: Instant,
    ) -> Result<bool, CloseReason> {
        if self.is_flushed() {
            self.note_sent(thread, 0);
            return Ok(false);
        }
        let before = work.sent;
        let limit = TURN_SEND_BYTES_MAX;
        let (socket, pool) = (&mut self.socket, &mut thread.pool);
        let flushed = match &mut self.tls {
            None => self
                .outgoing
                .poll_flush(context, socket, pool, limit, &mut work.sent),
            Some(tls) => {
                let share = (limit, &mut work.sent);
                tls.poll_flush(context, socket, &mut self.outgoing, pool, share)
            }
        };
        let sent = work.sent - before;
        thread.metrics.bytes_out.add(sent as u64);
        match flushed {
            Poll::Ready(Ok(true)) => {
                self.write_progress = None;
                self.note_sent(thread, sent);
            }
            Poll::Ready(Ok(false)) => self.write_progress = Some(now),
            Poll::Ready(Err(error)) => return Err(CloseReason::of_io(error)),
            Poll::Pending => {
                if sent > 0 || self.write_progress.is_none() {
                    self.write_progress = Some(now);
                }
            }
        }
        if sent > 0 {
            self.active = now;
        }
        Ok(sent > 0)
    }

    fn charge(&mut self, bytes: usize) {
        if bytes != self.charged {
            self.shared.budget.adjust(self.charged, bytes);
            self.charged = bytes;
        }
    }

    /// Return whether the connection may accept another request.
    fn may_run(&self, thread: &ThreadState) -> bool {
        self.slots.len() < SLOTS_MAX
            && self.outgoing.pending_bytes() < PENDING_REPLY_BYTES_MAX
            && self.slots.bytes() < thread.settings.limits.in_flight_connection_bytes_max
            && (self.slots.is_empty() || !self.shared.budget.is_full())
            && self.ending.is_none()
            && self.info.quotas.muted_until().is_none()
            && !self.shared.draining.load(Ordering::Relaxed)
    }

    fn may_read(&self, thread: &ThreadState, context: &Context<'_>) -> bool {
        if !self.may_run(thread) {
            return false;
        }
        // TLS handshake messages count as replies.
        let tls = self.tls.as_ref();
        if tls.is_some_and(|tls| tls.pending_bytes() >= PENDING_REPLY_BYTES_MAX) {
            return false;
        }
        !self.incoming.holds_bytes()
            || self
                .shared
                .budget
                .may_read(self.info.peer.connection_id, context.waker())
    }

    /// Run the whole frames in the buffer. Return whether there was one.
    fn run_frames(
        &mut self,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        work: &mut Work,
        now: Instant,
    ) -> Result<bool, CloseReason> {
        if !self.incoming.holds_bytes() {
            return Ok(false);
        }
        let mut buffer = self.incoming.take_buffer();
        let outcome = self.run_frames_in(&mut buffer, thread, context, work, now);
        self.incoming.restore_buffer(buffer);
        if let Ok(true) = outcome {
            self.active = now;
            self.shared.budget.finished(self.info.peer.connection_id);
        }
        outcome
    }

    fn run_frames_in(
        &mut self,
        buffer: &mut Vec<u8>,
        thread: &mut ThreadState,
        context: &mut Context<'_>,
        work: &mut Work,
        now: Instant,
    ) -> Result<bool, CloseReason> {
        let mut any = false;
        while !work.is_used_up() && self.may_run(thread) {
            let max = self.frame_bytes_max(thread);
            let min = sasl::frame_bytes_min(&self.info);
            let range = match self.incoming.next_frame(buffer, min, max) {
                NextFrame::Frame(range) => range,
                NextFrame::Incomplete => break,
                NextFrame::Refused { length, guess } => {
                    let reason = CloseReason::RefusedLength { length, guess, max };
                    if guess != Guess::Tls {
                        return Err(reason);
                    }
                    self.outgoing
                        .tail(&mut thread.pool)
                        .extend_from_slice(&TLS_ALERT);
                    self.ending = Some(reason);
                    return Ok(true);
                }
            };
            any = true;
            work.requests += 1;
            work.bytes += range.len();
            let frame = if takes_buffer(buffer, &range) {
                Frame::Own(self.incoming.detach(buffer, range, &mut thread.pool))
            } else {
                Frame::Lent(&mut buffer[range])
            };
            let mut turn = Turn {
                shared: &self.shared,
                thread: &mut *thread,
                connection: &self.info,
                context: &mut *context,
            };
            let output = if self.slots.is_empty() {
                Output::Head(&mut self.outgoing)
            } else {
                Output::Behind {
                    unappended: self.slots.hold_produces_back(),
                }
            };
            let began = turn.thread.clock;
            let dispatched = dispatch(&mut turn, frame, now, output)?;
            self.count_time(thread, began);
            match dispatched {
                DispatchOutcome::Done => {}
                DispatchOutcome::Last(reason) => self.ending = Some(reason),
                DispatchOutcome::Slot(slot) => {
                    // A Fetch runs at the head only, and `run` has polled it already.
                    work.head_waits |= matches!(slot, Slot::Fetch(_));
                    self.slots.push(slot);
                }
            }
        }
        Ok(any)
    }

    /// Count the thread's time since `began` for the client, if it has a request quota.
    #[inline]
    fn count_time(&self, thread: &mut ThreadState, began: Instant) {
        if self.info.quotas.counts_time() {
            self.info.quotas.worked(began, thread.clock_after(began));
        }
    }

    fn frame_bytes_max(&self, thread: &ThreadState) -> usize {
        let limits = &thread.settings.limits;
        if self.info.authenticated {
            limits.request_bytes_max
        } else {
            limits
                .unauthenticated_request_bytes_max
                .min(limits.request_bytes_max)
        }
    }

    fn close(&mut self, thread: &mut ThreadState, reason: CloseReason) {
        let mut reason = self.ending.take().unwrap_or(reason);
        if self.info.without_tls {
            // A client that needs TLS gets this reason, regardless of its request.
            reason = CloseReason::NotTls {
                guess: Guess::Garbage,
            };
        }
        if matches!(reason, CloseReason::ReplyLost { .. })
            && self.shared.stopping.load(Ordering::Relaxed)
        {
            reason = CloseReason::Draining;
        }
        self.note_sent(thread, 0);
        if let Some(tls) = &mut self.tls
            && self.outgoing.is_empty()
        {
            tls.queue_close();
            tls.send_at_once(&self.socket);
        }
        while let Some(slot) = self.slots.pop() {
            if let Slot::Fetch(pending) = slot {
                pending.release(thread);
            }
        }
        thread.wakers.remove(&self.info.peer.connection_id);
        thread.metrics.connections_closed.add(1);
        if reason.is_protocol_error() {
            thread.metrics.protocol_errors.add(1);
        }
        if let Some((level, line)) = reason.log_line(self.info.security) {
            let (peer, log) = (&self.info.peer, &self.shared.log);
            let line = format!(
                "connection from {} on listener {} closed: {line}",
                peer.address, peer.listener
            );
            match reason.mistake() {
                None => log.line(level, &line),
                Some(mistake) => {
                    log.about_client(&peer.listener, peer.address.ip(), mistake, (level, &line));
                }
            }
        }
    }
}

impl Future for Connection {
    type Output = ();

    fn poll(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<()> {
        let this = self.get_mut();
        let ended = with_thread_state(|thread| match this.turn(thread, context) {
            Ok(()) => false,
            Err(reason) => {
                this.close(thread, reason);
                true
            }
        });
        // Without the thread's state, this thread is shutting down, so close the connection.
        if ended.unwrap_or(true) {
            Poll::Ready(())
        } else {
            Poll::Pending
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.incoming.release(&self.shared.budget);
        self.charge(0);
        self.shared.budget.finished(self.info.peer.connection_id);
        self.shared.connections.leave(&self.info.peer);
        self.shared.client_software.left(&self.info.peer);
    }
}
