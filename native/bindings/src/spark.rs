//! What `pybroker.spark` needs of the native core: Arrow batches in, Arrow batches out, and requests for planning.
//!
//! Arrow data crosses as PyCapsules (the Arrow PyCapsule interface): no copy, no dependency on pyarrow. The GIL is
//! released while rows are encoded, decoded, sent or awaited.

mod capsules;

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pybroker_spark::{
    Client, Column, Error, Node, Settings, Sink, SinkPlan, Source, SourcePlan, Staging, Target,
};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use crate::codec::{decode_response_body, encode_request_body};
use crate::errors::native_error;
use crate::uuid::Uuid;
pub(crate) use capsules::ArrowBatch;

fn spark_error(error: &Error) -> PyErr {
    native_error(error.code().0, error)
}

fn client_of(settings: &BTreeMap<String, String>) -> PyResult<Client> {
    let settings = Settings::new(settings).map_err(|error| spark_error(&error))?;
    Ok(Client::new(settings))
}

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

/// (topic id, name, partitions, largest batch in bytes)
type TargetTuple = (Uuid, String, i32, usize);
/// (ingest id, batch id, epoch, writer, attempt)
type StagingTuple = (String, i64, i32, i32, i64);
/// (topic id, name, partition, records, payload bytes, batch bytes, crc, first offset, last offset)
type WrittenTuple = (Uuid, String, i32, u64, u64, u64, u32, i64, i64);

/// One task's writer.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ArrowSink(Mutex<Option<Sink>>);

#[pymethods]
impl ArrowSink {
    #[new]
    #[pyo3(signature = (settings, targets, *, topic_column = false, staging = None, seed = 0))]
    fn new(
        py: Python<'_>,
        settings: BTreeMap<String, String>,
        targets: Vec<TargetTuple>,
        topic_column: bool,
        staging: Option<StagingTuple>,
        seed: u64,
    ) -> PyResult<Self> {
        if targets.is_empty() && !topic_column {
            return Err(PyValueError::new_err("a sink needs a topic"));
        }
        let plan = SinkPlan {
            targets: targets
                .into_iter()
                .map(|(id, name, partitions, batch_bytes_max)| Target {
                    id: id.0,
                    name,
                    partitions,
                    batch_bytes_max,
                })
                .collect(),
            topic_column,
            staging: staging.map(|(ingest_id, batch_id, epoch, writer, attempt)| Staging {
                ingest_id,
                batch_id,
                epoch,
                writer,
                attempt,
            }),
        };
        let client = client_of(&settings)?;
        let sink = py
            .detach(|| Sink::open(client, plan, seed))
            .map_err(|error| spark_error(&error))?;
        Ok(Self(Mutex::new(Some(sink))))
    }

    /// Adds the rows of an Arrow batch: any object with `__arrow_c_array__`.
    fn write(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = capsules::import(batch)?;
        py.detach(|| {
            let mut sink = self.0.lock();
            sink.as_mut().map(|sink| sink.write(&rows))
        })
        .ok_or_else(finished)?
        .map_err(|error| spark_error(&error))
    }

    /// Sends the rest, waits for all answers and tells what was written; nothing can be added afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<WrittenTuple>> {
        let written = py
            .detach(|| self.0.lock().take().map(|mut sink| sink.finish()))
            .ok_or_else(finished)?
            .map_err(|error| spark_error(&error))?;
        Ok(written
            .into_iter()
            .map(|(id, name, partition, written)| {
                (
                    Uuid(id),
                    name,
                    partition,
                    written.records,
                    written.payload,
                    written.bytes,
                    written.crc(),
                    written.first_offset,
                    written.last_offset,
                )
            })
            .collect())
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the sink is finished")
}

/// Reads a range of offsets of one partition as Arrow batches.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ArrowSource(Mutex<Source>);

#[pymethods]
impl ArrowSource {
    #[new]
    #[pyo3(signature = (settings, topic_id, topic, partition, start, end, columns, cluster_id = String::new()))]
    #[allow(clippy::too_many_arguments)] // a constructor for Python, whose caller names them
    fn new(
        settings: BTreeMap<String, String>,
        topic_id: Uuid,
        topic: String,
        partition: i32,
        start: i64,
        end: i64,
        columns: Vec<String>,
        cluster_id: String,
    ) -> PyResult<Self> {
        let columns = columns
            .iter()
            .map(|name| {
                Column::named(name)
                    .ok_or_else(|| PyValueError::new_err(format!("there is no column {name}")))
            })
            .collect::<PyResult<Vec<Column>>>()?;
        if partition < 0 || start < 0 {
            return Err(PyValueError::new_err(
                "partitions and offsets are not negative",
            ));
        }
        let plan = SourcePlan {
            topic_id: topic_id.0,
            topic,
            cluster_id,
            partition,
            start,
            end,
            columns,
        };
        Ok(Self(Mutex::new(Source::new(client_of(&settings)?, plan))))
    }

    /// The offset that is read next.
    #[getter]
    fn position(&self) -> i64 {
        self.0.lock().position()
    }

    /// The next rows, an object with `__arrow_c_array__`; None at the end of the range.
    fn next(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let rows = py
            .detach(|| self.0.lock().next_rows())
            .map_err(|error| spark_error(&error))?;
        Ok(rows.map(ArrowBatch::new))
    }
}
