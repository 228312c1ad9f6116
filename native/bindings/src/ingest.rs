//! Staged ingest as the control plane drives it: begin, the two halves of a commit, ends, what there is.

use std::sync::{Arc, Weak};

use pybroker_model::{TimestampType, TopicIdPartition};
use pybroker_protocol::ErrorCode;
use pybroker_replica::{IngestError, IngestName, Listed, NewIngest, Replicas};
use pybroker_server::error_codes::of_ingest;
use pybroker_storage::StagedTotals;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::broker::now_ms;
use crate::convert::topic_id;
use crate::errors::{native_error, partition_error};
use crate::orders::topic_config;
use crate::uuid::Uuid;

/// (topic id, ingest id, batch id).
type Name = (Uuid, String, i64);
/// (partition, writer, attempt, rows, bytes, checksum).
type ListedRow = (i32, i32, i64, i64, i64, i64);
/// (name, epoch, touched ms, writers, (partition, rows, bytes)).
type StateRow = (Name, i32, i64, usize, Vec<(i32, i64, u64)>);

/// The ingests of one broker.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct NativeIngests {
    replicas: Weak<Replicas>,
}

impl NativeIngests {
    pub(crate) fn new(replicas: &Arc<Replicas>) -> Self {
        Self {
            replicas: Arc::downgrade(replicas),
        }
    }

    fn replicas(&self) -> PyResult<Arc<Replicas>> {
        self.replicas.upgrade().ok_or_else(|| {
            native_error(
                ErrorCode::NOT_LEADER_OR_FOLLOWER.0,
                "the broker is shut down",
            )
        })
    }
}

fn ingest_name((id, ingest_id, batch_id): Name) -> PyResult<IngestName> {
    Ok(IngestName {
        topic_id: topic_id(id)?,
        ingest_id: ingest_id.into(),
        batch_id,
    })
}

fn ingest_error(error: &IngestError) -> PyErr {
    native_error(of_ingest(error).0, error)
}

/// A directory's name that leads nowhere else.
fn checked(directory: String) -> PyResult<String> {
    let fine = !directory.is_empty()
        && directory
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b == b'-' || b == b'_');
    if fine {
        Ok(directory)
    } else {
        Err(PyValueError::new_err(format!(
            "{directory:?} is no name of an ingest's directory"
        )))
    }
}

#[pymethods]
impl NativeIngests {
    fn open(
        &self,
        py: Python<'_>,
        name: Name,
        directory: String,
        epoch: i32,
        config: &Bound<'_, PyDict>,
    ) -> PyResult<()> {
        let replicas = self.replicas()?;
        let new = NewIngest {
            name: ingest_name(name)?,
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
        name: Name,
        epoch: i32,
        listed: Vec<ListedRow>,
    ) -> PyResult<Vec<(i32, i64, u64)>> {
        let replicas = self.replicas()?;
        let name = ingest_name(name)?;
        let listed: Vec<Listed> = listed
            .into_iter()
            .map(|(partition, writer, attempt, rows, bytes, crc)| {
                Ok(Listed {
                    partition,
                    writer,
                    attempt,
                    totals: StagedTotals {
                        rows,
                        bytes: u64::try_from(bytes).map_err(|_| out_of_range(bytes))?,
                        crc: u32::try_from(crc).map_err(|_| out_of_range(crc))?,
                    },
                })
            })
            .collect::<PyResult<_>>()?;
        py.detach(|| replicas.prepare_ingest(&name, epoch, &listed, now_ms()))
            .map_err(|error| ingest_error(&error))
    }

    fn reopen(&self, name: Name, epoch: i32) -> PyResult<()> {
        self.replicas()?.reopen_ingest(&ingest_name(name)?, epoch);
        Ok(())
    }

    fn attach(
        &self,
        py: Python<'_>,
        topic_id: Uuid,
        partition: i32,
        directory: String,
        append_time: bool,
    ) -> PyResult<(i64, i64, bool)> {
        let replicas = self.replicas()?;
        let tip = TopicIdPartition {
            topic_id: crate::convert::topic_id(topic_id)?,
            partition,
        };
        let directory = checked(directory)?;
        let timestamps = if append_time {
            TimestampType::LogAppendTime
        } else {
            TimestampType::CreateTime
        };
        let attached = py
            .detach(|| replicas.attach_ingest(tip, &directory, timestamps, now_ms()))
            .map_err(|error| partition_error(&error))?;
        Ok((attached.base_offset, attached.end_offset, attached.repeated))
    }

    fn expire(&self, py: Python<'_>, name: Name, epoch: i32, before_ms: i64) -> PyResult<bool> {
        let replicas = self.replicas()?;
        let name = ingest_name(name)?;
        Ok(py.detach(|| replicas.expire_ingest(&name, epoch, before_ms)))
    }

    fn drop(&self, py: Python<'_>, name: Name, directory: String) -> PyResult<()> {
        let replicas = self.replicas()?;
        let (name, directory) = (ingest_name(name)?, checked(directory)?);
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

    fn list(&self) -> PyResult<Vec<StateRow>> {
        let states = self.replicas()?.list_ingests();
        Ok(states
            .into_iter()
            .map(|state| {
                let name = (
                    Uuid(state.name.topic_id.uuid()),
                    state.name.ingest_id.into_string(),
                    state.name.batch_id,
                );
                (
                    name,
                    state.epoch,
                    state.touched_ms,
                    state.writers,
                    state.partitions,
                )
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
