//! Cached responses that data threads repeat until Python invalidates them.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::ApiKey;
use pybroker_protocol::codec::Registry;
use pybroker_server::cached_responses::{self, CachedResponses, REQUEST_BYTES_MAX, ResponseKey};
use pybroker_server::control_plane::ControlRequest;
use pybroker_server::delegated_commits::{self, CommitBounds};
use pyo3::prelude::*;

use super::delegated_commits::{CommitLease, ShardCommits};
use crate::codec::CodecError;
use crate::plane::DataPlane;

/// Requests that group members send every few seconds, mostly unchanged.
const REPEATED: [i16; 3] = [
    ApiKey::Heartbeat.code(),
    ApiKey::ConsumerGroupHeartbeat.code(),
    ApiKey::OffsetCommit.code(),
];

/// Key and scope of a cached response.
pub(super) struct CacheScope {
    key: ResponseKey,
    all: CachedResponses,
}

impl CacheScope {
    /// Return `None` if the response to this request cannot be cached.
    pub(super) fn of(request: &ControlRequest, plane: &DataPlane) -> Option<Self> {
        let repeated = REPEATED.contains(&request.api_key)
            && request.peer.registry == Registry::Client
            && (request.body.len() <= REQUEST_BYTES_MAX
                // For an OffsetCommit, only the start of the body is kept.
                || request.api_key == ApiKey::OffsetCommit.code());
        repeated.then(|| Self {
            key: ResponseKey {
                api_key: request.api_key,
                api_version: request.api_version,
                body: request.body.clone(),
            },
            all: plane.metadata.cached_responses().clone(),
        })
    }

    pub(super) fn insert(
        &self,
        group: &str,
        answer: Vec<u8>,
    ) -> Arc<cached_responses::CachedResponse> {
        self.all
            .cache(self.key.clone(), group, answer.into(), Instant::now())
    }

    /// Delegate a member's commits. Return `None` if commits of this version cannot be delegated.
    pub(super) fn delegate_commits(
        &self,
        shard: &ShardCommits,
        bounds: CommitBounds,
        before: Option<&CommitLease>,
    ) -> PyResult<Option<Arc<delegated_commits::CommitLease>>> {
        let request = (self.key.api_version, &*self.key.body);
        let before = before.map(|lease| &*lease.0);
        let now = Instant::now();
        delegated_commits::CommitLease::grant(&self.all, &shard.0, request, bounds, before, now)
            .map_err(|error| CodecError::new_err(error.to_string()))
    }
}

/// A cached response, for the code that will invalidate it.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct CachedResponse(Arc<cached_responses::CachedResponse>);

impl CachedResponse {
    pub(super) const fn new(answer: Arc<cached_responses::CachedResponse>) -> Self {
        Self(answer)
    }
}

#[pymethods]
impl CachedResponse {
    fn invalidate(&self) {
        self.0.invalidate();
    }

    fn idle_ms(&self) -> u64 {
        self.0.idle(Instant::now()).as_millis() as u64
    }
}
