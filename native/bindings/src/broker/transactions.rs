//! Questions that leaders on this broker ask transaction coordinators, and producer state.

use parking_lot::Mutex;
use pybroker_server::control_plane;
use pybroker_storage as storage;
use pyo3::prelude::*;

use crate::convert::shown;
use crate::uuid::Uuid;

/// A question whether partitions are part of a transaction. It must be answered once.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct TransactionQuestion {
    #[pyo3(get)]
    transactional_id: String,
    #[pyo3(get)]
    producer_id: i64,
    #[pyo3(get)]
    producer_epoch: i16,
    #[pyo3(get)]
    adds: bool,
    #[pyo3(get)]
    abortable: bool,
    #[pyo3(get)]
    partitions: Vec<(Uuid, i32)>,
    answer: Mutex<Option<control_plane::CodesSender>>,
}

impl From<control_plane::TransactionQuestion> for TransactionQuestion {
    fn from(asked: control_plane::TransactionQuestion) -> Self {
        Self {
            transactional_id: asked.transactional_id,
            producer_id: asked.producer_id,
            producer_epoch: asked.producer_epoch,
            adds: asked.adds,
            abortable: asked.abortable,
            partitions: asked
                .partitions
                .into_iter()
                .map(|tip| (Uuid(tip.topic_id.uuid()), tip.partition))
                .collect(),
            answer: Mutex::new(Some(asked.answer)),
        }
    }
}

#[pymethods]
impl TransactionQuestion {
    /// Answer the question. The answer is ignored if the connection has closed or the question was answered before.
    fn answer(&self, codes: Vec<i16>) {
        if let Some(answer) = self.answer.lock().take() {
            answer.send(codes);
        }
    }
}

/// A producer in the producer state of a partition.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct ActiveProducer {
    producer_id: i64,
    producer_epoch: i16,
    last_sequence: i32,
    last_timestamp_ms: i64,
    coordinator_epoch: i32,
    transaction_start: i64,
}

shown!(ActiveProducer);

impl From<storage::ActiveProducer> for ActiveProducer {
    fn from(producer: storage::ActiveProducer) -> Self {
        Self {
            producer_id: producer.producer_id,
            producer_epoch: producer.epoch,
            last_sequence: producer.last_sequence,
            last_timestamp_ms: producer.last_timestamp,
            coordinator_epoch: producer.coordinator_epoch,
            transaction_start: producer.transaction_start.unwrap_or(-1),
        }
    }
}
