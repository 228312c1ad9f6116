//! Answers that data threads repeat until Python takes them back.

use std::sync::Arc;
use std::time::Instant;

use pybroker_protocol::ApiKey;
use pybroker_protocol::codec::Registry;
use pybroker_server::control_plane::ControlRequest;
use pybroker_server::standing::{self, REQUEST_BYTES_MAX, StandingAnswers, StandingRequest};
use pyo3::prelude::*;

use crate::plane::DataPlane;

/// What members of groups send every few seconds, and mostly to no other end than to be heard.
const HEARTBEATS: [i16; 2] = [
    ApiKey::Heartbeat.code(),
    ApiKey::ConsumerGroupHeartbeat.code(),
];

/// What an answer is kept with.
pub(super) struct Repeats {
    request: StandingRequest,
    all: StandingAnswers,
}

impl Repeats {
    /// `None`: what is asked is not repeated.
    pub(super) fn of(request: &ControlRequest, plane: &DataPlane) -> Option<Self> {
        let repeated = HEARTBEATS.contains(&request.api_key)
            && request.peer.registry == Registry::Client
            && request.body.len() <= REQUEST_BYTES_MAX;
        repeated.then(|| Self {
            request: StandingRequest {
                api_key: request.api_key,
                api_version: request.api_version,
                body: request.body.clone(),
            },
            all: plane.metadata.standing().clone(),
        })
    }

    pub(super) fn give(&self, group: &str, answer: Vec<u8>) -> Arc<standing::StandingAnswer> {
        self.all
            .give(self.request.clone(), group, answer.into(), Instant::now())
    }
}

/// An answer that stands, as whoever takes it back holds it.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct StandingAnswer(Arc<standing::StandingAnswer>);

impl StandingAnswer {
    pub(super) const fn new(answer: Arc<standing::StandingAnswer>) -> Self {
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
