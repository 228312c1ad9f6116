//! Requests that Python answers.

use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Instant;

use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use pybroker_protocol::ApiKey;
use pybroker_protocol::codec::Registry;
use pybroker_server::control_plane::{Bytes, ControlReply, ControlRequest, Peer, ReplySender};
use pybroker_server::quotas::EntityUsage;
use pyo3::exceptions::PyRuntimeError;
use pyo3::prelude::*;
use pyo3::sync::PyOnceLock;

use super::cached_responses::{CacheScope, CachedResponse};
use super::delegated_commits::{self, CommitLease, CommitTopic, ShardCommits};
use super::log_lines::RequestDescription;
use crate::codec;
use crate::plane::DataPlane;
use crate::plane::control_queue::{AppendCompletion, GoneNotice};
use crate::uuid::Uuid;

const ALTER_USER_SCRAM_CREDENTIALS: i16 = ApiKey::AlterUserScramCredentials.code();
/// APIs with a controller mutation quota.
const MUTATIONS: [i16; 3] = [
    ApiKey::CreateTopics.code(),
    ApiKey::DeleteTopics.code(),
    ApiKey::CreatePartitions.code(),
];
/// The key of ShareFetch. Records that a connection has acquired with it are released when the connection closes.
const SHARE_FETCH: i16 = ApiKey::ShareFetch.code();

/// A request that Python answers. Dropping it unanswered closes its connection.
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
    /// The decoded message; unset while a large body is not decoded.
    message: PyOnceLock<Py<PyAny>>,
    /// A large body that is not decoded yet. Decoding takes it.
    body: Mutex<Option<Bytes>>,
    elements: AtomicU32,
    time: Option<Arc<EntityUsage>>,
    /// Key and scope for the cache, if the response may be cached.
    cache: Option<CacheScope>,
    reply: Mutex<Option<ReplySender>>,
}

impl Request {
    /// Decode the body. On an error return the request itself; the caller must then close its connection, as Kafka
    /// does.
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
            cache: CacheScope::of(&request, plane),
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

/// Maximum size of a body that is decoded while the queue is drained. Decoding such a body takes at most a millisecond.
const DECODED_AT_ONCE_BYTES_MAX: usize = 16 * 1024;

/// Size below which a body cannot have many elements, so they need not be counted.
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
        // remaining bytes; this broker would close the connection.
        (Err(_), [whole @ .., 0]) if api_key == ALTER_USER_SCRAM_CREDENTIALS => decode(whole),
        (decoded, _) => decoded,
    }
}

impl Request {
    /// Decode a large body on a separate thread. After a `CodecError` the connection must be closed.
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

    /// Return the description of the request for the log.
    pub(super) fn description(&self) -> RequestDescription<'_> {
        RequestDescription {
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
    /// The decoded message; None for a large request that is not decoded yet.
    #[getter]
    fn message(&self, py: Python<'_>) -> Option<Py<PyAny>> {
        self.message.get(py).map(|message| message.clone_ref(py))
    }

    /// Number of elements in all arrays, or 0 for a request with few elements.
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

    /// Whether the request came from a broker, over the inter-broker listener.
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

    /// Name and version of the client software, as the client reported them; otherwise empty.
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

    /// Whether the client has a request quota, for which `spent` counts time.
    #[getter]
    fn timed(&self) -> bool {
        self.time.is_some()
    }

    /// Count nanoseconds that the control plane spent on the request.
    fn spent(&self, nanoseconds: u64) {
        if let Some(usage) = &self.time {
            usage.add(nanoseconds, Instant::now());
        }
    }

    #[getter]
    fn cancelled(&self) -> bool {
        self.reply
            .lock()
            .as_ref()
            .is_none_or(ReplySender::is_cancelled)
    }

    /// Record that the handler starts to wait. The time after this call does not count as work.
    fn waits(&self) {
        if let Some(reply) = &mut *self.reply.lock() {
            reply.waits();
        }
    }

    /// Encode and send the response. If it has more than `elements_max` elements, send nothing and return False.
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

    /// Encode and send a response of any size on a separate thread.
    fn reply_large(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let body = self.encode_at(py, message, true)?;
        self.send_body(message, body.into())
    }

    /// Encode, send and cache the response. Data threads repeat it to clients that may read for the group, until it is
    /// invalidated. Return `None` if the response to this request cannot be cached.
    fn reply_cached(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        group: &str,
    ) -> PyResult<Option<CachedResponse>> {
        let body = self.encode(py, message)?;
        let Some(cache) = &self.cache else {
            self.send(ControlReply::Body(body.into()))?;
            return Ok(None);
        };
        let answer = cache.insert(group, body);
        self.send(ControlReply::Cached(Arc::clone(&answer)))?;
        Ok(Some(CachedResponse::new(answer)))
    }

    /// Encode and send the response of an OffsetCommit, and delegate the member's next commits on this connection to
    /// the data threads until the delegation is revoked. Return `None` if this request's commits cannot be delegated.
    #[expect(clippy::too_many_arguments, reason = "what a lease is for")]
    fn reply_commits(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        shard: &Bound<'_, ShardCommits>,
        topics: Vec<CommitTopic>,
        metadata_bytes_max: usize,
        timeout_ms: u64,
        before: Option<&Bound<'_, CommitLease>>,
    ) -> PyResult<Option<CommitLease>> {
        let body = self.encode(py, message)?.into();
        let bounds = delegated_commits::bounds(topics, metadata_bytes_max, timeout_ms)?;
        let before = before.map(|lease| lease.get());
        let given = match &self.cache {
            Some(cache) => cache.delegate_commits(shard.get(), bounds, before)?,
            None => None,
        };
        let Some(lease) = given else {
            self.send(ControlReply::Body(body))?;
            return Ok(None);
        };
        let kept = Arc::clone(&lease);
        self.send(ControlReply::Delegated { body, lease: kept })?;
        Ok(Some(CommitLease(lease)))
    }

    /// Send the response of a successful SaslAuthenticate.
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

    /// Send the response, then close the connection.
    fn reply_and_close(&self, py: Python<'_>, message: &Bound<'_, PyAny>) -> PyResult<()> {
        let body = self.encode(py, message)?;
        self.send(ControlReply::Last(body.into()))
    }

    /// Close the connection.
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

/// Completion of an append that Python started: the records are committed, or the append has failed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct Completion {
    token: u64,
    error_code: i16,
    base_offset: i64,
    log_append_time: i64,
}

impl From<AppendCompletion> for Completion {
    fn from(completed: AppendCompletion) -> Self {
        let AppendCompletion {
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

/// Partitions whose log directory has failed.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct ReplicasOffline {
    /// The partitions as (topic id, partition).
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

/// A connection that had acquired records has closed, after its last request was answered.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct ConnectionGone {
    connection_id: u64,
}

impl ConnectionGone {
    pub(crate) const fn new(connection_id: u64) -> Self {
        Self { connection_id }
    }
}

/// All log directories have failed, so the broker must halt.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct LogDirsFailed {
    reason: String,
}

impl LogDirsFailed {
    pub(crate) const fn new(reason: String) -> Self {
        Self { reason }
    }
}
