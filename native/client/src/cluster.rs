//! A blocking client of a whole cluster: where the brokers are, who leads a partition, one connection to each.

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

/// Highest Metadata version spoken: 12, by id and with nullable names (KIP-516).
const METADATA: RangeInclusive<i16> = 1..=12;
/// How long a topic may be unknown before it is taken for deleted: a broker learns of a new topic a moment after its
/// creator does.
const UNKNOWN_TOPIC_PATIENCE: Duration = Duration::from_secs(3);
/// How long a host name that the cluster has named may be unknown.
const LOOKUP_PATIENCE: Duration = Duration::from_secs(5);

/// Who is to answer a request.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Node {
    /// Whoever can be reached.
    Any,
    /// The controller, as Metadata names it.
    Controller,
    /// The broker of that id.
    Broker(i32),
}

/// A topic as Metadata tells it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Topic {
    /// Its id; zero from brokers that know none.
    pub id: Uuid,
    /// Its name.
    pub name: String,
    /// Leader and leader epoch of each partition; −1 where there is none just now.
    pub leaders: Vec<(i32, i32)>,
}

/// Connections to the brokers of one cluster, opened when they are needed.
pub struct Client {
    settings: ClientSettings,
    connections: HashMap<Node, Connection>,
    brokers: BTreeMap<i32, String>,
    controller: i32,
    cluster_id: Option<String>,
}

impl Client {
    /// A client; connects when it is first asked something.
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

    /// The settings it was made with.
    #[must_use]
    pub const fn settings(&self) -> &ClientSettings {
        &self.settings
    }

    /// The cluster's id.
    ///
    /// # Errors
    /// No broker can be reached.
    pub fn cluster_id(&mut self) -> Result<Option<String>> {
        if self.brokers.is_empty() {
            self.metadata(Some(&[]))?;
        }
        Ok(self.cluster_id.clone())
    }

    /// The highest version of `api_key` in `ours` that the node serves; `None` if there is none.
    ///
    /// # Errors
    /// The node cannot be reached.
    pub fn version(
        &mut self,
        node: Node,
        api_key: i16,
        ours: RangeInclusive<i16>,
    ) -> Result<Option<i16>> {
        Ok(self.connection(node)?.version(api_key, ours))
    }

    /// One request and the body of its response. Requests are such that a second time does no harm: if the broker turns
    /// out to have closed a connection that was idle, the request goes out once more over a new one.
    ///
    /// # Errors
    /// The network; the connection is dropped then, and the next call opens another.
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

    /// The topics of those ids (names where the id is zero). Partitions may be without a leader: only who needs one
    /// of them can tell.
    ///
    /// # Errors
    /// A topic that does not exist, or no broker that answers for `delivery.timeout.ms`.
    pub fn topics(&mut self, wanted: &[(Uuid, &str)]) -> Result<Vec<Topic>> {
        self.patiently(|client| Self::complete(client.metadata(Some(wanted))?, wanted))
    }

    /// What `ask` finds. While its error may pass it is asked again, for `delivery.timeout.ms`; a topic that nobody
    /// knows is waited for a moment only.
    ///
    /// # Errors
    /// The last one of `ask`.
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

    /// The connection to a node, opened if there is none.
    ///
    /// # Errors
    /// The node cannot be reached, or is none that Metadata names.
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
            Error::Setting("no connection".into()) // unreachable: inserted above
        })
    }

    /// Forgets the connection to a node, whose state is not known any more.
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

    /// Opens a connection to an address that the cluster has named. A name may be known a moment later, where brokers
    /// and their names are made together; after that it is a mistake in the settings of the broker.
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
                // A wrong password or setting is wrong everywhere.
                Err(problem @ (Error::Network { .. } | Error::UnknownHost { .. })) => {
                    last = Some(problem);
                }
                Err(problem) => return Err(problem),
            }
        }
        Err(last.unwrap_or_else(|| Error::Setting("there is no address to begin with".into())))
    }

    fn complete(found: Vec<Found>, wanted: &[(Uuid, &str)]) -> Result<Vec<Topic>> {
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

    /// Asks for topics (`None`: all), and learns the brokers and the cluster's id on the way.
    fn metadata(&mut self, wanted: Option<&[(Uuid, &str)]>) -> Result<Vec<Found>> {
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
        Ok(response.topics.iter().map(Found::of).collect())
    }

    /// A broker that tells its versions and ends the connection on the first question about the cluster may be one that
    /// has no other way to say that it wants a login, or TLS.
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

/// An address as connections take it; one of IPv6 stands in brackets.
#[must_use]
pub fn host_and_port(host: &str, port: i32) -> String {
    if host.contains(':') {
        format!("[{host}]:{port}")
    } else {
        format!("{host}:{port}")
    }
}

/// Whether every topic is refused by a broker that does not say which cluster it is of: pybroker's way to tell who has
/// not logged in, or does not speak TLS. Before version 2 nobody says it.
fn shuts_out(response: &MetadataResponse<'_>) -> bool {
    let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
    let mut topics = response.topics.iter();
    response.head.cluster_id.is_none()
        && !response.topics.is_empty()
        && topics.all(|topic| topic.error_code == refused)
}

struct Found {
    error: ErrorCode,
    topic: Topic,
}

impl Found {
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
