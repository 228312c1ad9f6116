//! The Python face of the native core: convert, let go of the GIL, map errors; no decisions.

mod acls;
mod broker;
mod client_batch;
mod client_records;
mod codec;
mod control_queue;
mod convert;
mod errors;
mod functions;
mod hot;
mod ingest;
mod listeners;
mod log_lines;
mod metadata;
mod metrics;
mod orders;
mod panics;
mod partition_index;
mod pending_append;
mod records;
mod request;
mod settings;
mod spark;
mod topic_keys;
mod uuid;
mod wake;

/// The extension module `pybroker._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::broker::NativeBroker;
    #[pymodule_export]
    use crate::client_batch::{ClientBatch, append_partitioned, partition_of_key};
    #[pymodule_export]
    use crate::client_records::{ConsumerRecord, decode_records};
    #[pymodule_export]
    use crate::codec::{
        CodecError, api_table, decode, decode_data, decode_response, encode, encode_request,
        error_code_table, message_class, message_names, message_schema,
    };
    #[pymodule_export]
    use crate::errors::{ListenerError, LogDirError, NativeError};
    #[pymodule_export]
    use crate::functions::{build_batch, crc32c, validate_batch};
    #[pymodule_export]
    use crate::hot::{HotResponse, decode_hot};
    #[pymodule_export]
    use crate::ingest::NativeIngests;
    #[pymodule_export]
    use crate::metadata::MetadataDelta;
    #[pymodule_export]
    use crate::orders::{
        LocalPartition, LogDirInfo, LogDirPartition, PartitionOffsets, PartitionOrder,
        StagedDirectory, StopOrder,
    };
    #[pymodule_export]
    use crate::partition_index::PartitionIndex;
    #[pymodule_export]
    use crate::request::{Completion, LogDirsFailed, Request};
    #[pymodule_export]
    use crate::spark::{ArrowBatch, ArrowSink, ArrowSource, BlockingClient};
    #[pymodule_export]
    use crate::topic_keys::TopicKeys;
    #[pymodule_export]
    use crate::uuid::Uuid;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        crate::errors::add_attributes(module.py())
    }
}
