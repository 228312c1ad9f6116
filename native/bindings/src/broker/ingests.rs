//! Staged ingest for the control plane: begin, two-phase commit, end, and queries.

use std::collections::BTreeMap;
use std::sync::Arc;

use pybroker_model::TimestampType;
use pybroker_protocol::ErrorCode;
use pybroker_replica::{CommitEntry, IngestError, IngestName, NewIngest, Preparation, Replicas};
use pybroker_server::clock::now_ms;
use pybroker_server::error_codes::of_ingest;
use pybroker_storage::StagedTotals;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use super::topic_config::topic_config;
use crate::convert::{shown, tip, topic_id};
use crate::errors::{native_error, partition_error};
use crate::plane::DataPlane;
use crate::uuid::Uuid;

/// (topic id, ingest id, batch id), which Python uses as a dictionary key.
type Key = (Uuid, String, i64);

/// One attempt's staged records for one partition, as a commit request lists them.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct ListedAttempt {
    partition: i32,
    writer: i32,
    attempt: i64,
    rows: i64,
    bytes: i64,
    /// CRC-32C over the batches' checksums.
    checksum: i64,
}

/// Staged records of one partition.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "pybroker._native")]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct StagedPartition {
    partition: i32,
    rows: i64,
    bytes: u64,
}

/// Offsets of a commit's records in one partition.
#[pyclass(frozen, get_all, eq, new = "from_fields", module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct AttachedPartition {
    base_offset: i64,
    end_offset: i64,
    /// Whether an earlier request had already applied the commit.
    repeated: bool,
    /// Whether the records are below the high watermark, so that every in-sync replica has them.
    committed: bool,
}

/// Parameters of the prepare phase, see `pybroker_replica::Preparation`.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct IngestPreparation {
    /// Number of the plan. It is 0 on a single broker.
    plan: u32,
    /// Whether this broker leads the listed partitions.
    leads: bool,
    /// For each partition, the brokers that must have the records on disk.
    holders: BTreeMap<i32, Vec<i32>>,
}

/// An ingest that accepts appends.
#[pyclass(frozen, get_all, eq, module = "pybroker._native")]
#[derive(Debug, PartialEq)]
pub(crate) struct OpenIngest {
    key: Key,
    epoch: i32,
    /// Time of the last append, or of the start of the ingest if there was none.
    touched_ms: i64,
    /// Number of attempts that have staged records.
    writers: usize,
    /// Totals over all attempts.
    partitions: Vec<StagedPartition>,
}

shown!(
    ListedAttempt,
    StagedPartition,
    AttachedPartition,
    IngestPreparation,
    OpenIngest
);

impl From<(i32, i64, u64)> for StagedPartition {
    fn from((partition, rows, bytes): (i32, i64, u64)) -> Self {
        Self {
            partition,
            rows,
            bytes,
        }
    }
}

/// The ingests of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeIngests(Arc<DataPlane>);

impl NativeIngests {
    pub(super) const fn new(plane: Arc<DataPlane>) -> Self {
        Self(plane)
    }

    /// Return the replicas. During a shutdown, fail with a Kafka error code, as for other errors.
    fn replicas(&self) -> PyResult<Arc<Replicas>> {
        self.0.open_replicas().ok_or_else(|| {
            native_error(
                ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
                "the broker is shut down",
            )
        })
    }
}

fn ingest_name((id, ingest_id, batch_id): Key) -> PyResult<IngestName> {
    Ok(IngestName {
        topic_id: topic_id(id)?,
        ingest_id: ingest_id.into(),
        batch_id,
    })
}

fn ingest_error(error: &IngestError) -> PyErr {
    native_error(of_ingest(error).0, error)
}

/// Reject a text that is not the name of an ingest directory, for instance because it contains a path.
fn checked(directory: String) -> PyResult<String> {
    let fine = !directory.is_empty()
        && directory
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if fine {
        Ok(directory)
    } else {
        Err(PyValueError::new_err(format!(
            "{directory:?} is not the name of an ingest directory"
        )))
    }
}

#[pymethods]
impl NativeIngests {
    fn open(
        &self,
        py: Python<'_>,
        key: Key,
        directory: String,
        epoch: i32,
        config: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let replicas = self.replicas()?;
        let new = NewIngest {
            name: ingest_name(key)?,
            directory: checked(directory)?,
            epoch,
            config: Arc::new(topic_config(config, &replicas.log_settings())?),
        };
        py.detach(|| replicas.open_ingest(new, now_ms()))
            .map_err(|error| ingest_error(&error))
    }

    fn prepare(
        &self,
        py: Python<'_>,
        key: Key,
        epoch: i32,
        preparation: IngestPreparation,
        listed: Vec<ListedAttempt>,
    ) -> PyResult<Vec<StagedPartition>> {
        let replicas = self.replicas()?;
        let name = ingest_name(key)?;
        let holders = preparation.holders.into_iter();
        let preparation = Preparation {
            plan: preparation.plan,
            leads: preparation.leads,
            holders: holders.map(|(index, all)| (index, all.into())).collect(),
        };
        let listed: Vec<CommitEntry> = listed
            .into_iter()
            .map(|one| {
                Ok(CommitEntry {
                    partition: one.partition,
                    writer: one.writer,
                    attempt: one.attempt,
                    totals: StagedTotals {
                        rows: one.rows,
                        bytes: u64::try_from(one.bytes).map_err(|_| out_of_range(one.bytes))?,
                        crc: u32::try_from(one.checksum).map_err(|_| out_of_range(one.checksum))?,
                    },
                })
            })
            .collect::<PyResult<_>>()?;
        let prepared = py
            .detach(|| replicas.prepare_ingest(&name, epoch, &preparation, &listed, now_ms()))
            .map_err(|error| ingest_error(&error))?;
        Ok(prepared.into_iter().map(StagedPartition::from).collect())
    }

    fn reopen(&self, key: Key, epoch: i32) -> PyResult<()> {
        self.replicas()?.reopen_ingest(&ingest_name(key)?, epoch);
        Ok(())
    }

    fn attach(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        directory: String,
        plan: u32,
        append_time: bool,
    ) -> PyResult<AttachedPartition> {
        let replicas = self.replicas()?;
        let tip = tip(topic_id, partition)?;
        let directory = checked(directory)?;
        let timestamps = if append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        };
        let (attached, committed) = py
            .detach(|| replicas.attach_ingest(tip, &directory, plan, timestamps, now_ms()))
            .map_err(|error| partition_error(&error))?;
        Ok(AttachedPartition {
            base_offset: attached.base_offset,
            end_offset: attached.end_offset,
            repeated: attached.repeated,
            committed,
        })
    }

    fn bring(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        brokers: Vec<i32>,
    ) -> PyResult<()> {
        let replicas = self.replicas()?;
        let tip = tip(topic_id, partition)?;
        py.detach(|| replicas.bring_staged(tip, &brokers, now_ms()))
            .map_err(|error| ingest_error(&error))
    }

    fn expire(&self, py: Python<'_>, key: Key, epoch: i32, before_ms: i64) -> PyResult<bool> {
        let replicas = self.replicas()?;
        let name = ingest_name(key)?;
        Ok(py.detach(|| replicas.expire_ingest(&name, epoch, before_ms)))
    }

    fn drop(&self, py: Python<'_>, key: Key, directory: String) -> PyResult<()> {
        let replicas = self.replicas()?;
        let (name, directory) = (ingest_name(key)?, checked(directory)?);
        py.detach(|| replicas.drop_ingest(&name, &directory))
            .map_err(|error| ingest_error(&error))
    }

    fn collect(&self, py: Python<'_>, keep: Vec<(Uuid, String)>) -> PyResult<usize> {
        let replicas = self.replicas()?;
        let keep: Vec<(String, String)> = keep
            .into_iter()
            .map(|(id, directory)| (id.0.to_hex(), directory))
            .collect();
        py.detach(|| replicas.collect_ingests(&keep))
            .map_err(|error| ingest_error(&error))
    }

    fn list(&self) -> PyResult<Vec<OpenIngest>> {
        let states = self.replicas()?.list_ingests();
        Ok(states
            .into_iter()
            .map(|state| OpenIngest {
                key: (
                    Uuid(state.name.topic_id.uuid()),
                    state.name.ingest_id.into_string(),
                    state.name.batch_id,
                ),
                epoch: state.epoch,
                touched_ms: state.touched_ms,
                writers: state.writers,
                partitions: state
                    .partitions
                    .into_iter()
                    .map(StagedPartition::from)
                    .collect(),
            })
            .collect())
    }
}

fn out_of_range(value: i64) -> PyErr {
    native_error(
        ErrorCode::INVALID_REQUEST.0,
        format!("{value} is out of range"),
    )
}
