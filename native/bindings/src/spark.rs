//! Native support for `pybroker.spark`: writing and reading Arrow batches, and requests for planning.
//!
//! Arrow data is passed as PyCapsules (the Arrow PyCapsule interface), without a copy and without a dependency on
//! pyarrow. The GIL is released while rows are encoded, decoded, sent or awaited.

mod blocking_client;
mod capsules;
mod settings;
mod sink;
mod source;

pub(crate) use blocking_client::BlockingClient;
pub(crate) use capsules::ArrowBatch;
pub(crate) use settings::names as setting_names;
pub(crate) use sink::{ArrowSink, IngestAttempt, SinkTarget, SinkTransaction, WrittenPartition};
pub(crate) use source::{ArrowSource, SourceRange};
