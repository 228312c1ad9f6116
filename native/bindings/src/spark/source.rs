//! Reader of one Spark task.

use std::collections::BTreeMap;

use parking_lot::Mutex;
use pybroker_spark::{Column, Source, SourcePlan};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;

use super::capsules::ArrowBatch;
use super::settings::{self, spark_error};
use crate::convert::shown;
use crate::uuid::Uuid;

/// Offset range of one partition.
#[pyclass(
    frozen,
    get_all,
    eq,
    from_py_object,
    new = "from_fields",
    module = "pybroker._native"
)]
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct SourceRange {
    topic_id: Uuid,
    topic: String,
    partition: i32,
    start: i64,
    /// Offset after the last record to read.
    end: i64,
}

shown!(SourceRange);

/// Reader of an offset range of one partition, as Arrow batches.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct ArrowSource(Mutex<Source>);

#[pymethods]
impl ArrowSource {
    #[new]
    #[pyo3(signature = (settings, offsets, columns, cluster_id = String::new()))]
    fn new(
        settings: BTreeMap<String, String>,
        offsets: SourceRange,
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
        if offsets.partition < 0 || offsets.start < 0 {
            return Err(PyValueError::new_err(
                "partitions and offsets are not negative",
            ));
        }
        let plan = SourcePlan {
            topic_id: offsets.topic_id.0,
            topic: offsets.topic,
            cluster_id,
            partition: offsets.partition,
            start: offsets.start,
            end: offsets.end,
            columns,
        };
        let settings = settings::read(&settings)?;
        Ok(Self(Mutex::new(Source::new(&settings, plan))))
    }

    /// Offset of the next row.
    #[getter]
    fn position(&self) -> i64 {
        self.0.lock().position()
    }

    /// Return the next rows as an object with `__arrow_c_array__`, or None at the end of the range.
    fn next(&self, py: Python<'_>) -> PyResult<Option<ArrowBatch>> {
        let rows = py
            .detach(|| self.0.lock().next_rows())
            .map_err(|error| spark_error(&error))?;
        Ok(rows.map(ArrowBatch::new))
    }
}
