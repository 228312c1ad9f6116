//! Batches and records for `pybroker.client`.

pub(crate) mod batch;
pub(crate) mod records;
