//! Partitions and orders against real logs in a temporary directory.

use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering::SeqCst};
use std::task::{Context, Poll, Wake, Waker};
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_model::{BatchBuilder, Codec, TopicId, TopicIdPartition, ValidBatches};
use pybroker_storage::{FlushMode, LogConfig};

use crate::{
    AppendInfo, BrokerLogSettings, Clock, FetchRead, Isolation, OffsetSpec, Partition,
    PartitionError, PartitionOrder, Replicas, ReplicasConfig, StopOrder, TopicConfig,
};

mod apply;
mod background;
mod following;
mod partition;
mod restore;

/// A generous time limit: an event that has not happened by then never will.
pub(super) const WAIT: Duration = Duration::from_secs(60);

pub(super) struct Host {
    pub(super) replicas: Arc<Replicas>,
    pub(super) reports: Arc<Mutex<Vec<String>>>,
}

/// A clock that always shows 1,000 s.
#[derive(Debug)]
struct StoppedClock;

impl Clock for StoppedClock {
    fn now_ms(&self) -> i64 {
        1_000_000
    }

    fn now(&self) -> Instant {
        Instant::now()
    }
}

pub(super) fn config(dirs: &[PathBuf], reports: &Arc<Mutex<Vec<String>>>) -> ReplicasConfig {
    let reports = Arc::clone(reports);
    ReplicasConfig {
        broker_id: 1,
        cluster_id: "c".into(),
        layout: pybroker_storage::Layout::TopicName,
        log_dirs: dirs.to_vec(),
        delete_delay_ms: 1_000,
        threads_per_dir: 2,
        log_settings: BrokerLogSettings::default(),
        clock: Arc::new(StoppedClock),
        report: Arc::new(move |text| reports.lock().push(text.to_owned())),
        inform: Arc::new(|_| ()),
        on_all_failed: Arc::new(|_| ()),
    }
}

pub(super) fn host(dirs: &[PathBuf]) -> Host {
    broker(1, dirs)
}

pub(super) fn broker(broker_id: i32, dirs: &[PathBuf]) -> Host {
    let reports = Arc::default();
    let config = ReplicasConfig {
        broker_id,
        ..config(dirs, &reports)
    };
    let (replicas, _) = Replicas::start(config).expect("starts");
    Host {
        replicas: Arc::new(replicas),
        reports,
    }
}

pub(super) fn topic_config(
    mode: FlushMode,
    change: impl FnOnce(&mut LogConfig),
) -> Arc<TopicConfig> {
    let mut log = LogConfig {
        flush_mode: mode,
        ..LogConfig::default()
    };
    change(&mut log);
    Arc::new(TopicConfig {
        log: Arc::new(log),
        ..TopicConfig::default()
    })
}

pub(super) fn order(topic_id: TopicId, partition: i32, leader_epoch: i32) -> PartitionOrder {
    PartitionOrder {
        tip: TopicIdPartition {
            topic_id,
            partition,
        },
        topic: "t".into(),
        leader: 1,
        leader_epoch,
        isr: [1].into(),
        version: 0,
        replicas: [1].into(),
        is_new: true,
        start_offset: 0,
        config: topic_config(FlushMode::Commit, |_| {}),
    }
}

pub(super) fn lead(host: &Host, order: &PartitionOrder) -> Arc<Partition> {
    assert_eq!(
        host.replicas.apply(std::slice::from_ref(order), 0),
        [Ok(())]
    );
    host.replicas.partition(order.tip).expect("hosted")
}

pub(super) fn batch(values: &[&str]) -> Vec<u8> {
    let mut builder = BatchBuilder::new(Codec::None);
    for value in values {
        builder.push(1_000, Some(value.as_bytes()), Some(value.as_bytes()));
    }
    builder.build().expect("builds")
}

pub(super) fn append(partition: &Partition, values: &[&str]) -> Result<AppendInfo, PartitionError> {
    partition.append(ValidBatches::checked_owned(batch(values))?, -1, 1_000)
}

/// Append the same record of an idempotent producer on every call.
pub(super) fn append_from(
    partition: &Partition,
    sequence: i32,
) -> Result<AppendInfo, PartitionError> {
    let mut builder = BatchBuilder::new(Codec::None).producer(77, 0, sequence);
    builder.push(1_000, None, Some(b"v"));
    let batch = builder.build().expect("builds");
    partition.append(ValidBatches::checked_owned(batch)?, -1, 1_000)
}

pub(super) fn fetch(offset: i64) -> FetchRead {
    FetchRead {
        offset,
        max_bytes: 1 << 20,
        isolation: Isolation::ReadUncommitted,
        current_leader_epoch: -1,
        last_fetched_epoch: -1,
        at_least_one: true,
        any_replica: false,
    }
}

/// Run a future on this thread. Panic if it is not ready in time.
pub(super) fn wait<F: Future>(future: F) -> F::Output {
    struct Unpark(std::thread::Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Waker::from(Arc::new(Unpark(std::thread::current())));
    let mut future = std::pin::pin!(future);
    let start = Instant::now();
    loop {
        if let Poll::Ready(output) = future.as_mut().poll(&mut Context::from_waker(&waker)) {
            return output;
        }
        assert!(start.elapsed() < WAIT, "not ready in time");
        std::thread::park_timeout(WAIT);
    }
}

/// Wait until another thread makes the condition true.
pub(super) fn until(mut condition: impl FnMut() -> bool) {
    let start = Instant::now();
    while !condition() {
        assert!(start.elapsed() < WAIT, "the condition did not come");
        std::thread::sleep(Duration::from_millis(1));
    }
}

#[derive(Default)]
pub(super) struct Counter(pub(super) AtomicUsize);

impl Counter {
    pub(super) fn waker(self: &Arc<Self>) -> Waker {
        Waker::from(Arc::clone(self))
    }

    pub(super) fn count(&self) -> usize {
        self.0.load(SeqCst)
    }
}

impl Wake for Counter {
    fn wake(self: Arc<Self>) {
        self.0.fetch_add(1, SeqCst);
    }
}

pub(super) fn latest(partition: &Partition) -> i64 {
    partition
        .list_offset(OffsetSpec::Latest, Isolation::ReadUncommitted, -1)
        .expect("leads")
        .offset
}

pub(super) fn stop(order: &PartitionOrder, delete: bool) -> StopOrder {
    StopOrder {
        tip: order.tip,
        leader_epoch: -1,
        delete,
    }
}
