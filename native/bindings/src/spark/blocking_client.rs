//! Requests for planning, on the driver.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pybroker_spark::{Client, Node};
use pyo3::prelude::*;

use super::connected::{client_of, spark_error};
use crate::codec::{decode_response_body, encode_request_body};

/// A blocking client of a cluster; `settings` under Kafka's names.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct BlockingClient(Mutex<Client>);

#[pymethods]
impl BlockingClient {
    #[new]
    fn new(settings: BTreeMap<String, String>) -> PyResult<Self> {
        Ok(Self(Mutex::new(client_of(&settings)?)))
    }

    /// The cluster's id.
    fn cluster_id(&self, py: Python<'_>) -> PyResult<Option<String>> {
        py.detach(|| self.0.lock().cluster_id())
            .map_err(|error| spark_error(&error))
    }

    /// The highest version of an API key that `node` and this client know; None if there is none.
    #[pyo3(signature = (api_key, low, high, node = None))]
    fn version(
        &self,
        py: Python<'_>,
        api_key: i16,
        low: i16,
        high: i16,
        node: Option<i32>,
    ) -> PyResult<Option<i16>> {
        py.detach(|| self.0.lock().version(node_of(node), api_key, low..=high))
            .map_err(|error| spark_error(&error))
    }

    /// Sends a message of `pybroker.protocol.messages` and gives the response's.
    #[pyo3(signature = (message, version, node = None))]
    fn request(
        &self,
        py: Python<'_>,
        message: &Bound<'_, PyAny>,
        version: i16,
        node: Option<i32>,
    ) -> PyResult<Py<PyAny>> {
        let (api_key, flexible, body) = encode_request_body(py, message, version)?;
        let answer = py
            .detach(|| {
                let mut client = self.0.lock();
                client.call(node_of(node), api_key, version, flexible, &body)
            })
            .map_err(|error| spark_error(&error))?;
        decode_response_body(py, api_key, version, &answer)
    }
}

/// None: anyone; −1: the controller.
fn node_of(node: Option<i32>) -> Node {
    match node {
        None => Node::Any,
        Some(-1) => Node::Controller,
        Some(id) => Node::Broker(id),
    }
}
