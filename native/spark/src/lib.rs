//! The native half of `pybroker.spark`: Arrow columns to record batches and back.
//!
//! It is a client of any Kafka-compatible broker and contains no broker code. One `Sink` or `Source` serves one Spark
//! task on the task's own thread; requests are pipelined, so that the broker works while rows are encoded.

mod decode;
mod encode;
mod error;
mod partitioner;
mod settings;
mod sink;
mod source;
#[cfg(test)]
mod tests;

pub use decode::{Column, schema_of};
pub use error::{Error, Result};
pub use settings::{FetchSettings, ProduceSettings, Settings};
pub use sink::{PartitionSummary, Sink, SinkPlan, StagingTarget, Target, Transaction};
pub use source::{Source, SourcePlan};
