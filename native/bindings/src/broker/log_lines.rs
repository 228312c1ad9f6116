//! Native log lines. They go to Python's logger `pybroker.native` when the event loop drains the queue, so that data
//! threads need not take the GIL for a line.

use pybroker_server::config::LogLevel;
use pybroker_server::control_plane::{ControlRequest, Peer};
use pyo3::intern;
use pyo3::prelude::*;

use crate::plane::DataPlane;
use crate::plane::control_queue::ControlQueue;

const WARNING: u8 = 30;

/// Return Python's number of a log level.
const fn number(level: LogLevel) -> u8 {
    match level {
        LogLevel::Info => 20,
        LogLevel::Warning => WARNING,
        LogLevel::Error => 40,
    }
}

/// Write the queued lines.
pub(super) fn write(py: Python<'_>, queue: &ControlQueue) -> PyResult<()> {
    let (lines, dropped) = queue.take_log();
    if lines.is_empty() && dropped == 0 {
        return Ok(());
    }
    for (level, text) in lines {
        line(py, number(level), &text)?;
    }
    if dropped > 0 {
        line(
            py,
            WARNING,
            &format!("{dropped} lines were dropped, the log could not keep up"),
        )?;
    }
    Ok(())
}

/// Description of a request in the log.
pub(super) struct RequestDescription<'a> {
    pub(super) peer: &'a Peer,
    pub(super) api_key: i16,
    pub(super) api_version: i16,
    pub(super) client_id: Option<&'a str>,
}

impl<'a> From<&'a ControlRequest> for RequestDescription<'a> {
    fn from(request: &'a ControlRequest) -> Self {
        RequestDescription {
            peer: &request.peer,
            api_key: request.api_key,
            api_version: request.api_version,
            client_id: request.client_id.as_deref(),
        }
    }
}

/// Log an undecodable request, within the rate limit of lines about clients.
pub(super) fn undecodable(
    py: Python<'_>,
    plane: &DataPlane,
    request: &RequestDescription<'_>,
    error: &PyErr,
) {
    let Some(server) = plane.server() else {
        return;
    };
    // Put the client's text last, because the length limit truncates the end of the line.
    let text = format!(
        "closing connection {} from {}: request with API key {} v{}: {} (client {:?})",
        request.peer.connection_id,
        request.peer.address,
        request.api_key,
        request.api_version,
        error.value(py),
        request.client_id.unwrap_or_default(),
    );
    server.line_about_client(LogLevel::Warning, &text);
}

fn line(py: Python<'_>, level: u8, text: &str) -> PyResult<()> {
    let logger = py
        .import(intern!(py, "logging"))?
        .call_method1(intern!(py, "getLogger"), ("pybroker.native",))?;
    // Pass the text as an argument, so that a per cent sign in it is not a format.
    logger.call_method1(intern!(py, "log"), (level, "%s", text))?;
    Ok(())
}
