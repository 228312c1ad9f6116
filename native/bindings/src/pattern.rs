//! Regular expressions of clients, in linear time (RE2's dialect, near enough).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::{Regex, RegexBuilder};

/// What a compiled expression may take: a few characters can ask for gigabytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// A regular expression that a whole text has to match.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct Pattern(Regex);

#[pymethods]
impl Pattern {
    #[new]
    fn new(pattern: &str) -> PyResult<Self> {
        // By itself first: brackets that do not match would close the ones around it.
        compiled(pattern)?;
        compiled(&format!(r"\A(?:{pattern})\z")).map(Self)
    }

    fn matches(&self, text: &str) -> bool {
        self.0.is_match(text)
    }
}

fn compiled(pattern: &str) -> PyResult<Regex> {
    RegexBuilder::new(pattern)
        .size_limit(COMPILED_BYTES_MAX)
        .build()
        .map_err(|error| PyValueError::new_err(error.to_string()))
}
