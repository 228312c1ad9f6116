//! The queue that Python drains: requests, completions of Python's appends, ISR proposals, failures of log directories,
//! log lines.

use std::sync::Arc;

use pyo3::prelude::*;
use pyo3::types::PyList;

use super::isr::IsrProposal;
use super::log_lines;
use super::request::{Completion, ConnectionGone, LogDirsFailed, ReplicasOffline, Request};
use super::transactions::TransactionQuestion;
use crate::plane::DataPlane;
use crate::plane::control_queue::Item;

/// The queue from the data plane to the control plane.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeControlQueue(Arc<DataPlane>);

impl NativeControlQueue {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }
}

#[pymethods]
impl NativeControlQueue {
    fn wake_fd(&self) -> i32 {
        self.0.queue.fd()
    }

    /// Invalidate all cached responses.
    fn take_answers_back(&self) {
        self.0.metadata.cached_responses().invalidate_all();
    }

    /// Decode a large request. Call this on a separate thread. If the request is undecodable, log it, close its
    /// connection and return False.
    fn decode(&self, py: Python<'_>, request: &Bound<'_, Request>) -> bool {
        let request = request.get();
        let Err(error) = request.decode_large(py) else {
            return true;
        };
        log_lines::undecodable(py, &self.0, &request.description(), &error);
        request.close();
        false
    }

    /// Ask whether Python may write a log line that a client caused; native lines of this kind share the rate limit.
    /// Return the number of lines dropped since the last permitted one, or None if this line must be dropped.
    fn admit_line_about_client(&self) -> Option<u64> {
        self.0
            .server()
            .map_or(Some(0), |server| server.admit_line_about_client())
    }

    #[pyo3(signature = (max_items = 256))]
    fn drain<'py>(&self, py: Python<'py>, max_items: usize) -> PyResult<Bound<'py, PyList>> {
        // The server's threads hold the queue's lock only briefly and never take the GIL, so there is no need to
        // release it.
        let plane = &*self.0;
        let items = plane.queue.drain(max_items.max(1));
        log_lines::write(py, &plane.queue)?;
        let drained = PyList::empty(py);
        for item in items {
            match item {
                Item::Completed(completed) => {
                    drained.append(Bound::new(py, Completion::from(completed))?)?
                }
                Item::Proposed(proposal) => {
                    drained.append(Bound::new(py, IsrProposal::from(proposal))?)?
                }
                Item::Asked(question) => {
                    drained.append(Bound::new(py, TransactionQuestion::from(question))?)?
                }
                Item::Offline(partitions) => {
                    drained.append(Bound::new(py, ReplicasOffline::from(partitions))?)?
                }
                Item::Gone(connection_id) => {
                    drained.append(Bound::new(py, ConnectionGone::new(connection_id))?)?
                }
                Item::Failed(reason) => {
                    drained.append(Bound::new(py, LogDirsFailed::new(reason))?)?
                }
                Item::Request(request) => match Request::decode(py, request, plane) {
                    Ok(request) => drained.append(Bound::new(py, request)?)?,
                    Err(refused) => {
                        let (error, request) = *refused;
                        log_lines::undecodable(py, plane, &(&request).into(), &error);
                        request.reply.close();
                    }
                },
            }
        }
        Ok(drained)
    }
}
