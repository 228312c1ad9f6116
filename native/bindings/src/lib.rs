//! The Python face of the native core: convert, let go of the GIL, map errors; no decisions.

/// The extension module `pybroker._native`.
#[pyo3::pymodule]
mod _native {}
