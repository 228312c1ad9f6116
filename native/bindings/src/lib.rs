//! Python interface of the native core: it converts types, releases the GIL and maps errors; it makes no decisions.
//!
//! | module | content |
//! |---|---|
//! | `plane` | native parts of a broker, and the order of their start and stop |
//! | `broker` | interface for the control plane, one object per subject |
//! | `codec` | conversion of messages to Python objects and back |
//! | `client` | support for the client library's producer and consumer |
//! | `quorum` | node of the metadata quorum |
//! | `keystores` | content of keystores and truststores |
//! | `spark` | support for the Spark data source |
//! | `measure` | single functions of the data path, for tests and benches |
//!
//! **Values that cross the boundary have named fields.** A value with more than two parts, or with parts that could be
//! confused, is a class that this crate declares, in both directions. Pairs of key and value of a mapping stay pairs,
//! and so do keys of Python's dictionaries. The classes are native, not Python structs or named tuples. A wrong field
//! raises an error in the Python line that creates the object. Native code reads the fields without attribute look-ups,
//! and copied fields without the GIL. Each class is declared once; `tests/native/test_surface.py` checks the stub
//! against the declaration.
//!
//! All modules may use `uuid`, `convert` and `errors`. Otherwise `broker` and `quorum` may use `plane`, and `broker`,
//! `spark` and `measure` may use `codec`.

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
mod quorum;
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
        BrokerMetadata, CachedResponse, ClientQuota, CommitLease, CommitTopic, Completion,
        ConnectionGone, Endpoint, FetchedBatches, FetcherFigures, FollowedPartition,
        IngestPreparation, IsrMember, IsrProposal, Lag, ListedAttempt, ListenerConfig, ListenerTls,
        LocalPartition, LogDirInfo, LogDirPartition, LogDirRoom, LogDirsFailed, MemberCommit,
        MetadataDelta, MetricFamilies, MetricFamily, MetricSample, NativeAuthorizer, NativeBroker,
        NativeControlQueue, NativeFetchers, NativeIngests, NativeIsr, NativeListeners,
        NativeLogDirs, NativeMetadata, NativePartitions, NativeQuotas, OpenIngest, PartitionEnds,
        PartitionMetadata, PartitionOffsets, PartitionOrder, PartitionRole, RecordsWatch,
        ReplicasOffline, Request, ShardCommits, SlowRequest, StagedDirectory, StagedPartition,
        StopOrder, StoredRecord, StoredRecords, TopicMetadata, TransactionQuestion,
    };
    #[pymodule_export]
    use crate::client::batch::{ClientBatch, append_partitioned, java_hash, partition_of_key};
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
    use crate::quorum::{
        CommittedRecords, MetadataQuorum, MetadataSnapshot, ProposalOutcome, QuorumEndpoint,
        QuorumFailure, QuorumLeader, QuorumLogSummary, QuorumReplica, QuorumReplicaStatus,
        QuorumRequest, QuorumResponse, QuorumRoom, QuorumStatus, QuorumVoters, QuorumWarning,
        SnapshotEnd, SnapshotRecords, SnapshotStart,
    };
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
