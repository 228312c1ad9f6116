//! A request that Python answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_protocol::ApiKey;
use pybroker_protocol::codec::Registry;
use pybroker_server::control_plane::{Bytes, ControlReply, ControlRequest, Peer, ReplySender};
use pybroker_server::quotas::Figures;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::commits::{self, CommitRight, CommitTopic, ShardCommits};
use super::log_lines::Described;
use super::standing::{Repeats, StandingAnswer};
use crate::codec;
use crate::plane::DataPlane;
use crate::plane::control_queue::{Completed, GoneNotice};
use crate::uuid::Uuid;

const ALTER_USER_SCRAM_CREDENTIALS: i16 = ApiKey::AlterUserScramCredentials.code();
/// Their clients may have to wait for the changes that they have made.
const MUTATIONS: [i16; 3] = [
    ApiKey::CreateTopics.code(),
    ApiKey::DeleteTopics.code(),
    ApiKey::CreatePartitions.code(),
];
/// What it gave out goes to others when its connection has gone.
const SHARE_FETCH: i16 = ApiKey::ShareFetch.code();

/// A request that Python answers; dropped unanswered, it closes its connection.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct Request {
    #[pyo3(get)]
    api_key: i16,
    #[pyo3(get)]
    api_version: i16,
    #[pyo3(get)]
    correlation_id: i32,
    client_id: Option<Box<str>>,
    principal: Arc<str>,
    #[pyo3(get)]
    sasl_authenticated: bool,
    #[pyo3(get)]
    by_token: bool,
    peer: Arc<Peer>,
    /// None of a large body before it is decoded.
    message: PyOnceLock<Py<PyAny>>,
    /// Of a large body only; its decoding takes it.
    body: Mutex<Option<Bytes>>,
    elements: AtomicU32,
    time: Option<Arc<Figures>>,
    /// Of a request that may be answered again and again.
    repeats: Option<Repeats>,
    reply: Mutex<Option<ReplySender>>,
}

impl Request {
    /// Decodes the body. With an error the request comes back: its connection is to be closed, as Kafka does.
    pub(crate) fn decode(
        py: Python<'_>,
        mut request: ControlRequest,
        plane: &DataPlane,
    ) -> Result<Self, Box<(PyErr, ControlRequest)>> {
        request.reply.taken();
        if request.api_key == SHARE_FETCH {
            request.peer.attached.get_or_init(|| {
                Box::new(GoneNotice::new(&plane.queue, request.peer.connection_id))
            });
        }
        let of_client = request.peer.registry == Registry::Client;
        let large = of_client && request.body.len() > DECODED_AT_ONCE_BYTES_MAX;
        let message = PyOnceLock::new();
        let mut elements = 0;
        if !large {
            let (registry, key) = (
                request.peer.registry,
                (request.api_key, request.api_version),
            );
            match decode_body(py, registry, key, &request.body, false) {
                Ok(decoded) => drop(message.set(py, decoded)),
                Err(error) => return Err(Box::new((error, request))),
            }
            if of_client && request.body.len() > MANY_ELEMENTS {
                elements = codec::elements_of(registry, key, &request.body);
            }
        }
        Ok(Self {
            repeats: Repeats::of(&request, plane),
            api_key: request.api_key,
            api_version: request.api_version,
            correlation_id: request.correlation_id,
            client_id: request.client_id,
            principal: request.principal,
            sasl_authenticated: request.sasl_authenticated,
            by_token: request.by_token,
            peer: request.peer,
            message,
            body: Mutex::new(large.then_some(request.body)),
            elements: AtomicU32::new(elements),
            time: request.time,
            reply: Mutex::new(Some(request.reply)),
        })
    }
}

/// Bodies up to this size are decoded where they are drained, within a millisecond.
const DECODED_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// A body of so many bytes cannot have more elements, and need not be looked at.
const MANY_ELEMENTS: usize = 1_000;

fn decode_body(
    py: Python<'_>,
    registry: Registry,
    (api_key, version): (i16, i16),
    body: &[u8],
    paused: bool,
) -> PyResult<Py<PyAny>> {
    let decode =
        |body: &[u8]| codec::decode_request(py, registry, (api_key, version), body, paused);
    match (decode(body), body) {
        // librdkafka (seen in 2.16) writes the empty tagged fields at the end of this request twice. Kafka ignores
        // what its reading leaves over; here it would end the connection.
        (Err(_), [whole @ .., 0]) if api_key == ALTER_USER_SCRAM_CREDENTIALS => decode(whole),
        (decoded, _) => decoded,
    }
}

impl Request {
    /// Decodes a large body, on a thread of its own. `CodecError`: its connection is to be closed.
    pub(super) fn decode_large(&self, py: Python<'_>) -> PyResult<()> {
        let Some(body) = self.body.lock().take() else {
            return Ok(());
        };
        let (registry, key) = (self.peer.registry, (self.api_key, self.api_version));
        let elements = py.detach(|| codec::elements_of(registry, key, &body));
        self.elements.store(elements, Ordering::Relaxed);
        let message = decode_body(py, registry, key, &body, true)?;
        drop(self.message.set(py, message));
        Ok(())
    }

    /// Where it comes from and what it is, for the log.
    pub(super) fn described(&self) -> Described<'_> {
        Described {
            peer: &self.peer,
            api_key: self.api_key,
            api_version: self.api_version,
            client_id: self.client_id.as_deref(),
        }
    }

    fn encode(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<Vec<u8>> {
        self.encode_at(py, message, false)
    }

    fn encode_at(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        paused: bool,
    ) -> PyResult<Vec<u8>> {
        let key = (self.api_key, self.api_version);
        codec::encode_response(py, self.peer.registry, key, message, paused)
    }

    fn send_body(&self, message: &Bound<'_, PyAny>, body: Bytes) -> PyResult<()> {
        if MUTATIONS.contains(&self.api_key) {
            let wait_ms = message.getattr("throttle_time_ms")?.extract::<u32>()?;
            if wait_ms > 0 {
                return self.send(ControlReply::Throttled { body, wait_ms });
            }
        }
        self.send(ControlReply::Body(body))
    }

    fn send(&self, reply: ControlReply) -> PyResult<()> {
        match self.reply.lock().take() {
            Some(sender) => {
                sender.reply(reply);
                Ok(())
            }
            None => Err(PyRuntimeError::new_err("the request was answered before")),
        }
    }
}

#[pymethods]
impl Request {
    /// None of a large request that is not decoded yet.
    #[getter]
    fn message(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.message.get(py).map(|message| message.clone_ref(py))
    }

    /// Of all its arrays together; 0 of a request that has few.
    #[getter]
    fn elements(&self) -> u32 {
        self.elements.load(Ordering::Relaxed)
    }

    #[getter]
    fn client_id(&self) -> Option<&str> {
        self.client_id.as_deref()
    }

    #[getter]
    fn principal(&self) -> &str {
        &self.principal
    }

    #[getter]
    fn listener(&self) -> &str {
        &self.peer.listener
    }

    /// Whether a broker asks, over the listener for brokers.
    #[getter]
    fn of_broker(&self) -> bool {
        self.peer.registry == Registry::InterBroker
    }

    #[getter]
    fn client_host(&self) -> String {
        self.peer.address.ip().to_string()
    }

    #[getter]
    fn client_port(&self) -> u16 {
        self.peer.address.port()
    }

    /// Name and version, in the client's own words; empty if it has said none.
    #[getter]
    fn client_software(&self) -> (&str, &str) {
        self.peer
            .software
            .get()
            .map_or(("", ""), |software| (&software.name, &software.version))
    }

    #[getter]
    fn connection_id(&self) -> u64 {
        self.peer.connection_id
    }

    /// Whether `spent` counts.
    #[getter]
    fn timed(&self) -> bool {
        self.time.is_some()
    }

    /// So many nanoseconds of the control plane went into it.
    fn spent(&self, nanoseconds: u64) {
        if let Some(figures) = &self.time {
            figures.add(nanoseconds, Instant::now());
        }
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.reply
            .lock()
            .as_ref()
            .is_none_or(ReplySender::is_cancelled)
    }

    /// Its handler waits for something: what follows is not work on it.
    fn waits(&self) {
        if let Some(reply) = &mut *self.reply.lock() {
            reply.waits();
        }
    }

    /// Encodes and sends the response. False: it has more elements than that, and nothing is sent.
    #[pyo3(signature = (message, elements_max = u32::MAX))]
    fn reply(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        elements_max: u32,
    ) -> PyResult<bool> {
        let (registry, key) = (self.peer.registry, (self.api_key, self.api_version));
        match codec::encode_small_response(py, registry, key, message, elements_max)? {
            Some(body) => self.send_body(message, body.into()).map(|()| true),
            None => Ok(false),
        }
    }

    /// Encodes and sends the response, however large, on a thread of its own.
    fn reply_large(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let body = self.encode_at(py, message, true)?;
        self.send_body(message, body.into())
    }

    /// Encodes and sends the response, which may be repeated to whoever may read for the group, until the answer is taken
    /// back. `None`: this request's answer is not repeated.
    fn reply_standing(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        group: &str,
    ) -> PyResult<Option<StandingAnswer>> {
        let body = self.encode(py, message)?;
        let Some(repeats) = &self.repeats else {
            self.send(ControlReply::Body(body.into()))?;
            return Ok(None);
        };
        let answer = repeats.give(group, body);
        self.send(ControlReply::Standing(Arc::clone(&answer)))?;
        Ok(Some(StandingAnswer::new(answer)))
    }

    /// Encodes and sends the response of an OffsetCommit; data threads take its member's next commits over this
    /// connection, until the right is taken back. `None`: not of this request's kind.
    #[expect(clippy::too_many_arguments, reason = "what a right is for")]
    fn reply_commits(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        shard: &Bound<'_, ShardCommits>,
        topics: Vec<CommitTopic>,
        metadata_bytes_max: usize,
        timeout_ms: u64,
        before: Option<&Bound<'_, CommitRight>>,
    ) -> PyResult<Option<CommitRight>> {
        let body = self.encode(py, message)?.into();
        let bounds = commits::bounds(topics, metadata_bytes_max, timeout_ms)?;
        let before = before.map(|right| right.get());
        let given = match &self.repeats {
            Some(repeats) => repeats.give_commits(shard.get(), bounds, before)?,
            None => None,
        };
        let Some(right) = given else {
            self.send(ControlReply::Body(body))?;
            return Ok(None);
        };
        let kept = Arc::clone(&right);
        self.send(ControlReply::StandingCommits { body, right: kept })?;
        Ok(Some(CommitRight(right)))
    }

    /// The same for a SaslAuthenticate that has succeeded.
    fn reply_authenticated(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        principal: &str,
        by_token: bool,
        session_lifetime_ms: Option<u64>,
    ) -> PyResult<()> {
        let body = self.encode(py, message)?;
        self.send(ControlReply::Authenticated {
            body: body.into(),
            principal: principal.into(),
            by_token,
            session_lifetime_ms,
        })
    }

    /// The same, then the connection is closed.
    fn reply_and_close(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let body = self.encode(py, message)?;
        self.send(ControlReply::Last(body.into()))
    }

    /// Drops the connection.
    pub(super) fn close(&self) {
        if let Some(sender) = self.reply.lock().take() {
            sender.close();
        }
    }

    fn __repr__(&self) -> String {
        format!(
            "Request(api_key={}, api_version={}, connection_id={})",
            self.api_key, self.api_version, self.peer.connection_id
        )
    }
}

/// An append that Python started is committed, or has failed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct Completion {
    token: u64,
    error_code: i16,
    base_offset: i64,
    log_append_time: i64,
}

impl From<Completed> for Completion {
    fn from(completed: Completed) -> Self {
        let Completed {
            token,
            error_code,
            base_offset,
            log_append_time,
        } = completed;
        Self {
            token,
            error_code,
            base_offset,
            log_append_time,
        }
    }
}

/// Partitions that can be served no more: their log directory has failed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct ReplicasOffline {
    /// (topic id, partition)
    partitions: Vec<(Uuid, i32)>,
}

impl From<Vec<TopicIdPartition>> for ReplicasOffline {
    fn from(partitions: Vec<TopicIdPartition>) -> Self {
        let of = |tip: TopicIdPartition| (Uuid(tip.topic_id.uuid()), tip.partition);
        Self {
            partitions: partitions.into_iter().map(of).collect(),
        }
    }
}

/// A connection over which records were acquired has gone, and its last request is answered.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct ConnectionGone {
    connection_id: u64,
}

impl ConnectionGone {
    pub(crate) const fn new(connection_id: u64) -> Self {
        Self { connection_id }
    }
}

/// No log directory is left: the broker has to halt.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct LogDirsFailed {
    reason: String,
}

impl LogDirsFailed {
    pub(crate) const fn new(reason: String) -> Self {
        Self { reason }
    }
}
