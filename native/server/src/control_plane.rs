//! The door to the control plane: requests that Rust does not answer by itself go through it, replies come back.
//!
//! The server knows only this trait; `native/bindings` implements it with the bounded queue that wakes Python's
//! event loop, tests implement it in a few lines.

use std::any::Any;
use std::net::SocketAddr;
use std::sync::{Arc, OnceLock};
use std::task::{Context, Poll};
use std::time::Instant;

/// Bodies of requests and responses.
pub use bytes::Bytes;
use pybroker_model::TopicIdPartition;
use tokio::sync::oneshot;

use crate::config::Registry;
use crate::quotas::Figures;
use crate::standing::StandingAnswer;
use crate::standing_commits::CommitRight;

/// Which queue of the bridge a request waits in, in order of precedence.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Controller and replica traffic.
    InterBroker,
    /// What clients must not wait long for: authentication, group heartbeats, commits, coordinator look-ups.
    Session,
    /// Everything else.
    Admin,
}

/// What is known about the connection that a request came from. One allocation per connection, shared by its
/// requests.
#[derive(Debug)]
pub struct Peer {
    /// Unique in this process.
    pub connection_id: u64,
    /// Name of the listener (`PLAINTEXT`, …).
    pub listener: Arc<str>,
    /// The client's address.
    pub address: SocketAddr,
    /// The layouts that the listener speaks.
    pub registry: Registry,
    /// What the client has said of its software in its first ApiVersions of version 3 or later (KIP-511).
    pub software: OnceLock<Software>,
    /// What the control plane lets go of with the connection and its last request.
    pub attached: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// A client library, in its own words.
#[derive(Debug)]
pub struct Software {
    /// `librdkafka`, `apache-kafka-java`, …
    pub name: Box<str>,
    /// Of the library.
    pub version: Box<str>,
}

/// A request for the control plane.
#[derive(Debug)]
pub struct ControlRequest {
    /// Which request.
    pub api_key: i16,
    /// Its version; supported by the listener's table, checked before.
    pub api_version: i16,
    /// For logs; the connection itself puts it into the response header.
    pub correlation_id: i32,
    /// The name the client gives itself.
    pub client_id: Option<Box<str>>,
    /// Who it is: `User:ANONYMOUS` without authentication.
    pub principal: Arc<str>,
    /// It has proven who it is by SASL; false on listeners without.
    pub sasl_authenticated: bool,
    /// It has done so by a delegation token (KIP-48).
    pub by_token: bool,
    /// Where it came from.
    pub peer: Arc<Peer>,
    /// Which queue.
    pub lane: Lane,
    /// The message, after the request header; undecoded.
    pub body: Bytes,
    /// When the frame was complete.
    pub received_at: Instant,
    /// Where nanoseconds are counted that are spent on it, if the client has a quota of them.
    pub time: Option<Arc<Figures>>,
    /// Where the answer goes.
    pub reply: ReplySender,
}

/// Asks the coordinator of a transaction whether partitions are part of it, before its first records are written to them
/// (KIP-890). Dropped unused, whoever asks hears that it cannot be known now.
#[derive(Debug)]
pub struct TransactionQuestion {
    /// Whose transaction.
    pub transactional_id: String,
    /// The producer's id.
    pub producer_id: i64,
    /// Its epoch.
    pub producer_epoch: i16,
    /// The partitions are to be made part of it, if they are not.
    pub adds: bool,
    /// The client understands TRANSACTION_ABORTABLE.
    pub abortable: bool,
    /// The partitions.
    pub partitions: Vec<TopicIdPartition>,
    /// Where the answer goes.
    pub answer: CodesSender,
}

/// The place for one answer: an error code for each partition of a question.
#[derive(Debug)]
pub struct CodesSender(oneshot::Sender<Vec<i16>>);

impl CodesSender {
    /// A place for an answer and where it can be waited for.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Vec<i16>>) {
        let (sender, receiver) = oneshot::channel();
        (CodesSender(sender), receiver)
    }

    /// Answers. A connection that has gone meanwhile does not mind.
    pub fn send(self, codes: Vec<i16>) {
        drop(self.0.send(codes));
    }
}

/// The control plane's queue is full. The request comes back; the connection keeps it, stops reading its
/// socket and tries again once [`ControlPlane::poll_ready`] says so.
#[derive(Debug)]
pub struct Busy(pub Box<ControlRequest>);

/// Takes requests that Rust does not answer.
pub trait ControlPlane: Send + Sync + 'static {
    /// Queues a request. Called on a data thread: must not block or take the GIL.
    fn submit(&self, request: ControlRequest) -> Result<(), Busy>;

    /// Queues a question. Each connection has one at most. Called on a data thread: must not block or take the GIL.
    fn ask(&self, question: TransactionQuestion);

    /// Ready when `submit` of a request of this lane can be expected to succeed; else registers the waker.
    fn poll_ready(&self, lane: Lane, context: &mut Context<'_>) -> Poll<()>;
}

/// What the control plane answers.
#[derive(Debug)]
pub enum ControlReply {
    /// The response body. The connection writes length and header in front of it.
    Body(Bytes),
    /// The answer's body; it may be repeated over this connection while it stands.
    Standing(Arc<StandingAnswer>),
    /// The answer's body; the connection's data thread takes the member's next commits under this right.
    StandingCommits {
        /// The response body.
        body: Bytes,
        /// What it may do.
        right: Arc<CommitRight>,
    },
    /// As `Body`; the client has made too many changes, and nothing is read of its connection for so many milliseconds.
    Throttled {
        /// The response body, which tells the client as much if its version can.
        body: Bytes,
        /// How long, in milliseconds.
        wait_ms: u32,
    },
    /// Authentication has succeeded: the response body, and who this connection is from now on.
    Authenticated {
        /// Response body of SaslAuthenticate.
        body: Bytes,
        /// The principal (`User:alice`).
        principal: Arc<str>,
        /// It has authenticated by a delegation token (KIP-48).
        by_token: bool,
        /// When the client must have authenticated again, in milliseconds from now (KIP-368).
        session_lifetime_ms: Option<u64>,
    },
    /// The response body, after which the connection is closed: an authentication that failed.
    Last(Bytes),
    /// Drop the connection without an answer (a body that cannot be decoded).
    Close,
}

/// The place for exactly one answer. Dropped unused, it closes the connection: a request is never left waiting.
#[derive(Debug)]
pub struct ReplySender {
    answer: oneshot::Sender<Replied>,
    times: ControlTimes,
}

/// When the control plane has done what with a request.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ControlTimes {
    /// It took it from its queue.
    pub(crate) taken: Option<Instant>,
    /// Its handler waits for something.
    pub(crate) waits: Option<Instant>,
    /// It answered.
    pub(crate) ready: Option<Instant>,
}

/// An answer, with its times.
#[derive(Debug)]
pub struct Replied {
    /// What is answered.
    pub reply: ControlReply,
    pub(crate) times: ControlTimes,
}

impl ReplySender {
    /// A place for an answer and where it can be waited for.
    pub fn new() -> (Self, oneshot::Receiver<Replied>) {
        let (answer, receiver) = oneshot::channel();
        let times = ControlTimes::default();
        (ReplySender { answer, times }, receiver)
    }

    /// The control plane begins with the request.
    pub fn taken(&mut self) {
        self.times.taken = Some(Instant::now());
    }

    /// The request's handler waits for something.
    pub fn waits(&mut self) {
        self.times.waits = Some(Instant::now());
    }

    /// Answers with a response body (no length, no header).
    pub fn send(self, body: Bytes) {
        self.reply(ControlReply::Body(body));
    }

    /// Answers. A connection that has gone meanwhile does not mind.
    pub fn reply(self, reply: ControlReply) {
        // Err = nobody waits any more: the connection is closed, which `is_cancelled` tells beforehand.
        let times = ControlTimes {
            ready: Some(Instant::now()),
            ..self.times
        };
        drop(self.answer.send(Replied { reply, times }));
    }

    /// Drops the connection.
    pub fn close(self) {
        self.reply(ControlReply::Close);
    }

    /// True once the connection is gone and an answer would reach nobody.
    pub fn is_cancelled(&self) -> bool {
        self.answer.is_closed()
    }
}
