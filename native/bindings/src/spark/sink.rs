//! Writer of one Spark task.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pybroker_spark::{Sink, SinkPlan, StagingTarget, Target, Transaction};
use pyo3::exceptions::{PyRuntimeError, PyValueError};
use pyo3::prelude::*;

use super::capsules;
use super::settings::{self, spark_error};
use crate::convert::shown;
use crate::uuid::Uuid;

/// A topic to write to.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SinkTarget {
    topic_id: Uuid,
    topic: String,
    /// Number of partitions.
    partitions: i32,
    /// Maximum bytes of a batch for the topic.
    batch_bytes_max: usize,
}

/// An attempt of a writer in a staged ingest.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IngestAttempt {
    ingest_id: String,
    batch_id: i64,
    epoch: i32,
    writer: i32,
    attempt: i64,
}

/// Transaction of the rows, with the producer from InitProducerId.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SinkTransaction {
    transactional_id: String,
    producer_id: i64,
    producer_epoch: i16,
}

/// Summary of the rows written to one partition.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct WrittenPartition {
    topic_id: Uuid,
    topic: String,
    partition: i32,
    records: u64,
    /// Bytes of keys and values.
    payload_bytes: u64,
    batch_bytes: u64,
    /// CRC-32C over the batches' checksums.
    checksum: u32,
    /// Offset of the first record, or −1 if unknown.
    first_offset: i64,
    /// Offset of the last record, or −1 if unknown.
    last_offset: i64,
}

shown!(SinkTarget, IngestAttempt, SinkTransaction, WrittenPartition);

impl From<SinkTarget> for Target {
    fn from(target: SinkTarget) -> Self {
        Target {
            id: target.topic_id.0,
            name: target.topic,
            partitions: target.partitions,
            batch_bytes_max: target.batch_bytes_max,
        }
    }
}

impl From<IngestAttempt> for StagingTarget {
    fn from(given: IngestAttempt) -> Self {
        StagingTarget {
            ingest_id: given.ingest_id,
            batch_id: given.batch_id,
            epoch: given.epoch,
            writer: given.writer,
            attempt: given.attempt,
        }
    }
}

impl From<SinkTransaction> for Transaction {
    fn from(given: SinkTransaction) -> Self {
        Transaction {
            id: given.transactional_id,
            producer_id: given.producer_id,
            producer_epoch: given.producer_epoch,
        }
    }
}

/// Writer of one Spark task.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ArrowSink(Mutex<Option<Sink>>);

#[pymethods]
impl ArrowSink {
    #[new]
    #[pyo3(signature = (settings, targets, *, topic_column = false, staging = None, transaction = None, seed = 0))]
    fn new(
        py: Python<'_>,
        settings: BTreeMap<String, String>,
        targets: Vec<SinkTarget>,
        topic_column: bool,
        staging: Option<IngestAttempt>,
        transaction: Option<SinkTransaction>,
        seed: u64,
    ) -> PyResult<Self> {
        if targets.is_empty() && !topic_column {
            return Err(PyValueError::new_err("a sink needs a topic"));
        }
        let plan = SinkPlan {
            targets: targets.into_iter().map(Target::from).collect(),
            topic_column,
            staging: staging.map(StagingTarget::from),
            transaction: transaction.map(Transaction::from),
        };
        let settings = settings::read(&settings)?;
        let sink = py
            .detach(|| Sink::open(&settings, plan, seed))
            .map_err(|error| spark_error(&error))?;
        Ok(Self(Mutex::new(Some(sink))))
    }

    /// Add the rows of an Arrow batch: any object with `__arrow_c_array__`.
    fn write(&self, py: Python<'_>, batch: &Bound<'_, PyAny>) -> PyResult<()> {
        let rows = capsules::import(batch)?;
        py.detach(|| {
            let mut sink = self.0.lock();
            sink.as_mut().map(|sink| sink.write(&rows))
        })
        .ok_or_else(finished)?
        .map_err(|error| spark_error(&error))
    }

    /// Send the remaining rows, wait for all responses, and return a summary for each partition. No rows can be added
    /// afterwards.
    fn finish(&self, py: Python<'_>) -> PyResult<Vec<WrittenPartition>> {
        let written = py
            .detach(|| self.0.lock().take().map(|mut sink| sink.finish()))
            .ok_or_else(finished)?
            .map_err(|error| spark_error(&error))?;
        Ok(written
            .into_iter()
            .map(|(id, topic, partition, written)| WrittenPartition {
                topic_id: Uuid(id),
                topic,
                partition,
                records: written.records,
                payload_bytes: written.payload,
                batch_bytes: written.bytes,
                checksum: written.crc(),
                first_offset: written.first_offset,
                last_offset: written.last_offset,
            })
            .collect())
    }
}

fn finished() -> PyErr {
    PyRuntimeError::new_err("the sink is finished")
}
