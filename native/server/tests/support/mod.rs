//! A server in the test's process with real sockets, a control plane operated by the test, and a blocking client.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test binary uses its part"
)]

pub mod records;
pub mod staged;

use std::collections::VecDeque;
use std::io::{Read, Write};
use std::net::{Shutdown, SocketAddr, TcpStream};
use std::sync::Arc;
use std::task::{Context, Poll, Waker};
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pybroker_model::{TopicId, TopicIdPartition, Uuid};
use pybroker_protocol::ApiKey;
use pybroker_protocol::header::{RequestHeader, RequestPrefix, read_response_header};
use pybroker_protocol::primitives::Reader;
use pybroker_replica::{
    BrokerLogSettings, PartitionOrder, Replicas, ReplicasConfig, StopOrder, TopicConfig,
};
use pybroker_server::Server;
use pybroker_server::clock::SystemClock;
use pybroker_server::config::{
    DynamicSettings, ListenerConfig, Registry, SecurityProtocol, ServerConfig,
};
use pybroker_server::control_plane::{
    Busy, ControlPlane, ControlRequest, Lane, TransactionQuestion,
};
use pybroker_server::exposition::Families;
use pybroker_server::limits::Limits;
use pybroker_server::metadata_view::{
    Broker, Endpoint, MetadataDelta, MetadataHolder, PartitionMetadata, TopicMetadata,
};
use pybroker_storage::FlushMode;

/// Time limit of every wait, which is only reached if something hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
pub const BROKER_ID: i32 = 1;
pub const CLUSTER_ID: &str = "test-cluster";

/// The control plane's queue. The test takes requests from it and answers them.
#[derive(Default)]
pub struct FakeControlPlane {
    state: Mutex<State>,
    arrived: Condvar,
}

#[derive(Default)]
struct State {
    queue: VecDeque<ControlRequest>,
    capacity: Option<usize>,
    waiting: Vec<Waker>,
}

impl FakeControlPlane {
    /// Limit the number of requests in the queue.
    pub fn set_capacity(&self, capacity: usize) {
        self.state.lock().capacity = Some(capacity);
    }

    /// Wait for the next request and take it from the queue.
    pub fn next(&self) -> ControlRequest {
        let deadline = Instant::now() + PATIENCE;
        let mut state = self.state.lock();
        loop {
            if let Some(request) = state.queue.pop_front() {
                for waker in state.waiting.drain(..) {
                    waker.wake();
                }
                return request;
            }
            assert!(
                !self.arrived.wait_until(&mut state, deadline).timed_out(),
                "no request came"
            );
        }
    }

    pub fn queued(&self) -> usize {
        self.state.lock().queue.len()
    }
}

impl ControlPlane for FakeControlPlane {
    fn ask(&self, question: TransactionQuestion) {
        let codes = vec![0; question.partitions.len()];
        question.answer.send(codes);
    }

    fn submit(&self, request: ControlRequest) -> Result<(), Busy> {
        let mut state = self.state.lock();
        if state
            .capacity
            .is_some_and(|capacity| state.queue.len() >= capacity)
        {
            return Err(Busy(Box::new(request)));
        }
        state.queue.push_back(request);
        self.arrived.notify_all();
        Ok(())
    }

    fn poll_ready(&self, _: Lane, context: &mut Context<'_>) -> Poll<()> {
        let mut state = self.state.lock();
        if state
            .capacity
            .is_none_or(|capacity| state.queue.len() < capacity)
        {
            return Poll::Ready(());
        }
        state.waiting.push(context.waker().clone());
        Poll::Pending
    }
}

/// A server on a free port, and its log lines.
pub struct TestServer {
    pub server: Server,
    pub control: Arc<FakeControlPlane>,
    pub disk: Disk,
    pub metadata: Arc<MetadataHolder>,
    /// Address of the client listener.
    pub address: SocketAddr,
    /// Address of the inter-broker listener.
    pub brokers_address: SocketAddr,
    lines: Arc<Mutex<Vec<String>>>,
}

impl TestServer {
    pub fn start(settings: DynamicSettings, security: SecurityProtocol, disk: Disk) -> Self {
        let lines = Arc::new(Mutex::new(Vec::new()));
        let sink = Arc::clone(&lines);
        let listener: Arc<str> = "PLAINTEXT".into();
        let config = ServerConfig {
            broker_id: BROKER_ID,
            listeners: [
                (Arc::clone(&listener), Registry::Client),
                ("REPLICATION".into(), Registry::InterBroker),
            ]
            .map(|(name, registry)| ListenerConfig {
                name,
                address: SocketAddr::from(([127, 0, 0, 1], 0)),
                security,
                tls: None,
                registry,
            })
            .into(),
            threads: 2,
            settings,
            log: Arc::new(move |level, line| sink.lock().push(format!("{level:?} {line}"))),
        };
        let control = Arc::new(FakeControlPlane::default());
        let metadata = Arc::new(MetadataHolder::new(CLUSTER_ID));
        let server = Server::start(
            config,
            Arc::clone(&disk.replicas),
            Arc::clone(&metadata),
            Arc::clone(&control) as Arc<dyn ControlPlane>,
        )
        .expect("free ports");
        let [(_, address), (_, brokers_address)] = server.addresses() else {
            unreachable!("two listeners")
        };
        let (address, brokers_address) = (*address, *brokers_address);
        let endpoint = Endpoint {
            listener,
            host: "127.0.0.1".into(),
            port: i32::from(address.port()),
        };
        let broker = Broker {
            id: BROKER_ID,
            rack: Some("r1".into()),
            endpoints: vec![endpoint],
        };
        metadata.apply(MetadataDelta {
            brokers: Some(vec![broker]),
            controller_id: Some(BROKER_ID),
            ..MetadataDelta::default()
        });
        server.start_accepting();
        TestServer {
            server,
            control,
            disk,
            metadata,
            address,
            brokers_address,
            lines,
        }
    }

    pub fn with_limits(change: impl FnOnce(&mut Limits)) -> Self {
        let mut settings = DynamicSettings::default();
        change(&mut settings.limits);
        Self::start(settings, SecurityProtocol::Plaintext, no_replicas())
    }

    pub fn with_flush(flush_mode: FlushMode) -> Self {
        Self::start(
            DynamicSettings::default(),
            SecurityProtocol::Plaintext,
            Disk::new(flush_mode),
        )
    }

    /// Create a topic whose partitions this broker leads, and add it to the metadata.
    pub fn create_topic(&self, id: TopicId, name: &str, partitions: i32, leader_epoch: i32) {
        self.create_topic_with(id, name, partitions, leader_epoch, &[]);
    }

    /// Like `create`, with topic settings.
    pub fn create_topic_with(
        &self,
        id: TopicId,
        name: &str,
        partitions: i32,
        leader_epoch: i32,
        settings: &[(&str, &str)],
    ) {
        self.host(id, name, partitions, leader_epoch, settings, &[BROKER_ID]);
    }

    /// Create a topic with one partition on these replicas, all in sync.
    pub fn create_replicated(&self, id: TopicId, name: &str, leader_epoch: i32, replicas: &[i32]) {
        self.host(id, name, 1, leader_epoch, &[], replicas);
    }

    fn host(
        &self,
        id: TopicId,
        name: &str,
        partitions: i32,
        leader_epoch: i32,
        settings: &[(&str, &str)],
        replicas: &[i32],
    ) {
        let log_settings = self.disk.replicas.log_settings();
        let config = TopicConfig::parse(settings.iter().copied(), &log_settings).expect("settings");
        let config = Arc::new(config);
        let name: Arc<str> = name.into();
        let order = |partition| PartitionOrder {
            tip: TopicIdPartition {
                topic_id: id,
                partition,
            },
            topic: Arc::clone(&name),
            leader: BROKER_ID,
            leader_epoch,
            isr: replicas.into(),
            version: 0,
            replicas: replicas.into(),
            is_new: true,
            start_offset: 0,
            config: Arc::clone(&config),
        };
        let orders: Vec<PartitionOrder> = (0..partitions).map(order).collect();
        for result in self.disk.replicas.apply(&orders, now_ms()) {
            result.expect("the partition is hosted");
        }
        let entry = |partition| PartitionMetadata {
            partition,
            leader: BROKER_ID,
            leader_epoch,
            isr: replicas.to_vec(),
            replicas: replicas.to_vec(),
            offline: vec![],
        };
        let partitions = (0..partitions).map(entry).collect();
        let topic = TopicMetadata {
            id,
            name,
            internal: false,
            partitions,
        };
        self.metadata.apply(MetadataDelta {
            topics_changed: vec![topic],
            ..MetadataDelta::default()
        });
    }

    /// Delete a topic.
    pub fn delete_topic(&self, id: TopicId, partitions: i32) {
        let removed = MetadataDelta {
            topics_removed: vec![id],
            ..MetadataDelta::default()
        };
        self.metadata.apply(removed);
        let order = |partition| StopOrder {
            tip: TopicIdPartition {
                topic_id: id,
                partition,
            },
            leader_epoch: -2,
            delete: true,
        };
        let orders: Vec<StopOrder> = (0..partitions).map(order).collect();
        for result in self.disk.replicas.stop(&orders, now_ms()) {
            result.expect("the partition is stopped");
        }
    }

    pub fn plain() -> Self {
        Self::with_limits(|_| {})
    }

    pub fn connect(&self) -> Client {
        Client::connect(self.address)
    }

    /// Connect to the inter-broker listener.
    pub fn connect_as_broker(&self) -> Client {
        Client::connect(self.brokers_address)
    }

    /// Wait until a log line contains this text.
    pub fn wait_for_line(&self, text: &str) {
        wait_until(&format!("a line with {text:?}"), || {
            self.lines.lock().iter().any(|line| line.contains(text))
        });
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    /// Return the value of a metric without labels; 0 if it does not exist.
    pub fn metric(&self, name: &str) -> f64 {
        let mut families = Families::default();
        self.server.collect_metrics(&mut families);
        let text = families.text();
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
        line.map_or(0.0, |value| value.parse().expect("a number"))
    }
}

/// Replicas in a temporary directory.
pub struct Disk {
    pub replicas: Arc<Replicas>,
    directory: tempfile::TempDir,
}

impl Disk {
    pub fn new(flush_mode: FlushMode) -> Self {
        let directory = tempfile::tempdir().expect("a directory");
        let config = ReplicasConfig {
            layout: pybroker_storage::Layout::TopicName,
            broker_id: BROKER_ID,
            cluster_id: CLUSTER_ID.into(),
            log_dirs: vec![directory.path().join("data")],
            delete_delay_ms: 0,
            threads_per_dir: 1,
            log_settings: BrokerLogSettings {
                flush_mode,
                ..BrokerLogSettings::default()
            },
            clock: Arc::new(SystemClock),
            report: Arc::new(|line| eprintln!("{line}")),
            inform: Arc::new(|_| ()),
            on_all_failed: Arc::new(|_| ()),
        };
        let (replicas, found) = Replicas::start(config).expect("an empty directory");
        assert!(found.is_empty());
        Disk {
            replicas: Arc::new(replicas),
            directory,
        }
    }

    /// Return the path of the log directory.
    pub fn path(&self) -> std::path::PathBuf {
        self.directory.path().join("data")
    }

    /// Drop the logs from the page cache.
    pub fn evict(&self) {
        for partition in std::fs::read_dir(self.directory.path().join("data"))
            .expect("listed")
            .flatten()
        {
            let Ok(files) = std::fs::read_dir(partition.path()) else {
                continue;
            };
            for file in files.flatten() {
                let file = std::fs::File::open(file.path()).expect("opens");
                file.sync_all().expect("flushed");
                rustix::fs::fadvise(&file, 0, None, rustix::fs::Advice::DontNeed)
                    .expect("advice is taken");
            }
        }
    }
}

/// Return replicas that host no partitions.
pub fn no_replicas() -> Disk {
    Disk::new(FlushMode::Os)
}

pub fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    since.expect("after 1970").as_millis() as i64
}

pub fn topic_id(number: u128) -> TopicId {
    TopicId::new(Uuid::from_u128(number)).expect("not zero")
}

/// Wait for a condition.
pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(2));
    }
}

/// A blocking client.
pub struct Client {
    pub socket: TcpStream,
    next_correlation: i32,
}

impl Client {
    pub fn connect(address: SocketAddr) -> Self {
        let socket = TcpStream::connect(address).expect("the server listens");
        socket.set_read_timeout(Some(PATIENCE)).expect("a timeout");
        socket.set_nodelay(true).expect("no delay");
        Client {
            socket,
            next_correlation: 1,
        }
    }

    /// Send raw bytes.
    pub fn send_raw(&mut self, bytes: &[u8]) {
        self.socket.write_all(bytes).expect("the server reads");
    }

    /// Send a request; return its correlation id.
    pub fn send(&mut self, key: ApiKey, version: i16, body: &[u8]) -> i32 {
        let correlation = self.next_correlation;
        self.next_correlation += 1;
        let frame = request_frame(key, version, correlation, body);
        self.send_raw(&frame);
        correlation
    }

    /// Read the next frame, without its length; `None` if the server has closed the connection.
    pub fn receive_frame(&mut self) -> Option<Vec<u8>> {
        let mut length = [0; 4];
        if !self.read_or_closed(&mut length) {
            return None;
        }
        let mut frame = vec![0; u32::from_be_bytes(length) as usize];
        assert!(self.read_or_closed(&mut frame), "closed inside a reply");
        Some(frame)
    }

    fn read_or_closed(&mut self, buffer: &mut [u8]) -> bool {
        match self.socket.read_exact(buffer) {
            Ok(()) => true,
            Err(error) if error.kind() == std::io::ErrorKind::UnexpectedEof => false,
            Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => false,
            Err(error) => panic!("no reply: {error}"),
        }
    }

    /// Read the body of the next response, which must belong to this request.
    pub fn receive(&mut self, key: ApiKey, version: i16, correlation: i32) -> Vec<u8> {
        let frame = self.receive_frame().expect("a reply");
        let mut reader = Reader::new(&frame);
        let flexible = key != ApiKey::ApiVersions && key.api().is_flexible(version);
        assert_eq!(
            read_response_header(&mut reader, flexible),
            Ok(correlation),
            "in the order of requests"
        );
        reader.rest().to_vec()
    }

    /// Send a request and return the body of its response.
    pub fn call(&mut self, key: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
        let correlation = self.send(key, version, body);
        self.receive(key, version, correlation)
    }

    /// Assert that the server closes the connection without sending another response.
    pub fn expect_closed(&mut self) {
        assert_eq!(self.receive_frame(), None, "closed without a reply");
    }

    pub fn close(self) {
        // The server may have closed the connection already.
        let _ = self.socket.shutdown(Shutdown::Both);
    }
}

/// Return a request frame with its length and header.
pub fn request_frame(key: ApiKey, version: i16, correlation: i32, body: &[u8]) -> Vec<u8> {
    let mut frame = vec![0; 4];
    let prefix = RequestPrefix {
        api_key: key.code(),
        api_version: version,
        correlation_id: correlation,
    };
    RequestHeader {
        prefix,
        client_id: Some("test"),
    }
    .write(&mut frame, key.api().is_flexible(version));
    frame.extend_from_slice(body);
    let length = (frame.len() - 4) as u32;
    frame[..4].copy_from_slice(&length.to_be_bytes());
    frame
}
