//! Interface to the control plane, which answers the requests that Rust does not.
//!
//! The server knows only this trait. `native/bindings` implements it with the bounded queue that wakes Python's event
//! loop; tests implement it in a few lines.

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
use crate::leases::cached_responses::CachedResponse;
use crate::leases::delegated_commits::CommitLease;
use crate::quotas::EntityUsage;

/// Queues of requests, the one with the highest priority first.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum Lane {
    /// Controller and replica traffic.
    InterBroker,
    /// Requests with low latency: authentication, group heartbeats, commits, coordinator look-ups.
    Session,
    /// All other requests.
    Admin,
}

/// The connection that a request came from. One allocation per connection, shared by its requests.
#[derive(Debug)]
pub struct Peer {
    /// Id of the connection, unique in this process.
    pub connection_id: u64,
    /// Name of the listener (`PLAINTEXT`, …).
    pub listener: Arc<str>,
    /// The client's address.
    pub address: SocketAddr,
    /// The layouts that the listener speaks.
    pub registry: Registry,
    /// Client software from the first ApiVersions of version 3 or later (KIP-511).
    pub software: OnceLock<Software>,
    /// Data of the control plane, dropped with the connection and its last request.
    pub attached: OnceLock<Box<dyn Any + Send + Sync>>,
}

/// A client library, as reported by the client.
#[derive(Debug)]
pub struct Software {
    /// `librdkafka`, `apache-kafka-java`, …
    pub name: Box<str>,
    /// Version of the library.
    pub version: Box<str>,
}

/// A request for the control plane.
#[derive(Debug)]
pub struct ControlRequest {
    /// API key.
    pub api_key: i16,
    /// API version; the listener supports it, which was checked before.
    pub api_version: i16,
    /// Correlation id, for logs. The connection itself writes it into the response header.
    pub correlation_id: i32,
    /// Client id.
    pub client_id: Option<Box<str>>,
    /// Principal: `User:ANONYMOUS` without authentication.
    pub principal: Arc<str>,
    /// Whether the client authenticated by SASL. False on listeners without SASL.
    pub sasl_authenticated: bool,
    /// Whether the client authenticated by a delegation token (KIP-48).
    pub by_token: bool,
    /// The connection.
    pub peer: Arc<Peer>,
    /// The queue.
    pub lane: Lane,
    /// The undecoded message after the request header.
    pub body: Bytes,
    /// When the last byte of the frame arrived.
    pub received_at: Instant,
    /// Counter for the nanoseconds spent on the request, if the client has a request quota.
    pub time: Option<Arc<EntityUsage>>,
    /// Sender of the answer.
    pub reply: ReplySender,
}

/// A question to the transaction coordinator: are the partitions part of the transaction (KIP-890)? Asked before the
/// first records are written to them. Dropping it unanswered reports that the coordinator is unavailable.
#[derive(Debug)]
pub struct TransactionQuestion {
    /// Transactional id.
    pub transactional_id: String,
    /// Producer id.
    pub producer_id: i64,
    /// Producer epoch.
    pub producer_epoch: i16,
    /// Whether to add the partitions to the transaction.
    pub adds: bool,
    /// The client understands TRANSACTION_ABORTABLE.
    pub abortable: bool,
    /// The partitions.
    pub partitions: Vec<TopicIdPartition>,
    /// Sender of the answer.
    pub answer: CodesSender,
}

/// Sender of one answer: an error code for each partition of a question.
#[derive(Debug)]
pub struct CodesSender(oneshot::Sender<Vec<i16>>);

impl CodesSender {
    /// Create a sender and its receiver.
    pub(crate) fn new() -> (Self, oneshot::Receiver<Vec<i16>>) {
        let (sender, receiver) = oneshot::channel();
        (CodesSender(sender), receiver)
    }

    /// Send the answer. It is dropped if the connection has closed.
    pub fn send(self, codes: Vec<i16>) {
        drop(self.0.send(codes));
    }
}

/// The control plane's queue is full. The connection keeps the returned request, stops reading its socket and retries
/// when [`ControlPlane::poll_ready`] is ready.
#[derive(Debug)]
pub struct Busy(pub Box<ControlRequest>);

/// Receiver of the requests that Rust does not answer.
pub trait ControlPlane: Send + Sync + 'static {
    /// Queue a request. Called on a data thread: must not block or take the GIL.
    fn submit(&self, request: ControlRequest) -> Result<(), Busy>;

    /// Queue a question. Each connection has at most one. Called on a data thread: must not block or take the GIL.
    fn ask(&self, question: TransactionQuestion);

    /// Ready when `submit` of a request in this lane will probably succeed; otherwise registers the waker.
    fn poll_ready(&self, lane: Lane, context: &mut Context<'_>) -> Poll<()>;
}

/// Answer of the control plane.
#[derive(Debug)]
pub enum ControlReply {
    /// The response body. The connection prepends length and header.
    Body(Bytes),
    /// The response body, which data threads may repeat over this connection until it is invalidated.
    Cached(Arc<CachedResponse>),
    /// The response body, and a delegation by which the connection's data thread handles the member's next commits.
    Delegated {
        /// The response body.
        body: Bytes,
        /// The delegation.
        lease: Arc<CommitLease>,
    },
    /// Like `Body`, for a client over its controller mutation quota: its connection is muted for `wait_ms`.
    Throttled {
        /// The response body; it contains the throttle time if its version has the field.
        body: Bytes,
        /// Duration of the mute, in milliseconds.
        wait_ms: u32,
    },
    /// Authentication succeeded: the response body, and the connection's new identity.
    Authenticated {
        /// Response body of SaslAuthenticate.
        body: Bytes,
        /// The principal (`User:alice`).
        principal: Arc<str>,
        /// Whether the client authenticated by a delegation token (KIP-48).
        by_token: bool,
        /// Session lifetime in milliseconds, after which the client must re-authenticate (KIP-368).
        session_lifetime_ms: Option<u64>,
    },
    /// The response body of a failed authentication, after which the connection closes.
    Last(Bytes),
    /// Close the connection without an answer (the body cannot be decoded).
    Close,
}

/// Sender of exactly one answer. Dropping it unused closes the connection, so that no request waits forever.
#[derive(Debug)]
pub struct ReplySender {
    answer: oneshot::Sender<TimedReply>,
    times: ControlTimes,
}

/// Timestamps of a request in the control plane.
#[derive(Debug, Clone, Copy, Default)]
pub(crate) struct ControlTimes {
    /// Time at which the control plane took the request from the queue.
    pub(crate) taken: Option<Instant>,
    /// Time at which the request's handler started to wait.
    pub(crate) waits: Option<Instant>,
    /// Time at which the answer was ready.
    pub(crate) ready: Option<Instant>,
}

/// An answer with its timestamps.
#[derive(Debug)]
pub struct TimedReply {
    /// The answer.
    pub reply: ControlReply,
    pub(crate) times: ControlTimes,
}

impl ReplySender {
    /// Create a sender and its receiver.
    pub fn new() -> (Self, oneshot::Receiver<TimedReply>) {
        let (answer, receiver) = oneshot::channel();
        let times = ControlTimes::default();
        (ReplySender { answer, times }, receiver)
    }

    /// Record that the control plane starts to process the request.
    pub fn taken(&mut self) {
        self.times.taken = Some(Instant::now());
    }

    /// Record that the request's handler waits.
    pub fn waits(&mut self) {
        self.times.waits = Some(Instant::now());
    }

    /// Send a response body (without length and header).
    pub fn send(self, body: Bytes) {
        self.reply(ControlReply::Body(body));
    }

    /// Send an answer. It is dropped if the connection has closed.
    pub fn reply(self, reply: ControlReply) {
        // Ignore the error: it means that the connection is closed, and `is_cancelled` reports that.
        let times = ControlTimes {
            ready: Some(Instant::now()),
            ..self.times
        };
        drop(self.answer.send(TimedReply { reply, times }));
    }

    /// Close the connection.
    pub fn close(self) {
        self.reply(ControlReply::Close);
    }

    /// Return whether the connection is closed, so that an answer would be dropped.
    pub fn is_cancelled(&self) -> bool {
        self.answer.is_closed()
    }
}
