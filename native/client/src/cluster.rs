//! A blocking client of a cluster: discovers brokers and leaders, and keeps one connection to each broker.

use std::collections::{BTreeMap, HashMap};
use std::ops::RangeInclusive;
use std::thread::sleep;
use std::time::{Duration, Instant};

use pybroker_model::Uuid;
use pybroker_protocol::hot::metadata::{
    self, MetadataRequest, MetadataRequestTopic, MetadataResponse,
};
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::connection::{Connection, is_closed};
use crate::error::{Error, Result};
use crate::settings::ClientSettings;

/// Supported Metadata versions; 12 has topic ids and nullable names (KIP-516).
const METADATA: RangeInclusive<i16> = 1..=12;
/// Time after which an unknown topic counts as deleted. Until then, brokers may not know a topic that was just created.
const UNKNOWN_TOPIC_PATIENCE: Duration = Duration::from_secs(3);
/// Time for which an unresolvable host name from the cluster is retried.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(5);

/// Destination of a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Any reachable broker.
    Any,
    /// The controller, according to Metadata.
    Controller,
    /// The broker with that id.
    Broker(i32),
}

/// A topic from Metadata.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// The topic's id; zero from brokers without topic ids.
    pub id: Uuid,
    /// The topic's name.
    pub name: String,
    /// Leader and leader epoch of each partition. The leader is −1 if there is none.
    pub leaders: Vec<(i32, i32)>,
}

/// Connections to the brokers of one cluster, opened on demand.
pub struct Client {
    settings: ClientSettings,
    connections: HashMap<Node, Connection>,
    brokers: BTreeMap<i32, String>,
    controller: i32,
    cluster_id: Option<String>,
}

impl Client {
    /// Create a client. It connects with its first request.
    #[must_use]
    pub fn new(settings: ClientSettings) -> Self {
        Self {
            settings,
            connections: HashMap::new(),
            brokers: BTreeMap::new(),
            controller: -1,
            cluster_id: None,
        }
    }

    /// Return the client's settings.
    #[must_use]
    pub const fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// Return the cluster's id.
    ///
    /// # Errors
    ///
    /// If no broker is reachable.
    pub fn cluster_id(&mut self) -> Result<Option<String>> {
        if self.brokers.is_empty() {
            self.metadata(Some(&[]))?;
        }
        Ok(self.cluster_id.clone())
    }

    /// Return the highest version of `api_key` in `ours` that the node supports; `None` if there is none.
    ///
    /// # Errors
    ///
    /// If the node is unreachable.
    pub fn version(
        &mut self,
        node: Node,
        api_key: i16,
        ours: RangeInclusive<i16>,
    ) -> Result<Option<i16>> {
        Ok(self.connection(node)?.version(api_key, ours))
    }

    /// Send a request and return the body of its response. Requests must be idempotent: if the broker had closed an
    /// idle connection, the client sends the request again over a new one.
    ///
    /// # Errors
    ///
    /// If the network fails; the connection is dropped, and the next call opens another.
    pub fn call(&mut self, node: Node, api_key: i16, version: i16, body: &[u8]) -> Result<Vec<u8>> {
        let mut idle = self.connections.contains_key(&node);
        loop {
            let connection = self.connection(node)?;
            let answer = connection.call(api_key, version, body);
            let Err(problem) = &answer else {
                return answer;
            };
            let again = idle && connection.was_closed(problem);
            self.drop_connection(node);
            if !again {
                return answer;
            }
            idle = false;
        }
    }

    /// Return the topics with these ids. Where the id is zero, look up the topic by its name. Partitions may lack a
    /// leader; callers check the partitions that they need.
    ///
    /// # Errors
    ///
    /// If a topic does not exist, or no broker answers for `delivery.timeout.ms`.
    pub fn topics(&mut self, wanted: &[(Uuid, &str)]) -> Result<Vec<Topic>> {
        self.patiently(|client| Self::complete(client.metadata(Some(wanted))?, wanted))
    }

    /// Call `ask`, and repeat it after transient errors for `delivery.timeout.ms`, but after errors about unknown
    /// topics only for a few seconds.
    ///
    /// # Errors
    ///
    /// The last error of `ask`.
    pub fn patiently<T>(&mut self, ask: impl Fn(&mut Self) -> Result<T>) -> Result<T> {
        let started = Instant::now();
        loop {
            let problem = match ask(self) {
                Ok(found) => return Ok(found),
                Err(problem) => problem,
            };
            let patience = match problem.code() {
                ErrorCode::UNKNOWN_TOPIC_ID | ErrorCode::UNKNOWN_TOPIC_OR_PARTITION => {
                    UNKNOWN_TOPIC_PATIENCE.min(self.settings.delivery_timeout)
                }
                _ => self.settings.delivery_timeout,
            };
            if !problem.may_pass() || started.elapsed() > patience {
                return Err(problem);
            }
            sleep(self.settings.retry_backoff);
        }
    }

    /// Return the connection to a node, opened if there is none.
    ///
    /// # Errors
    ///
    /// If the node is unreachable, or not in Metadata.
    pub fn connection(&mut self, node: Node) -> Result<&mut Connection> {
        if !self.connections.contains_key(&node) {
            let opened = match node {
                Node::Any => self.open_any()?,
                Node::Broker(_) | Node::Controller => {
                    let address = self.address(node)?;
                    self.open_advertised(&address)?
                }
            };
            self.connections.insert(node, opened);
        }
        self.connections.get_mut(&node).ok_or_else(|| {
            Error::Setting("no connection".into()) // unreachable, because it was inserted above
        })
    }

    /// Drop the connection to a node, because its state is unknown.
    pub fn drop_connection(&mut self, node: Node) {
        self.connections.remove(&node);
    }

    fn address(&mut self, node: Node) -> Result<String> {
        let find = |client: &Self| {
            let id = match node {
                Node::Controller => client.controller,
                Node::Broker(id) => id,
                Node::Any => return None,
            };
            client.brokers.get(&id).cloned()
        };
        if let Some(address) = find(self) {
            return Ok(address);
        }
        self.metadata(Some(&[]))?;
        find(self).ok_or_else(|| {
            Error::refused(
                ErrorCode::BROKER_NOT_AVAILABLE,
                format!("{node:?} is not among the brokers that Metadata names"),
                None,
            )
        })
    }

    /// Open a connection to an advertised address. Retries an unresolvable host name for a moment, because brokers and
    /// their names may be created together; later it counts as a mistake in the broker's settings.
    fn open_advertised(&self, address: &str) -> Result<Connection> {
        let started = Instant::now();
        loop {
            match Connection::open(address, &self.settings.connection) {
                Err(Error::UnknownHost { broker, problem }) => {
                    if started.elapsed() >= LOOKUP_PATIENCE {
                        return Err(Error::UnknownAdvertisedHost { broker, problem });
                    }
                }
                opened => return opened,
            }
            sleep(self.settings.retry_backoff);
        }
    }

    fn open_any(&self) -> Result<Connection> {
        let mut last = None;
        for address in self.settings.bootstrap.iter().chain(self.brokers.values()) {
            match Connection::open(address, &self.settings.connection) {
                Ok(connection) => return Ok(connection),
                // A wrong password or setting is wrong for every broker.
                Err(problem @ (Error::Network { .. } | Error::UnknownHost { .. })) => {
                    last = Some(problem);
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(last.unwrap_or_else(|| Error::Setting("bootstrap.servers has no address".into())))
    }

    fn complete(found: Vec<TopicResult>, wanted: &[(Uuid, &str)]) -> Result<Vec<Topic>> {
        let mut topics = Vec::with_capacity(wanted.len());
        for (id, name) in wanted {
            let found = found.iter().find(|each| {
                if *id == Uuid::ZERO {
                    each.topic.name == *name
                } else {
                    each.topic.id == *id
                }
            });
            let named = if *id == Uuid::ZERO {
                format!("topic {name}")
            } else {
                format!("topic {name} with id {id}")
            };
            let code = found.map_or(ErrorCode::UNKNOWN_TOPIC_OR_PARTITION, |each| each.error);
            match found {
                Some(each) if each.error == ErrorCode::NONE => topics.push(each.topic.clone()),
                _ => return Err(Error::refused(code, named, None)),
            }
        }
        Ok(topics)
    }

    /// Request topics (`None`: all), and store the brokers and the cluster's id.
    fn metadata(&mut self, wanted: Option<&[(Uuid, &str)]>) -> Result<Vec<TopicResult>> {
        let connection = self.connection(Node::Any)?;
        let version = connection.version_of(ApiKey::Metadata, METADATA)?;
        let by_id = version >= metadata::IDS;
        let request = MetadataRequest {
            topics: wanted.map(|topics| {
                topics
                    .iter()
                    .map(|(id, name)| MetadataRequestTopic {
                        topic_id: if by_id { *id } else { Uuid::ZERO },
                        name: (!by_id || *id == Uuid::ZERO).then_some(*name),
                    })
                    .collect()
            }),
            allow_auto_topic_creation: false,
            include_cluster_authorized_operations: false,
            include_topic_authorized_operations: false,
        };
        let mut body = Vec::new();
        request.encode(version, &mut body);
        let broker = connection.address().to_owned();
        let answer = self.call(Node::Any, ApiKey::Metadata as i16, version, &body);
        let answer = answer.map_err(|problem| self.of_first_answer(problem))?;
        let response = MetadataResponse::decode(&answer, version)
            .map_err(|error| Error::decode(&broker, error))?;
        let settings = &self.settings.connection;
        if !settings.protocol.sasl && shuts_out(&response) {
            let code = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
            return Err(Error::refused(code, broker, Some(&settings.doubt())));
        }
        self.brokers = response
            .head
            .brokers
            .iter()
            .map(|each| (each.node_id, host_and_port(each.host, each.port)))
            .collect();
        self.controller = response.head.controller_id;
        self.cluster_id = response.head.cluster_id.map(str::to_owned);
        Ok(response.topics.iter().map(TopicResult::of).collect())
    }

    /// Extend the error of the first request. Some brokers answer ApiVersions and then close the connection on the next
    /// request. Such a broker may require login or TLS, without a way to report it.
    fn of_first_answer(&self, problem: Error) -> Error {
        let settings = &self.settings.connection;
        match problem {
            Error::Network { broker, problem }
                if is_closed(&problem) && self.brokers.is_empty() && !settings.protocol.sasl =>
            {
                let text = format!("{problem}: {}", settings.doubt());
                let problem = std::io::Error::new(problem.kind(), text);
                Error::Network { broker, problem }
            }
            other => other,
        }
    }
}

/// Return an address for connections; IPv6 hosts get brackets.
#[must_use]
pub fn host_and_port(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Return whether a broker refuses every topic and leaves out its cluster id. This is pybroker's response to clients
/// that must log in or use TLS. Responses before version 2 have no cluster id.
fn shuts_out(response: &MetadataResponse<'_>) -> bool {
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    let mut topics = response.topics.iter();
    response.head.cluster_id.is_none()
        && !response.topics.is_empty()
        && topics.all(|topic| topic.error_code == refused)
}

struct TopicResult {
    error: ErrorCode,
    topic: Topic,
}

impl TopicResult {
    fn of(topic: &metadata::MetadataTopic<'_>) -> Self {
        let mut partitions: Vec<_> = topic.partitions.iter().collect();
        partitions.sort_by_key(|each| each.partition);
        Self {
            error: ErrorCode(topic.error_code),
            topic: Topic {
                id: topic.topic_id,
                name: topic.name.unwrap_or_default().to_owned(),
                leaders: partitions
                    .iter()
                    .map(|each| (each.leader, each.leader_epoch))
                    .collect(),
            },
        }
    }
}
