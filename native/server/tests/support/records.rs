//! Produce and Fetch requests, and their decoded responses with owned data.

use pybroker_model::{BatchBuilder, Batches, Codec, Uuid};
use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::fetch_request::{
    FetchPartition, FetchRequest, FetchTopic, ForgottenTopic,
};
use pybroker_protocol::hot::fetch_response::{FetchPartitionHead, FetchResponse};
use pybroker_protocol::hot::produce_request::{ProducePartition, ProduceRequest, ProduceTopic};
use pybroker_protocol::hot::produce_response::{PartitionProduceResponse, ProduceResponse};
use pybroker_protocol::primitives::Span;

use super::Client;

/// Name and id of a topic; the request's version decides which one is sent.
#[derive(Debug, Clone, Copy)]
pub struct TestTopic<'n> {
    pub name: &'n str,
    pub id: Uuid,
}

/// Return one batch with these values.
pub fn batch(values: &[&[u8]]) -> Vec<u8> {
    batch_with(Codec::None, values)
}

pub fn batch_with(codec: Codec, values: &[&[u8]]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(codec);
    for value in values {
        builder.push(super::now_ms(), None, Some(value));
    }
    builder.build().expect("a batch")
}

fn put(buffer: &mut Vec<u8>, bytes: &[u8]) -> Span {
    let start = buffer.len() as u32;
    buffer.extend_from_slice(bytes);
    Span {
        start,
        end: buffer.len() as u32,
    }
}

/// Encode a Produce request with one batch for each of these partitions.
pub fn produce_body(
    version: impl Into<WireVersion>,
    acks: i16,
    timeout_ms: i32,
    topic: TestTopic<'_>,
    batches: &[(i32, Option<&[u8]>)],
) -> Vec<u8> {
    let mut buffer = Vec::new();
    let partitions = batches
        .iter()
        .map(|(index, records)| ProducePartition {
            index: *index,
            records: records.map(|records| put(&mut buffer, records)),
        })
        .collect::<Vec<_>>();
    let topic = ProduceTopic {
        name: put(&mut buffer, topic.name.as_bytes()),
        topic_id: topic.id,
        partitions_start: 0,
        partitions_end: partitions.len() as u32,
    };
    let request = ProduceRequest {
        transactional_id: None,
        acks,
        timeout_ms,
        topics: vec![topic],
        partitions,
    };
    let mut body = Vec::new();
    request.encode(&buffer, version, &mut body);
    body
}

/// A partition's part of a Produce response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ProduceResult {
    pub index: i32,
    pub error: i16,
    pub offset: i64,
    pub append_time: i64,
    pub message: Option<String>,
    pub bad_records: Vec<i32>,
    pub leader: Option<(i32, i32)>,
}

pub fn read_produced(body: &[u8], version: impl Into<WireVersion>) -> Vec<ProduceResult> {
    let response = ProduceResponse::decode(body, version).expect("a Produce response");
    let partition = |partition: &PartitionProduceResponse<'_>| ProduceResult {
        index: partition.index,
        error: partition.error_code,
        offset: partition.base_offset,
        append_time: partition.log_append_time_ms,
        message: partition.error_message.map(Into::into),
        bad_records: partition
            .record_errors
            .iter()
            .map(|error| error.batch_index)
            .collect(),
        leader: partition
            .current_leader
            .map(|leader| (leader.leader_id, leader.leader_epoch)),
    };
    response
        .topics
        .iter()
        .flat_map(|topic| topic.partitions.iter().map(partition))
        .collect()
}

impl Client {
    /// Produce one batch with acks=all and return the partition's response.
    pub fn produce(
        &mut self,
        version: impl Into<WireVersion>,
        topic: TestTopic<'_>,
        index: i32,
        records: &[u8],
    ) -> ProduceResult {
        self.produce_with(version, -1, topic, index, records)
    }

    /// Like `produce`, with other acks.
    pub fn produce_with(
        &mut self,
        version: impl Into<WireVersion>,
        acks: i16,
        topic: TestTopic<'_>,
        index: i32,
        records: &[u8],
    ) -> ProduceResult {
        let version = version.into();
        let body = produce_body(version, acks, 30_000, topic, &[(index, Some(records))]);
        let answer = self.call(ApiKey::Produce, version.number, &body);
        read_produced(&answer, version).remove(0)
    }

    pub fn fetch(&mut self, version: impl Into<WireVersion>, fetch: &Fetch<'_>) -> FetchResult {
        let version = version.into();
        let body = fetch.body(version.number);
        read_fetched(&self.call(ApiKey::Fetch, version.number, &body), version)
    }
}

/// A Fetch request.
#[derive(Debug, Clone)]
pub struct Fetch<'n> {
    pub replica_id: i32,
    pub max_wait_ms: i32,
    pub min_bytes: i32,
    pub max_bytes: i32,
    pub partition_max_bytes: i32,
    pub isolation: i8,
    pub session: (i32, i32),
    /// Topic, partition, offset, leader epoch.
    pub partitions: Vec<(TestTopic<'n>, i32, i64, i32)>,
    pub forgotten: Vec<(TestTopic<'n>, i32)>,
}

impl Default for Fetch<'_> {
    fn default() -> Self {
        Fetch {
            replica_id: -1,
            max_wait_ms: 0,
            min_bytes: 1,
            max_bytes: i32::MAX,
            partition_max_bytes: i32::MAX,
            isolation: 0,
            session: (0, -1),
            partitions: vec![],
            forgotten: vec![],
        }
    }
}

impl<'n> Fetch<'n> {
    pub fn of(topic: TestTopic<'n>, partition: i32, offset: i64) -> Self {
        Fetch {
            partitions: vec![(topic, partition, offset, -1)],
            ..Fetch::default()
        }
    }

    pub fn body(&self, version: i16) -> Vec<u8> {
        let mut buffer = Vec::new();
        let mut request = FetchRequest {
            replica_id: self.replica_id,
            max_wait_ms: self.max_wait_ms,
            min_bytes: self.min_bytes,
            max_bytes: self.max_bytes,
            isolation_level: self.isolation,
            session_id: self.session.0,
            session_epoch: self.session.1,
            ..FetchRequest::default()
        };
        for (at, (topic, partition, fetch_offset, current_leader_epoch)) in
            (0u32..).zip(&self.partitions)
        {
            request.partitions.push(FetchPartition {
                partition: *partition,
                current_leader_epoch: *current_leader_epoch,
                fetch_offset: *fetch_offset,
                last_fetched_epoch: -1,
                log_start_offset: -1,
                partition_max_bytes: self.partition_max_bytes,
                replica_directory_id: Uuid::ZERO,
                high_watermark: i64::MAX,
            });
            let name = put(&mut buffer, topic.name.as_bytes());
            request.topics.push(FetchTopic {
                name,
                topic_id: topic.id,
                partitions_start: at,
                partitions_end: at + 1,
            });
        }
        for (at, (topic, partition)) in (0u32..).zip(&self.forgotten) {
            request.forgotten_partitions.push(*partition);
            let name = put(&mut buffer, topic.name.as_bytes());
            request.forgotten.push(ForgottenTopic {
                name,
                topic_id: topic.id,
                partitions_start: at,
                partitions_end: at + 1,
            });
        }
        let mut body = Vec::new();
        request.encode(&buffer, version, &mut body);
        body
    }
}

/// A Fetch response.
#[derive(Debug)]
pub struct FetchResult {
    pub error: i16,
    pub session: i32,
    pub partitions: Vec<FetchedPartition>,
}

#[derive(Debug)]
pub struct FetchedPartition {
    pub topic: String,
    pub id: Uuid,
    pub head: FetchPartitionHead,
    pub records: Vec<u8>,
}

impl FetchedPartition {
    /// Return the base offsets of the batches.
    pub fn offsets(&self) -> Vec<i64> {
        Batches::new(&self.records)
            .map(|batch| batch.expect("whole batches").0.base_offset)
            .collect()
    }
}

impl FetchResult {
    /// Return the only partition of the response.
    pub fn one(&self) -> &FetchedPartition {
        assert_eq!((self.error, self.partitions.len()), (0, 1), "{self:?}");
        &self.partitions[0]
    }
}

pub fn read_fetched(body: &[u8], version: impl Into<WireVersion>) -> FetchResult {
    let response = FetchResponse::decode(body, version).expect("a Fetch response");
    let mut partitions = Vec::new();
    for topic in &response.topics {
        for partition in &topic.partitions {
            partitions.push(FetchedPartition {
                topic: topic.name.into(),
                id: topic.topic_id,
                head: partition.head.clone(),
                records: partition.records.expect("never null").to_vec(),
            });
        }
    }
    FetchResult {
        error: response.error_code,
        session: response.session_id,
        partitions,
    }
}
