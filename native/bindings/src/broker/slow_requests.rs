//! Slow requests for Python.

use std::time::UNIX_EPOCH;

use pybroker_protocol::{Api, Plane};
use pybroker_server::slow_requests::SlowRequest as Slow;
use pyo3::prelude::*;

/// A slow request.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct SlowRequest {
    api: &'static str,
    version: i16,
    /// When the request arrived, in nanoseconds since the Unix epoch.
    received_ns: u64,
    stages_us: Vec<u64>,
    client_id: String,
    principal: String,
    listener: String,
    host: String,
    port: u16,
    control_plane: bool,
}

impl SlowRequest {
    pub(super) fn new(slow: &Slow) -> Self {
        let api = Api::find(slow.api_key);
        let since = slow.received.duration_since(UNIX_EPOCH).unwrap_or_default();
        Self {
            api: api.map_or("Other", |api| api.name()),
            version: slow.version,
            received_ns: u64::try_from(since.as_nanos()).unwrap_or(u64::MAX),
            stages_us: slow.stages_us.to_vec(),
            client_id: slow.client_id.to_string(),
            principal: slow.principal.to_string(),
            listener: slow.listener.to_string(),
            host: slow.address.ip().to_canonical().to_string(),
            port: slow.address.port(),
            control_plane: api.is_some_and(|api| api.plane != Plane::Native),
        }
    }
}
