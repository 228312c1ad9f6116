//! The hand-written codecs of Produce and Fetch, for measurements. It is the code that serves the sockets, called as
//! the server calls it: requests are decoded into a reused structure, and responses are written piece by piece.

use std::cell::RefCell;

use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::fetch_request::{self, FetchRequest};
use pybroker_protocol::hot::fetch_response::{
    FetchPartitionHead, FetchResponse, FetchResponseWriter,
};
use pybroker_protocol::hot::produce_request::{self, ProduceRequest};
use pybroker_protocol::hot::produce_response::{
    PartitionProduceResponse, ProduceResponse, ProduceResponseWriter,
};
use pybroker_protocol::primitives::DecodeError;
use pyo3::exceptions::PyValueError;
use pyo3::prelude::*;
use pyo3::types::PyBytes;

use super::topic_partitions::TopicPartitions;
use crate::codec::CodecError;

const PRODUCE: i16 = ApiKey::Produce as i16;
const FETCH: i16 = ApiKey::Fetch as i16;

thread_local! {
    static REQUESTS: RefCell<(ProduceRequest, FetchRequest)> = RefCell::default();
}

/// Decode the body of a Produce (key 0) or Fetch (key 1) message. Return its number of partitions.
#[pyfunction]
pub(crate) fn decode_hot(
    api_key: i16,
    version: i16,
    data: &[u8],
    request: bool,
) -> PyResult<usize> {
    let decoded: Result<usize, DecodeError> = match (api_key, request) {
        (PRODUCE, true) => REQUESTS.with_borrow_mut(|(produce, _)| {
            produce.decode(data, version)?;
            Ok(produce.partitions.len())
        }),
        (FETCH, true) => REQUESTS.with_borrow_mut(|(_, fetch)| {
            fetch.decode(data, version)?;
            Ok(fetch.partitions.len())
        }),
        (PRODUCE, false) => ProduceResponse::decode(data, version).map(|response| {
            response
                .topics
                .iter()
                .map(|topic| topic.partitions.len())
                .sum()
        }),
        (FETCH, false) => FetchResponse::decode(data, version).map(|response| {
            response
                .topics
                .iter()
                .map(|topic| topic.partitions.len())
                .sum()
        }),
        _ => return Err(PyValueError::new_err("Produce is key 0, Fetch is key 1")),
    };
    decoded.map_err(|error| CodecError::new_err(error.to_string()))
}

/// Content of a Produce or Fetch response, which `encode` writes.
#[pyclass(frozen, module = "pybroker._native")]
pub(crate) struct HotResponse {
    version: i16,
    fetch: bool,
    topics: Vec<TopicPartitions>,
    records: Vec<u8>,
}

#[pymethods]
impl HotResponse {
    #[new]
    #[pyo3(signature = (api_key, version, topics, records = Vec::new()))]
    fn new(
        api_key: i16,
        version: i16,
        topics: Vec<TopicPartitions>,
        records: Vec<u8>,
    ) -> PyResult<Self> {
        let fetch = match api_key {
            PRODUCE => false,
            FETCH => true,
            _ => return Err(PyValueError::new_err("Produce is key 0, Fetch is key 1")),
        };
        let versions = if fetch {
            fetch_request::VERSIONS
        } else {
            produce_request::VERSIONS
        };
        if !versions.contains(&version) {
            return Err(PyValueError::new_err(format!(
                "version {version} is not served"
            )));
        }
        if topics.iter().any(|topic| topic.partitions < 0) {
            return Err(PyValueError::new_err("a number of partitions is negative"));
        }
        Ok(Self {
            version,
            fetch,
            topics,
            records,
        })
    }

    /// Encode the body. Each partition has the same records.
    fn encode<'py>(&self, py: Python<'py>) -> Bound<'py, PyBytes> {
        let mut out = Vec::new();
        if self.fetch {
            self.encode_fetch(&mut out);
        } else {
            self.encode_produce(&mut out);
        }
        PyBytes::new(py, &out)
    }
}

impl HotResponse {
    fn encode_fetch(&self, out: &mut Vec<u8>) {
        let writer = FetchResponseWriter::new(self.version);
        writer.start(out, 0, 0, 0, self.topics.len());
        for TopicPartitions {
            topic_id,
            topic,
            partitions,
        } in &self.topics
        {
            writer.topic(out, topic, topic_id.0, *partitions as usize);
            for partition in 0..*partitions {
                let head = FetchPartitionHead {
                    high_watermark: 1,
                    last_stable_offset: 1,
                    log_start_offset: 0,
                    ..FetchPartitionHead::refused(partition, 0)
                };
                writer.partition(out, &head, Some(self.records.len()));
                out.extend_from_slice(&self.records);
                writer.end_partition(out, &head);
            }
            writer.end_topic(out);
        }
        writer.end(out, &[]);
    }

    fn encode_produce(&self, out: &mut Vec<u8>) {
        let mut writer = ProduceResponseWriter::new(out, self.version, self.topics.len());
        for TopicPartitions {
            topic_id,
            topic,
            partitions,
        } in &self.topics
        {
            writer.topic(topic, topic_id.0, *partitions as usize);
            for partition in 0..*partitions {
                let written = PartitionProduceResponse {
                    base_offset: 0,
                    log_start_offset: 0,
                    ..PartitionProduceResponse::refused(partition, 0, None)
                };
                writer.partition(&written);
            }
            writer.end_topic();
        }
        writer.end(0, &[]);
    }
}
