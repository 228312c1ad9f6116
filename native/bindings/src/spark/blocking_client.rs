//! Requests with which the Spark driver plans a job.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pybroker_client::{Client, Error, Node};
use pyo3::prelude::*;

use super::settings;
use crate::codec::{decode_response_body, encode_request_body};
use crate::errors::native_error;

/// A blocking client of a cluster, with settings under Kafka's names.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct BlockingClient {
    client: Mutex<Client>,
    /// `delivery.timeout.ms`.
    #[pyo3(get)]
    delivery_timeout_ms: u64,
    /// `isolation.level`.
    #[pyo3(get)]
    read_committed: bool,
}

#[pymethods]
impl BlockingClient {
    #[new]
    fn new(settings: BTreeMap<String, String>) -> PyResult<Self> {
        let settings = settings::read(&settings)?;
        Ok(Self {
            delivery_timeout_ms: settings.client.delivery_timeout.as_millis() as u64,
            read_committed: settings.fetch.read_committed,
            client: Mutex::new(Client::new(settings.client)),
        })
    }

    /// Return the cluster's id.
    fn cluster_id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        self.ask(py, Client::cluster_id)
    }

    /// Return the highest version of an API key that `node` and this client support, or None.
    #[pyo3(signature = (api_key, low, high, node = None))]
    fn version(
        &self,
        py: Python<'_>,
        api_key: i16,
        low: i16,
        high: i16,
        node: Option<i32>,
    ) -> PyResult<Option<i16>> {
        self.ask(py, |client| {
            client.version(node_of(node), api_key, low..=high)
        })
    }

    /// Send a message of `pybroker.protocol.messages` and return the response.
    #[pyo3(signature = (message, version, node = None))]
    fn request(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        version: i16,
        node: Option<i32>,
    ) -> PyResult<Py<PyAny>> {
        let (api_key, body) = encode_request_body(py, message, version)?;
        let answer = self.ask(py, |client| {
            client.call(node_of(node), api_key, version, &body)
        })?;
        decode_response_body(py, api_key, version, &answer)
    }
}

impl BlockingClient {
    /// Run a request without the GIL.
    fn ask<T: Send>(
        &self,
        py: Python<'_>,
        ask: impl Send + FnOnce(&mut Client) -> Result<T, Error>,
    ) -> PyResult<T> {
        py.detach(|| ask(&mut self.client.lock()))
            .map_err(|error| native_error(error.code().0, error))
    }
}

/// Convert a node id: None means any broker, −1 the controller.
fn node_of(node: Option<i32>) -> Node {
    match node {
        None => Node::Any,
        Some(-1) => Node::Controller,
        Some(id) => Node::Broker(id),
    }
}
