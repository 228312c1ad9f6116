//! The partitions hosted by this broker: state changes, records and positions.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use pybroker_model::{
    ControlType, TopicIdPartition, ValidBatches, end_transaction_marker, validate_produce,
};
use pybroker_protocol::ErrorCode;
use pybroker_replica::{AppendInfo, BrokerLogSettings, OffsetSpec, Partition, PartitionError};
use pybroker_server::clock::now_ms;
use pybroker_storage::AppendOrigin;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::fetched::{self, FetchedBatches, RecordsWatch};
use super::orders::{PartitionOrder, StopOrder, partition_orders};
use super::records::{self, StoredRecords};
use super::request::Completion;
use super::topic_config::{parse, topic_config};
use super::transactions::ActiveProducer;
use crate::convert::{batch_of, shown, tip};
use crate::errors::{native_error, partition_code, partition_error};
use crate::plane::DataPlane;
use crate::plane::block_on::block_on;
use crate::plane::control_queue::AppendCompletion;
use crate::plane::pending_append;
use crate::plane::record_watch;
use crate::uuid::Uuid;

/// Offsets and size of a hosted partition's log.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct PartitionOffsets {
    log_start_offset: i64,
    high_watermark: i64,
    last_stable_offset: i64,
    log_end_offset: i64,
    leader_epoch: i32,
    last_epoch: i32,
    size_bytes: u64,
    lags_epoch_start: bool,
}

/// Start and end offsets of a partition's log.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct PartitionEnds {
    partition: i32,
    log_start_offset: i64,
    log_end_offset: i64,
}

/// Role of this broker for a hosted partition.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct PartitionRole {
    partition: i32,
    leader_epoch: i32,
    leader: i32,
    fenced: bool,
    offline: bool,
}

/// Lag of a reader of a partition.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct Lag {
    records: i64,
    oldest_ms: i64,
}

shown!(Lag, PartitionOffsets, PartitionEnds, PartitionRole);

/// The partitions hosted by one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativePartitions {
    plane: Arc<DataPlane>,
    next_token: AtomicU64,
}

impl NativePartitions {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self {
            plane,
            next_token: AtomicU64::new(1),
        }
    }

    fn partition(&self, topic_id: Uuid, partition: i32) -> PyResult<Option<Arc<Partition>>> {
        self.plane.partition(tip(topic_id, partition)?)
    }

    fn hosted(&self, topic_id: Uuid, partition: i32) -> PyResult<Arc<Partition>> {
        self.partition(topic_id, partition)?.ok_or_else(|| {
            native_error(
                ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
                format!("{}-{partition} is not hosted here", topic_id.0),
            )
        })
    }

    fn append_as(
        &self,
        py: Python<'_>,
        tip: TopicIdPartition,
        leader_epoch: i32,
        origin: AppendOrigin,
        batch: Vec<u8>,
    ) -> PyResult<u64> {
        let (token, ended) = self.begin(py, tip, leader_epoch, origin, batch)?;
        if let Some(completed) = ended {
            self.plane.queue.complete(completed);
        }
        Ok(token)
    }

    /// Return the completion if the append has already completed, otherwise a token.
    fn append_now<'py>(
        &self,
        py: Python<'py>,
        tip: TopicIdPartition,
        leader_epoch: i32,
        origin: AppendOrigin,
        batch: Vec<u8>,
    ) -> PyResult<Bound<'py, PyAny>> {
        let (token, ended) = self.begin(py, tip, leader_epoch, origin, batch)?;
        Ok(match ended {
            Some(completed) => Bound::new(py, Completion::from(completed))?.into_any(),
            None => token.into_pyobject(py)?.into_any(),
        })
    }

    /// Start an append. Return its token, and the result if it is known immediately. Otherwise the completion goes to
    /// the queue.
    fn begin(
        &self,
        py: Python<'_>,
        tip: TopicIdPartition,
        leader_epoch: i32,
        origin: AppendOrigin,
        batch: Vec<u8>,
    ) -> PyResult<(u64, Option<AppendCompletion>)> {
        let token = self.next_token.fetch_add(1, Relaxed);
        let hosted = self.plane.partition(tip)?;
        let queue = &self.plane.queue;
        // Return no error after this point, because the token's owner waits for a completion.
        let ended = py.detach(|| {
            let Some(hosted) = hosted else {
                return Some(pending_append::failed(token, &PartitionError::NotLeader));
            };
            match append_batch(&hosted, leader_epoch, origin, batch) {
                Ok(info) => {
                    let completed = AppendCompletion {
                        token,
                        error_code: 0,
                        base_offset: info.base_offset,
                        log_append_time: info.log_append_time,
                    };
                    pending_append::watch(queue, completed, hosted.committed(&info))
                }
                Err(error) => Some(pending_append::failed(token, &error)),
            }
        });
        Ok((token, ended))
    }
}

#[pymethods]
impl NativePartitions {
    fn apply(&self, py: Python<'_>, orders: Vec<Bound<'_, PartitionOrder>>) -> PyResult<Vec<i16>> {
        let replicas = self.plane.replicas()?;
        let orders = partition_orders(py, &orders, &replicas.log_settings())?;
        let results = py.detach(|| replicas.apply(&orders, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn stop(&self, py: Python<'_>, orders: Vec<StopOrder>) -> PyResult<Vec<i16>> {
        let replicas = self.plane.replicas()?;
        let orders = orders
            .iter()
            .map(StopOrder::checked)
            .collect::<PyResult<Vec<_>>>()?;
        let results = py.detach(|| replicas.stop(&orders, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn restore(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        topic: &str,
        partitions: Vec<i32>,
    ) -> PyResult<Vec<i16>> {
        let replicas = self.plane.replicas()?;
        let tips = partitions
            .into_iter()
            .map(|partition| tip(topic_id, partition))
            .collect::<PyResult<Vec<_>>>()?;
        let topic: Arc<str> = topic.into();
        let results = py.detach(|| replicas.restore(&tips, &topic, now_ms()));
        Ok(results.iter().map(code_of).collect())
    }

    fn set_fenced(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        fenced: bool,
    ) -> PyResult<Vec<PartitionEnds>> {
        let replicas = self.plane.replicas()?;
        let id = crate::convert::topic_id(topic_id)?;
        let ends = py.detach(|| replicas.set_fenced(id, fenced));
        Ok(ends
            .into_iter()
            .map(
                |(partition, log_start_offset, log_end_offset)| PartitionEnds {
                    partition,
                    log_start_offset,
                    log_end_offset,
                },
            )
            .collect())
    }

    fn roles(&self, topic_id: Uuid) -> PyResult<Vec<PartitionRole>> {
        let replicas = self.plane.replicas()?;
        let roles = replicas.roles(crate::convert::topic_id(topic_id)?);
        Ok(roles
            .into_iter()
            .map(|role| PartitionRole {
                partition: role.partition,
                leader_epoch: role.leader_epoch,
                leader: role.leader,
                fenced: role.fenced,
                offline: role.offline,
            })
            .collect())
    }

    /// Raise `ValueError` if `set_topic_config` would reject the settings.
    #[staticmethod]
    fn check_topic_config(config: &Bound<'_, PyDict>) -> PyResult<()> {
        parse(config, &BrokerLogSettings::default()).map(drop)
    }

    fn set_topic_config(&self, topic_id: Uuid, config: &Bound<'_, PyDict>) -> PyResult<()> {
        let replicas = self.plane.replicas()?;
        let id = crate::convert::topic_id(topic_id)?;
        let config = Arc::new(topic_config(config, &replicas.log_settings())?);
        replicas.set_topic_config(id, &config);
        Ok(())
    }

    /// Append records. Return a token. With `at_once`, return the completion instead if the append has completed.
    #[pyo3(signature = (topic_id, partition, records, timestamp_ms, leader_epoch=-1, producer=None, *, at_once=false))]
    #[expect(clippy::too_many_arguments, reason = "one call for each batch")]
    fn append<'py>(
        &self,
        py: Python<'py>,
        topic_id: Uuid,
        partition: i32,
        records: Vec<Bound<'py, PyAny>>,
        timestamp_ms: i64,
        leader_epoch: i32,
        producer: Option<(i64, i16)>,
        at_once: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let batch = batch_of(&records, timestamp_ms, producer)?;
        let origin = AppendOrigin::Coordinator;
        let tip = tip(topic_id, partition)?;
        if at_once {
            return self.append_now(py, tip, leader_epoch, origin, batch);
        }
        let token = self.append_as(py, tip, leader_epoch, origin, batch)?;
        Ok(token.into_pyobject(py)?.into_any())
    }

    /// Append a finished batch, like a Produce request with acks=all.
    fn append_batch(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        batch: Vec<u8>,
    ) -> PyResult<u64> {
        self.append_as(
            py,
            tip(topic_id, partition)?,
            -1,
            AppendOrigin::Client,
            batch,
        )
    }

    /// Append a transaction marker. Return a token, or the completion instead if the append has completed. `marker` is
    /// (producer id, producer epoch, coordinator epoch).
    #[pyo3(signature = (topic_id, partition, marker, committed, timestamp_ms, raised=false))]
    #[expect(clippy::too_many_arguments, reason = "one call for each marker")]
    fn append_marker<'py>(
        &self,
        py: Python<'py>,
        topic_id: Uuid,
        partition: i32,
        marker: (i64, i16, i32),
        committed: bool,
        timestamp_ms: i64,
        raised: bool,
    ) -> PyResult<Bound<'py, PyAny>> {
        let kind = if committed {
            ControlType::Commit
        } else {
            ControlType::Abort
        };
        let (producer_id, epoch, coordinator_epoch) = marker;
        let batch =
            end_transaction_marker(producer_id, epoch, kind, coordinator_epoch, timestamp_ms)
                .map_err(|error| native_error(ErrorCode::UNKNOWN_SERVER_ERROR.0, error))?;
        let origin = if raised {
            AppendOrigin::Raised
        } else {
            AppendOrigin::Coordinator
        };
        self.append_now(py, tip(topic_id, partition)?, -1, origin, batch)
    }

    fn producers(&self, topic_id: Uuid, partition: i32) -> PyResult<Vec<ActiveProducer>> {
        let hosted = self.hosted(topic_id, partition)?;
        let producers = hosted
            .producers()
            .map_err(|error| partition_error(&error))?;
        Ok(producers.into_iter().map(ActiveProducer::from).collect())
    }

    fn read_records(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
        max_bytes: usize,
    ) -> PyResult<StoredRecords> {
        let hosted = self.hosted(topic_id, partition)?;
        let read = py
            .detach(|| records::read(&hosted, offset, max_bytes))
            .map_err(|error| partition_error(&error))?;
        StoredRecords::new(py, &read)
    }

    /// Read batches for a share group. Their bytes stay in native memory. Return `None` if they are not in the page
    /// cache and `wait` is false.
    fn fetch(
        &self,
        py: Python<'_>,
        partition: (Uuid, i32),
        offset: i64,
        limits: (usize, i64),
        read_committed: bool,
        wait: bool,
    ) -> PyResult<Option<FetchedBatches>> {
        let hosted = self.hosted(partition.0, partition.1)?;
        let limits = fetched::Limits {
            bytes_max: limits.0,
            records_max: limits.1,
            read_committed,
            wait,
        };
        py.detach(|| fetched::fetch(&hosted, offset, &limits))
            .map_err(|error| partition_error(&error))
    }

    fn watch(
        &self,
        topic_id: Uuid,
        partition: i32,
        bound: i64,
        read_committed: bool,
    ) -> PyResult<RecordsWatch> {
        let token = self.next_token.fetch_add(1, Relaxed);
        let hosted = self.partition(topic_id, partition)?;
        let isolation = fetched::isolation(read_committed);
        let queue = &self.plane.queue;
        let registration = record_watch::start(queue, token, hosted.as_deref(), isolation, bound);
        Ok(RecordsWatch::new(token, registration))
    }

    /// Return the first offset whose record has at least this timestamp, or -1 if there is none.
    fn offset_for_timestamp(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        timestamp_ms: i64,
        read_committed: bool,
    ) -> PyResult<i64> {
        let hosted = self.hosted(topic_id, partition)?;
        let isolation = fetched::isolation(read_committed);
        let listed = py
            .detach(|| hosted.list_offset(OffsetSpec::Timestamp(timestamp_ms), isolation, -1))
            .map_err(|error| partition_error(&error))?;
        Ok(listed.offset)
    }

    fn offsets(&self, topic_id: Uuid, partition: i32) -> PyResult<Option<PartitionOffsets>> {
        Ok(self
            .partition(topic_id, partition)?
            .map(|hosted| PartitionOffsets {
                log_start_offset: hosted.log_start_offset(),
                high_watermark: hosted.high_watermark(),
                last_stable_offset: hosted.last_stable_offset(),
                log_end_offset: hosted.log_end_offset(),
                leader_epoch: hosted.leader_epoch(),
                last_epoch: hosted.last_epoch(),
                size_bytes: hosted.size_bytes(),
                lags_epoch_start: hosted.lags_epoch_start(),
            }))
    }

    fn lag(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
    ) -> PyResult<Option<Lag>> {
        let hosted = self.partition(topic_id, partition)?;
        let lag = py.detach(|| hosted.and_then(|hosted| hosted.lag(offset)));
        Ok(lag.map(|(records, oldest_ms)| Lag { records, oldest_ms }))
    }

    #[pyo3(signature = (topic_id, partition, offset, flush_wait_s=0.0))]
    fn delete_records(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        offset: i64,
        flush_wait_s: f64,
    ) -> PyResult<i64> {
        let replicas = self.plane.replicas()?;
        let tip = tip(topic_id, partition)?;
        let hosted = self.partition(topic_id, partition)?;
        let wait = Duration::try_from_secs_f64(flush_wait_s).unwrap_or_default();
        py.detach(|| {
            if let Some(hosted) = hosted
                && (offset < 0 || offset > hosted.high_watermark())
                && let Some(flush) = hosted.flush_under_way()
            {
                // Ignore a timeout or failure of the flush: `delete_records` checks the offset against the high
                // watermark.
                drop(block_on(flush, Instant::now() + wait));
            }
            replicas.delete_records(tip, offset)
        })
        .map_err(|error| partition_error(&error))
    }
}

fn append_batch(
    hosted: &Arc<Partition>,
    leader_epoch: i32,
    origin: AppendOrigin,
    mut batch: Vec<u8>,
) -> Result<AppendInfo, PartitionError> {
    let now_ms = now_ms();
    let batches = match origin {
        // Apply the topic's settings for producers.
        AppendOrigin::Client => validate_produce(&mut batch, &hosted.produce_rules(true, now_ms))?,
        _ => ValidBatches::checked_owned(batch)?,
    };
    hosted.append_from(origin, leader_epoch, batches, -1, now_ms)
}

fn code_of(result: &Result<(), PartitionError>) -> i16 {
    result.as_ref().map_or_else(partition_code, |()| 0)
}
