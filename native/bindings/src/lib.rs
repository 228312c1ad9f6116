//! The Python face of the native core: convert, let go of the GIL, map errors; no decisions.
//!
//! | module | answers |
//! |---|---|
//! | `plane` | what runs natively in a broker, and in which order it starts and stops? |
//! | `broker` | how does the control plane call it? An object for each subject |
//! | `codec` | how do messages become Python's objects and back? |
//! | `client` | what do the client library's producer and consumer need? |
//! | `keystores` | what is in a keystore or truststore? |
//! | `spark` | what does the Spark data source need? |
//! | `measure` | functions of the data path alone, for tests and benches |
//!
//! **What crosses the border has named fields.** Whatever has more than two parts, or parts that could be taken for
//! each other, is a class that is declared here, in both directions; pairs that are keys and values of a mapping stay
//! pairs, and so do keys of Python's dictionaries. The classes are native ones, not structs or named tuples of Python:
//! their fields are checked where the object is made, by the line that made the mistake; native code then reads them
//! without looking up attributes, and without the GIL where it copied them; and each is declared once, with
//! `tests/native/test_surface.py` holding the stub to it.
//!
//! Modules use those above `uuid`, `convert` and `errors` in this order only: `plane` ← `broker`; `codec` ←
//! `broker`, `spark`, `measure`.

mod broker;
mod client;
mod codec;
mod convert;
mod errors;
mod keystores;
mod measure;
mod panics;
mod pattern;
mod plane;
mod record_bytes;
mod spark;
mod unpack;
mod uuid;

/// The extension module `pybroker._native`.
#[pyo3::pymodule]
mod _native {
    #[pymodule_export]
    use crate::broker::{
        AclEntry, ActiveProducer, AdoptedDirectory, AttachedPartition, BrokerAddress,
        BrokerMetadata, ClientQuota, CommitRight, CommitTopic, Completion, ConnectionGone,
        Endpoint, FetchedBatches, FetcherFigures, FollowedPartition, IngestPreparation, IsrMember,
        IsrProposal, Lag, ListedAttempt, ListenerConfig, ListenerTls, LocalPartition, LogDirInfo,
        LogDirPartition, LogDirRoom, LogDirsFailed, MemberCommit, MetadataDelta, NativeAuthorizer,
        NativeBroker, NativeControlQueue, NativeFetchers, NativeIngests, NativeIsr,
        NativeListeners, NativeLogDirs, NativeMetadata, NativePartitions, NativeQuotas, OpenIngest,
        PartitionEnds, PartitionMetadata, PartitionOffsets, PartitionOrder, PartitionRole,
        RecordsWatch, ReplicasOffline, Request, ShardCommits, SlowRequest, StagedDirectory,
        StagedPartition, StandingAnswer, StopOrder, StoredRecord, StoredRecords, TopicMetadata,
        TransactionQuestion,
    };
    #[pymodule_export]
    use crate::client::batch::{ClientBatch, append_partitioned, partition_of_key};
    #[pymodule_export]
    use crate::client::records::{ConsumerRecord, DecodedRecords, RecordDecoder};
    #[pymodule_export]
    use crate::codec::{
        ApiInfo, CodecError, ErrorCodeInfo, FieldSchema, MessageSchema, StructSchema, api_table,
        decode, decode_data, decode_response, encode, encode_request, error_code_table,
        message_class, message_names, message_schema, stored_offset, use_classes,
    };
    #[pymodule_export]
    use crate::errors::{ListenerError, LogDirError, NativeError};
    #[pymodule_export]
    use crate::keystores::TlsStore;
    #[pymodule_export]
    use crate::measure::TopicPartitions;
    #[pymodule_export]
    use crate::measure::batches::{build_batch, crc32c, validate_batch};
    #[pymodule_export]
    use crate::measure::hot::{HotResponse, decode_hot};
    #[pymodule_export]
    use crate::measure::partition_index::PartitionIndex;
    #[pymodule_export]
    use crate::measure::topic_keys::TopicKeys;
    #[pymodule_export]
    use crate::pattern::Pattern;
    #[pymodule_export]
    use crate::record_bytes::RecordBytes;
    #[pymodule_export]
    use crate::spark::{
        ArrowBatch, ArrowSink, ArrowSource, BlockingClient, IngestAttempt, SinkTarget,
        SinkTransaction, SourceRange, WrittenPartition,
    };
    #[pymodule_export]
    use crate::unpack::unpacked;
    #[pymodule_export]
    use crate::uuid::Uuid;

    #[pymodule_init]
    fn init(module: &pyo3::Bound<'_, pyo3::types::PyModule>) -> pyo3::PyResult<()> {
        use pyo3::types::{PyFrozenSet, PyModuleMethods, PyTuple};
        let py = module.py();
        module.add(
            "INTERNAL_TOPICS",
            PyFrozenSet::new(py, pybroker_model::INTERNAL_TOPICS)?,
        )?;
        let names: Vec<_> = crate::spark::setting_names().collect();
        module.add("SPARK_SETTINGS", PyTuple::new(py, names)?)?;
        crate::errors::add_attributes(py)
    }
}
