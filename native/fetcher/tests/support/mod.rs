//! Brokers in the test's process, each with its own log directories, inter-broker listener and fetchers. The test acts
//! as the controller.
#![allow(
    dead_code,
    unreachable_pub,
    missing_docs,
    reason = "each test binary uses its part"
)]

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_client::{
    ConnectionSettings, ReachedBrokers, Registry, Sasl, SecurityProtocol, Software, Tls,
};
use pybroker_fetcher::{Assignment, Broker, FetcherSettings, Fetchers};
use pybroker_model::{BatchBuilder, Codec, TopicId, TopicIdPartition, ValidBatches};
use pybroker_replica::{
    BrokerLogSettings, Partition, PartitionOrder, Replicas, ReplicasConfig, TopicConfig,
};
use pybroker_server::Server;
use pybroker_server::clock::{SystemClock, now_ms};
use pybroker_server::config::{
    ClusterKind, DynamicSettings, ListenerConfig, SecurityProtocol as ListenerSecurity,
    ServerConfig,
};
use pybroker_server::control_plane::{
    Busy, ControlPlane, ControlRequest, Lane, TransactionQuestion,
};
use pybroker_server::metadata_view::{
    MetadataDelta, MetadataHolder, PartitionMetadata, TopicMetadata,
};
use pybroker_storage::{FlushMode, Layout};
use tempfile::TempDir;

/// Time limit of every wait, which is only reached if something hangs.
pub const PATIENCE: Duration = Duration::from_secs(60);
const CLUSTER_ID: &str = "test-cluster";
/// The id of topic 0. Smaller numbers are avoided, because Kafka reserves the smallest ids.
const FIRST_ID: u128 = 1 << 64;

/// A control plane that receives no requests in these tests.
struct NoControlPlane;

impl ControlPlane for NoControlPlane {
    fn ask(&self, _: TransactionQuestion) {}

    fn submit(&self, request: ControlRequest) -> Result<(), Busy> {
        Err(Busy(Box::new(request)))
    }

    fn poll_ready(&self, _: Lane, _: &mut Context<'_>) -> Poll<()> {
        Poll::Pending
    }
}

/// A broker that can be restarted.
pub struct TestBroker {
    pub id: i32,
    root: TempDir,
    dirs: usize,
    settings: FetcherSettings,
    lines: Arc<Mutex<Vec<String>>>,
    running: Option<RunningBroker>,
}

struct RunningBroker {
    // The order of the fields matters, because Rust drops them in this order.
    fetchers: Fetchers,
    server: Server,
    metadata: Arc<MetadataHolder>,
    /// The last state sent to the broker for each partition.
    shown: Mutex<BTreeMap<TopicIdPartition, PartitionMetadata>>,
    address: SocketAddr,
    replicas: Arc<Replicas>,
}

impl TestBroker {
    pub fn start(id: i32) -> Self {
        Self::start_with(id, 1, FetcherSettings::default())
    }

    /// Start a broker with `dirs` log directories.
    pub fn start_with(id: i32, dirs: usize, settings: FetcherSettings) -> Self {
        let mut broker = Self {
            id,
            root: tempfile::tempdir().expect("a directory"),
            dirs,
            settings,
            lines: Arc::default(),
            running: None,
        };
        broker.run();
        broker
    }

    fn run(&mut self) {
        let config = ReplicasConfig {
            layout: Layout::TopicName,
            broker_id: self.id,
            cluster_id: CLUSTER_ID.into(),
            log_dirs: (0..self.dirs).map(|at| self.dir(at)).collect(),
            delete_delay_ms: 0,
            threads_per_dir: 1,
            log_settings: BrokerLogSettings::default(),
            clock: Arc::new(SystemClock),
            report: Arc::new(|line| eprintln!("{line}")),
            inform: Arc::new(|_| ()),
            on_all_failed: Arc::new(|_| ()),
        };
        let (replicas, _) = Replicas::start(config).expect("log directories");
        let replicas = Arc::new(replicas);
        let config = ServerConfig {
            broker_id: self.id,
            listeners: vec![ListenerConfig {
                name: "REPLICATION".into(),
                address: SocketAddr::from(([127, 0, 0, 1], 0)),
                security: ListenerSecurity::Plaintext,
                tls: None,
                registry: Registry::InterBroker,
            }],
            threads: 1,
            settings: DynamicSettings {
                cluster: ClusterKind {
                    topic_ids: self.settings.topic_ids,
                    quorum: false,
                },
                ..DynamicSettings::default()
            },
            log: Arc::new(|level, line| eprintln!("{level:?} {line}")),
        };
        let metadata = Arc::new(MetadataHolder::new(CLUSTER_ID));
        let server = Server::start(
            config,
            Arc::clone(&replicas),
            Arc::clone(&metadata),
            Arc::new(NoControlPlane),
        )
        .expect("a free port");
        let address = server.addresses()[0].1;
        server.start_accepting();
        self.running = Some(RunningBroker {
            fetchers: self.fetchers_of(&replicas),
            server,
            metadata,
            shown: Mutex::default(),
            address,
            replicas,
        });
    }

    fn fetchers_of(&self, replicas: &Arc<Replicas>) -> Fetchers {
        let connection = ConnectionSettings {
            prefix: "",
            registry: Registry::InterBroker,
            software: Software {
                name: "a-follower",
                version: "1",
            },
            client_id: format!("broker-{}-fetcher", self.id),
            protocol: SecurityProtocol::default(),
            sasl: Sasl::default(),
            tls: Tls::default(),
            connect_timeout: Duration::from_secs(10),
            request_timeout: Duration::from_secs(30),
            answered: ReachedBrokers::default(),
        };
        let lines = Arc::clone(&self.lines);
        Fetchers::new(
            self.id,
            replicas,
            self.settings,
            connection,
            Arc::new(SystemClock),
            Arc::new(move |level, line| {
                eprintln!("{level:?} {line}");
                lines.lock().push(format!("{level:?} {line}"));
            }),
        )
    }

    /// Stop the broker. Without `clean`, stop it like a killed process, which flushes nothing and writes no
    /// checkpoints.
    pub fn stop(&mut self, clean: bool) {
        let running = self.running.take().expect("it runs");
        running.fetchers.stop();
        running.server.shutdown(Instant::now() + PATIENCE);
        if clean {
            running.replicas.shutdown(PATIENCE).expect("closes");
        }
    }

    pub fn restart_after_stop(&mut self) {
        self.run();
    }

    /// Stop and start the broker. It then hosts no partitions.
    pub fn restart(&mut self, clean: bool) {
        self.stop(clean);
        self.run();
    }

    fn running(&self) -> &RunningBroker {
        self.running.as_ref().expect("it runs")
    }

    pub fn replicas(&self) -> &Arc<Replicas> {
        &self.running().replicas
    }

    pub fn fetchers(&self) -> &Fetchers {
        &self.running().fetchers
    }

    /// Return the address of the broker's inter-broker listener.
    pub fn place(&self) -> Broker {
        Broker {
            id: self.id,
            address: self.running().address.to_string(),
        }
    }

    pub fn dir(&self, at: usize) -> PathBuf {
        self.root.path().join(format!("data-{at}"))
    }

    pub fn partition(&self, tip: TopicIdPartition) -> Arc<Partition> {
        self.replicas().partition(tip).expect("hosted")
    }

    /// Send the state of partitions to the broker, as LeaderAndIsr and then UpdateMetadata do.
    pub fn apply(&self, orders: &[PartitionOrder]) {
        for told in self.replicas().apply(orders, now_ms()) {
            told.expect("carried out");
        }
        self.show(orders);
        let assignments: Vec<_> = orders
            .iter()
            .map(|order| Assignment {
                tip: order.tip,
                leader: order.leader,
                leader_epoch: order.leader_epoch,
            })
            .collect();
        self.fetchers().set(&[], &assignments).expect("threads");
    }

    fn show(&self, orders: &[PartitionOrder]) {
        let mut shown = self.running().shown.lock();
        for order in orders {
            let state = PartitionMetadata {
                partition: order.tip.partition,
                leader: order.leader,
                leader_epoch: order.leader_epoch,
                isr: order.isr.to_vec(),
                replicas: order.replicas.to_vec(),
                offline: vec![],
            };
            shown.insert(order.tip, state);
        }
        let names: BTreeMap<_, _> = orders
            .iter()
            .map(|order| (order.tip.topic_id, Arc::clone(&order.topic)))
            .collect();
        let topics = names.into_iter().map(|(id, name)| TopicMetadata {
            id,
            name,
            internal: false,
            partitions: shown
                .iter()
                .filter(|(tip, _)| tip.topic_id == id)
                .map(|(_, state)| state.clone())
                .collect(),
        });
        self.running().metadata.apply(MetadataDelta {
            topics_changed: topics.collect(),
            ..MetadataDelta::default()
        });
    }

    /// Send the addresses of other brokers to the broker.
    pub fn meet(&self, brokers: &[Broker]) {
        self.fetchers().set(brokers, &[]).expect("threads");
    }

    pub fn lines(&self) -> Vec<String> {
        self.lines.lock().clone()
    }

    pub fn wait_for_line(&self, text: &str) {
        wait_until(&format!("a line with {text:?}"), || {
            self.lines.lock().iter().any(|line| line.contains(text))
        });
    }

    /// Return all bytes of a partition's log from its files.
    pub fn bytes(&self, tip: TopicIdPartition) -> Vec<u8> {
        let partition = self.partition(tip);
        let dir = self.dir(partition.dir().expect("open"));
        let name = format!("{}-{}", partition.topic(), tip.partition);
        let mut files: Vec<PathBuf> = std::fs::read_dir(dir.join(name))
            .expect("its directory")
            .map(|entry| entry.expect("readable").path())
            .filter(|path| path.extension().is_some_and(|suffix| suffix == "log"))
            .collect();
        files.sort();
        files
            .iter()
            .flat_map(|path| std::fs::read(path).expect("a segment"))
            .collect()
    }
}

pub fn tip(number: u128, partition: i32) -> TopicIdPartition {
    TopicIdPartition {
        topic_id: TopicId::new(pybroker_model::Uuid::from_u128(FIRST_ID + number))
            .expect("not zero"),
        partition,
    }
}

/// Return the state of a partition with replicas 1 and 2, both in sync.
pub fn order(tip: TopicIdPartition, leader: i32, leader_epoch: i32) -> PartitionOrder {
    order_of(tip, leader, leader_epoch, FlushMode::Commit, &[1, 2])
}

pub fn order_of(
    tip: TopicIdPartition,
    leader: i32,
    leader_epoch: i32,
    flush_mode: FlushMode,
    replicas: &[i32],
) -> PartitionOrder {
    let log_settings = BrokerLogSettings {
        flush_mode,
        ..BrokerLogSettings::default()
    };
    let settings = [("segment.bytes", "4096")];
    let mut config = TopicConfig::parse(settings, &log_settings).expect("settings");
    config.sequence = 1;
    PartitionOrder {
        tip,
        topic: format!("topic-{}", tip.topic_id.uuid().as_u128() - FIRST_ID).into(),
        leader,
        leader_epoch,
        isr: replicas.into(),
        version: leader_epoch,
        replicas: replicas.into(),
        is_new: true,
        start_offset: 0,
        config: Arc::new(config),
    }
}

pub fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for value in values {
        builder.push(now_ms(), None, Some(value.as_bytes()));
    }
    builder.build().expect("a batch")
}

/// Append like a producer with these acks. Return whether the leader accepted the records.
pub fn append(partition: &Partition, acks: i16, values: &[&str]) -> bool {
    let batches = ValidBatches::checked_owned(batch(values)).expect("valid");
    partition.append(batches, acks, now_ms()).is_ok()
}

pub fn wait_until(what: &str, condition: impl Fn() -> bool) {
    let deadline = Instant::now() + PATIENCE;
    while !condition() {
        assert!(Instant::now() < deadline, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(1));
    }
}

/// Start brokers 1 and 2, which know each other's address.
pub fn two_with(settings: FetcherSettings, dirs: usize) -> [TestBroker; 2] {
    let brokers = [1, 2].map(|id| TestBroker::start_with(id, dirs, settings));
    introduce(&brokers);
    brokers
}

pub fn two() -> [TestBroker; 2] {
    two_with(FetcherSettings::default(), 1)
}

/// Send each broker the addresses of the others.
pub fn introduce(brokers: &[TestBroker]) {
    let places: Vec<_> = brokers.iter().map(TestBroker::place).collect();
    for broker in brokers {
        broker.meet(&places);
    }
}

/// Send the state of partitions to all brokers.
pub fn apply(brokers: &[TestBroker], orders: &[PartitionOrder]) {
    for broker in brokers {
        broker.apply(orders);
    }
}

/// Wait until the follower has all records of its leader, and both know that they are committed.
pub fn settle(leader: &TestBroker, follower: &TestBroker, tip: TopicIdPartition) {
    let (leader, follower) = (leader.partition(tip), follower.partition(tip));
    wait_until(&format!("{tip} to be the same everywhere"), || {
        let end = leader.log_end_offset();
        [
            leader.high_watermark(),
            follower.log_end_offset(),
            follower.high_watermark(),
        ]
        .iter()
        .all(|&offset| offset == end)
    });
}

/// Replace a file by a named pipe: opening it for reading blocks until it is opened for writing.
pub fn pipe_instead_of(path: &Path) {
    std::fs::remove_file(path).expect("it is there");
    let made = std::process::Command::new("mkfifo").arg(path).status();
    assert!(made.expect("mkfifo runs").success());
}
