//! Regular expressions from clients, matched in linear time (nearly RE2's dialect).

use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use regex::{Regex, RegexBuilder};

/// Maximum size of a compiled expression; a few characters can require gigabytes.
const COMPILED_BYTES_MAX: usize = 1 << 20;

/// Maximum size of the states that matching keeps with an expression. An expression whose states explode fills it.
const STATES_BYTES_MAX: usize = 256 << 10;

/// A regular expression that must match the whole text.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct Pattern(Regex);

#[pymethods]
impl Pattern {
    #[new]
    fn new(pattern: &str) -> PyResult<Self> {
        // Compile it alone first: unbalanced brackets would close the enclosing ones.
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
