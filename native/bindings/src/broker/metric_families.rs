//! Metric families for Python.

use pybroker_server::exposition::{Families, Family, Kind, Sample, Value};
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

/// The metric families of one scrape.
#[pyclass(module = "pybroker._native")]
#[derive(Default)]
pub(crate) struct MetricFamilies(Families);

impl MetricFamilies {
    pub(super) fn families(&mut self) -> &mut Families {
        &mut self.0
    }
}

#[pymethods]
impl MetricFamilies {
    #[new]
    fn new() -> Self {
        Self::default()
    }

    #[pyo3(signature = (name, kind, help, labels, value, suffix = ""))]
    fn add(
        &mut self,
        name: &str,
        kind: &str,
        help: &str,
        labels: &Bound<'_, PyDict>,
        value: f64,
        suffix: &str,
    ) -> PyResult<()> {
        if self.0.last().is_none_or(|family| *family.name != *name) {
            let kind = Kind::ALL.into_iter().find(|known| known.name() == kind);
            let kind = kind.ok_or_else(|| PyValueError::new_err("unknown kind of metric"))?;
            self.0.family(name, kind, help);
        }
        let labels: Vec<(String, String)> = labels
            .iter()
            .map(|(label, text)| Ok((label.extract()?, text.extract()?)))
            .collect::<PyResult<_>>()?;
        let labels: Vec<(&str, &str)> = labels.iter().map(|(a, b)| (&**a, &**b)).collect();
        let value = if value.fract() == 0.0 {
            Value::Integer(value as i128)
        } else {
            Value::Real(value)
        };
        self.0.series(&format!("{name}{suffix}"), &labels, value);
        Ok(())
    }

    fn text(&self, py: Python<'_>) -> String {
        py.detach(|| self.0.text())
    }

    fn take(&mut self) -> Vec<MetricFamily> {
        self.0.take().into_iter().map(MetricFamily).collect()
    }
}

/// The samples of one metric.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct MetricFamily(Family);

#[pymethods]
impl MetricFamily {
    #[getter]
    fn name(&self) -> &str {
        &self.0.name
    }

    #[getter]
    fn kind(&self) -> &'static str {
        self.0.kind.name()
    }

    #[getter]
    fn help(&self) -> &str {
        &self.0.help
    }

    fn __len__(&self) -> usize {
        self.0.count()
    }

    fn samples(&self, py: Python<'_>, begin: usize, end: usize) -> PyResult<Vec<MetricSample>> {
        let end = end.min(self.0.count());
        let mut samples = Vec::new();
        self.0.for_each(begin.min(end)..end, |sample| {
            samples.push(MetricSample::new(py, sample))
        });
        samples.into_iter().collect()
    }
}

/// One value of a metric.
#[pyclass(frozen, get_all, module = "pybroker._native")]
pub(crate) struct MetricSample {
    suffix: String,
    labels: Py<PyDict>,
    value: f64,
}

impl MetricSample {
    fn new(py: Python<'_>, sample: Sample<'_>) -> PyResult<Self> {
        let labels = PyDict::new(py);
        for (label, text) in sample.labels {
            labels.set_item(label, text)?;
        }
        Ok(Self {
            suffix: sample.suffix.to_string(),
            labels: labels.unbind(),
            value: sample.value.as_f64(),
        })
    }
}
