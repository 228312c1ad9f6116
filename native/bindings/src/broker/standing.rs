//! Cached responses that data threads repeat until Python invalidates them.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::ApiKey;
use pybroker_protocol::codec::Registry;
use pybroker_server::cached_responses::{
    self, REQUEST_BYTES_MAX, StandingAnswers, StandingRequest,
};
use pybroker_server::control_plane::ControlRequest;
use pybroker_server::delegated_commits::{self, CommitBounds};
use pyo3::prelude::*;

use super::commits::{CommitRight, ShardCommits};
use crate::codec::CodecError;
use crate::plane::DataPlane;

/// Requests that group members send every few seconds, mostly unchanged.
const REPEATED: [i16; 3] = [
    ApiKey::Heartbeat.code(),
    ApiKey::ConsumerGroupHeartbeat.code(),
    ApiKey::OffsetCommit.code(),
];

/// Key and scope of a cached response.
pub(super) struct Repeats {
    request: StandingRequest,
    all: StandingAnswers,
}

impl Repeats {
    /// Return `None` if the response to this request cannot be cached.
    pub(super) fn of(request: &ControlRequest, plane: &DataPlane) -> Option<Self> {
        let repeated = REPEATED.contains(&request.api_key)
            && request.peer.registry == Registry::Client
            && (request.body.len() <= REQUEST_BYTES_MAX
                // Only the start of an OffsetCommit is kept.
                || request.api_key == ApiKey::OffsetCommit.code());
        repeated.then(|| Self {
            request: StandingRequest {
                api_key: request.api_key,
                api_version: request.api_version,
                body: request.body.clone(),
            },
            all: plane.metadata.standing().clone(),
        })
    }

    pub(super) fn give(
        &self,
        group: &str,
        answer: Vec<u8>,
    ) -> Arc<cached_responses::StandingAnswer> {
        self.all
            .give(self.request.clone(), group, answer.into(), Instant::now())
    }

    /// Delegate commits. `None`: commits of this version cannot be delegated.
    pub(super) fn give_commits(
        &self,
        shard: &ShardCommits,
        bounds: CommitBounds,
        before: Option<&CommitRight>,
    ) -> PyResult<Option<Arc<delegated_commits::CommitRight>>> {
        let request = (self.request.api_version, &*self.request.body);
        let before = before.map(|right| &*right.0);
        let now = Instant::now();
        delegated_commits::CommitRight::give(&self.all, &shard.0, request, bounds, before, now)
            .map_err(|error| CodecError::new_err(error.to_string()))
    }
}

/// A cached response, held by the code that invalidates it.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct StandingAnswer(Arc<cached_responses::StandingAnswer>);

impl StandingAnswer {
    pub(super) const fn new(answer: Arc<cached_responses::StandingAnswer>) -> Self {
        Self(answer)
    }
}

#[pymethods]
impl StandingAnswer {
    fn take_back(&self) {
        self.0.take_back();
    }

    fn silent_ms(&self) -> u64 {
        self.0.silent(Instant::now()).as_millis() as u64
    }
}
