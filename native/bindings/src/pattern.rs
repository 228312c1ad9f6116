//! Regular expressions from clients. They are matched in linear time; the dialect is nearly RE2's.

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression. Without it, an expression of a few characters can require gigabytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Maximum size of the states that matching caches for an expression. An expression with very many states uses all of
/// it.
const STATES_BYTES_MAX: usize = 256 << 10;

/// A regular expression that must match the whole text.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct Pattern(Regex);

#[pymethods]
impl Pattern {
    #[new]
    fn new(pattern: &str) -> PyResult<Self> {
        // Compile the pattern alone first, because unbalanced brackets in it would close the brackets that enclose it
        // below.
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
        .dfa_size_limit(STATES_BYTES_MAX)
        .build()
        .map_err(|error| PyValueError::new_err(error.to_string()))
}
