//! A broker for tests with scripted responses: two nodes, one topic, on a free port.

use std::borrow::Cow;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pybroker_model::Uuid;
use pybroker_protocol::codec::{Direction, Registry};
use pybroker_protocol::header::{RequestPrefix, read_client_id, write_response_header};
use pybroker_protocol::hot::NodeEndpoint;
use pybroker_protocol::hot::api_versions::{ApiVersion, ApiVersionsResponse};
use pybroker_protocol::hot::fetch_request::FetchRequest;
use pybroker_protocol::hot::fetch_response::{
    AbortedTransaction, FetchPartitionHead, FetchPartitionResponse, FetchResponse,
    FetchableTopicResponse,
};
use pybroker_protocol::hot::metadata::{
    MetadataHead, MetadataPartition, MetadataResponse, MetadataTopic,
};
use pybroker_protocol::hot::produce_request::ProduceRequest;
use pybroker_protocol::hot::produce_response::{
    PartitionProduceResponse, ProduceResponse, TopicProduceResponse,
};
use pybroker_protocol::primitives::Reader;
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::cluster::Client;
use crate::settings::{ClientSettings, Software, Values};

/// The broker's only topic.
pub const TOPIC: &str = "t";
/// The ids of the nodes that Metadata names. Both nodes have the same address.
pub const NODES: [i32; 2] = [1, 2];
/// Leader id of a partition without a leader.
pub const NO_LEADER: i32 = -1;
const FETCH: i16 = 12;
const METADATA: i16 = 12;
const PRODUCE: i16 = 13;

/// The parts of a request that tests inspect.
pub struct Request {
    /// API key.
    pub key: i16,
    /// API version.
    pub version: i16,
    /// Body without the header.
    pub body: Vec<u8>,
    /// Number of earlier requests on the same connection, not counting ApiVersions.
    pub before: usize,
}

impl Request {
    /// Return the offset of a Fetch.
    pub fn fetch_offset(&self) -> i64 {
        let mut fetch = FetchRequest::default();
        fetch.decode(&self.body, FETCH).expect("a Fetch");
        fetch.partitions[0].fetch_offset
    }

    /// Return the partition and the batch of a Produce.
    pub fn produced(&self) -> (i32, &[u8]) {
        let mut produce = ProduceRequest::default();
        let decoded = produce.decode(&self.body, self.version);
        decoded.expect("a Produce");
        let partition = produce.partitions[0];
        let records = partition.records.expect("a batch");
        (partition.index, records.of(&self.body))
    }
}

/// A response body, or `None` to close the connection.
pub type Reply = Option<Vec<u8>>;

/// A running test broker. It ends with the test process.
pub struct Broker {
    address: String,
    topic_id: Uuid,
}

impl Broker {
    /// Start a broker. `answer` handles all requests except ApiVersions and Metadata.
    pub fn start(answer: impl Fn(&Request) -> Reply + Send + Sync + 'static) -> Self {
        Self::start_led(|_| vec![NODES[0]], answer)
    }

    /// Start a broker whose leaders depend on the number of earlier Metadata responses.
    pub fn start_led(
        leaders: impl Fn(usize) -> Vec<i32> + Send + Sync + 'static,
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let told = move |topic_id, port, before| Some(metadata(topic_id, port, &leaders(before)));
        Self::start_telling(told, answer)
    }

    /// Start a broker that requires login: it refuses its topic, and disconnects clients that request all topics.
    pub fn start_shut() -> Self {
        Self::start_telling(
            |topic_id, port, before| (before == 0).then(|| refused_metadata(topic_id, port)),
            |_| None,
        )
    }

    /// Start a broker. `told` gets the number of earlier Metadata responses and returns the next one.
    fn start_telling(
        told: impl Fn(Uuid, u16, usize) -> Reply + Send + Sync + 'static,
        answer: impl Fn(&Request) -> Reply + Send + Sync + 'static,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let topic_id = Uuid::from_bytes([7; 16]);
        let asked = AtomicUsize::new(0);
        let answer = Arc::new(move |request: &Request| {
            if request.key == ApiKey::Metadata as i16 {
                let before = asked.fetch_add(1, Ordering::Relaxed);
                told(topic_id, port, before)
            } else {
                answer(request)
            }
        });
        std::thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let answer = answer.clone();
                std::thread::spawn(move || serve(stream, &*answer));
            }
        });
        Self {
            address: format!("127.0.0.1:{port}"),
            topic_id,
        }
    }

    /// Return client settings that connect to this broker, with the settings in `more` added.
    #[must_use]
    pub fn given(&self, more: &[(&str, &str)]) -> BTreeMap<String, String> {
        let given = [
            ("bootstrap.servers", self.address.as_str()),
            ("retry.backoff.ms", "1"),
        ];
        texts(given.iter().chain(more))
    }

    /// Return a client of this broker.
    #[must_use]
    pub fn client(&self, more: &[(&str, &str)]) -> Client {
        Client::new(settings_of(&self.given(more)))
    }

    /// Return the topic's id.
    #[must_use]
    pub const fn topic_id(&self) -> Uuid {
        self.topic_id
    }
}

/// Return the settings as a map of texts.
pub fn texts<'a>(
    pairs: impl IntoIterator<Item = &'a (&'a str, &'a str)>,
) -> BTreeMap<String, String> {
    let pairs = pairs.into_iter();
    pairs
        .map(|(name, value)| ((*name).to_owned(), (*value).to_owned()))
        .collect()
}

/// Read client settings with the prefix `kafka.`.
#[must_use]
pub fn settings_of(given: &BTreeMap<String, String>) -> ClientSettings {
    let values = Values::new("kafka.", &[ClientSettings::TABLE], given);
    let software = Software {
        name: "a-test",
        version: "1",
    };
    ClientSettings::read(&values, Registry::Client, software).expect("settings")
}

fn serve(mut stream: TcpStream, answer: &dyn Fn(&Request) -> Reply) -> Option<()> {
    let mut before = 0;
    loop {
        let mut size = [0; 4];
        stream.read_exact(&mut size).ok()?;
        let mut frame = vec![0; u32::from_be_bytes(size) as usize];
        stream.read_exact(&mut frame).ok()?;
        let mut reader = Reader::new(&frame);
        let prefix = RequestPrefix::read(&mut reader).expect("a request");
        let key = prefix.api_key;
        let message = Registry::Client.message(key, Direction::Request);
        let flexible = message.is_some_and(|message| message.is_flexible(prefix.api_version));
        read_client_id(&mut reader, flexible).expect("a header");
        let body = reader.rest().to_vec();
        let reply = if key == ApiKey::ApiVersions as i16 {
            Some(versions(prefix.api_version))
        } else {
            before += 1;
            let before = before - 1;
            answer(&Request {
                key,
                version: prefix.api_version,
                body,
                before,
            })
        }?;
        let mut out = vec![0; 4];
        let flexible = flexible && key != ApiKey::ApiVersions as i16;
        write_response_header(&mut out, prefix.correlation_id, flexible);
        out.extend(reply);
        let size = (out.len() - 4) as u32;
        out[..4].copy_from_slice(&size.to_be_bytes());
        stream.write_all(&out).ok()?;
    }
}

fn versions(version: i16) -> Vec<u8> {
    let serves = |key: ApiKey, version: i16| ApiVersion {
        api_key: key as i16,
        min_version: 0,
        max_version: version,
    };
    let response = ApiVersionsResponse {
        features: Vec::new(),
        features_epoch: 0,
        error_code: 0,
        api_keys: vec![
            serves(ApiKey::Produce, PRODUCE),
            serves(ApiKey::Fetch, FETCH),
            serves(ApiKey::Metadata, METADATA),
            serves(ApiKey::InitProducerId, 1),
            serves(ApiKey::FindCoordinator, 3),
            serves(ApiKey::AddPartitionsToTxn, 3),
        ],
        throttle_time_ms: 0,
    };
    let mut body = Vec::new();
    response.encode(version, &mut body);
    body
}

fn metadata(topic_id: Uuid, port: u16, leaders: &[i32]) -> Vec<u8> {
    let partitions = (0..).zip(leaders).map(|(partition, &leader)| {
        let led = leader != NO_LEADER;
        MetadataPartition {
            error_code: i16::from(!led) * ErrorCode::LEADER_NOT_AVAILABLE.0,
            partition,
            leader,
            leader_epoch: 0,
            replicas: Cow::Borrowed(&NODES),
            isr: Cow::Borrowed(&NODES),
            offline: Cow::Borrowed(&[]),
        }
    });
    let topic = MetadataTopic {
        error_code: 0,
        name: Some(TOPIC),
        topic_id,
        internal: false,
        partitions: partitions.collect(),
        authorized_operations: i32::MIN,
    };
    metadata_of(port, Some("c"), topic)
}

fn refused_metadata(topic_id: Uuid, port: u16) -> Vec<u8> {
    let topic = MetadataTopic {
        error_code: ErrorCode::TOPIC_AUTHORIZATION_FAILED.0,
        name: Some(TOPIC),
        topic_id,
        internal: false,
        partitions: Vec::new(),
        authorized_operations: i32::MIN,
    };
    metadata_of(port, None, topic)
}

fn metadata_of(port: u16, cluster_id: Option<&str>, topic: MetadataTopic<'_>) -> Vec<u8> {
    let nodes = NODES.iter().map(|&node_id| NodeEndpoint {
        node_id,
        host: "127.0.0.1",
        port: port.into(),
        rack: None,
    });
    let response = MetadataResponse {
        head: MetadataHead {
            throttle_time_ms: 0,
            brokers: nodes.collect(),
            cluster_id,
            controller_id: NODES[0],
        },
        topics: vec![topic],
        cluster_authorized_operations: i32::MIN,
        error_code: 0,
    };
    let mut body = Vec::new();
    response.encode(METADATA, &mut body);
    body
}

/// Return an InitProducerId response.
pub fn producer_id() -> Reply {
    let mut body = vec![0; 6];
    body.extend(9i64.to_be_bytes());
    body.extend(0i16.to_be_bytes());
    Some(body)
}

/// Return a Produce response.
pub fn produced(partition: i32, code: ErrorCode, base_offset: i64) -> Reply {
    produced_in(PRODUCE, partition, code, base_offset)
}

/// Return a Produce response in this version.
pub fn produced_in(version: i16, partition: i32, code: ErrorCode, base_offset: i64) -> Reply {
    let mut told = PartitionProduceResponse::refused(partition, code.0, None);
    told.base_offset = base_offset;
    let response = ProduceResponse {
        topics: vec![TopicProduceResponse {
            name: TOPIC,
            topic_id: Uuid::ZERO,
            partitions: vec![told],
        }],
        ..ProduceResponse::default()
    };
    let mut body = Vec::new();
    response.encode(version, &mut body);
    Some(body)
}

/// Return a Fetch response with these records. `high_watermark` is the offset after the log's last record.
pub fn fetched(records: &[u8], high_watermark: i64) -> Reply {
    fetched_committed(records, high_watermark, &[])
}

/// Return a Fetch response for read_committed. `aborted` lists the aborted transactions as (producer id, first offset).
pub fn fetched_committed(records: &[u8], high_watermark: i64, aborted: &[(i64, i64)]) -> Reply {
    let mut head = FetchPartitionHead::refused(0, 0);
    let aborted = aborted.iter();
    let aborted = aborted.map(|&(producer_id, first_offset)| AbortedTransaction {
        producer_id,
        first_offset,
    });
    head.aborted_transactions = Some(aborted.collect());
    head.high_watermark = high_watermark;
    head.last_stable_offset = high_watermark;
    head.log_start_offset = 0;
    let response = FetchResponse {
        topics: vec![FetchableTopicResponse {
            name: TOPIC,
            topic_id: Uuid::ZERO,
            partitions: vec![FetchPartitionResponse {
                head,
                records: Some(records),
            }],
        }],
        ..FetchResponse::default()
    };
    let mut body = Vec::new();
    response.encode(FETCH, &mut body);
    Some(body)
}
