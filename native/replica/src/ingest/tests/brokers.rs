//! An ingest on several brokers. Acknowledged records are staged on all in-sync replicas. Every broker attaches the
//! records that it prepared, at the same offsets, under any sequence of leaders.

use std::sync::Weak;
use std::task::Waker;
use std::time::Instant;

use hashbrown::HashMap;
use parking_lot::Mutex;
use pybroker_model::TopicIdPartition;
use tempfile::TempDir;

use super::*;
use crate::tests::{broker, until};
use crate::{
    FetchRead, Follower, Isolation, PartitionOrder, PartitionRead, Preparation, Replicas,
    StagedChunk, StagedCopies,
};

const PLAN: u32 = 9;

/// The simulated connection between the brokers of a test.
#[derive(Default)]
struct Wire {
    brokers: Mutex<HashMap<i32, Weak<Replicas>>>,
    away: Mutex<Vec<i32>>,
    partition: i32,
}

impl std::fmt::Debug for Wire {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter.debug_struct("Wire").finish_non_exhaustive()
    }
}

impl StagedCopies for Wire {
    fn send(&self, broker: i32, chunk: &StagedChunk<'_>) -> Result<i64, String> {
        if self.away.lock().contains(&broker) {
            return Err("away".into());
        }
        assert_eq!(chunk.partition, self.partition);
        let to = self.brokers.lock().get(&broker).and_then(Weak::upgrade);
        let to = to.ok_or("unknown")?;
        let tip = TopicIdPartition {
            topic_id: chunk.name.topic_id,
            partition: chunk.partition,
        };
        let partition = to.partition(tip).ok_or("not hosted")?;
        let staged = to.stage_copy(
            chunk.name,
            chunk.epoch,
            chunk.writer,
            chunk.attempt,
            &partition,
            chunk.sequence,
            &mut chunk.records.to_vec(),
            NOW,
        );
        match staged {
            Ok(rows) => Ok(rows),
            Err(IngestError::Gap { next, .. }) => Ok(next),
            Err(error) => Err(error.to_string()),
        }
    }
}

/// Brokers 1 to 3, each with a replica, and an ingest that is open on all of them.
struct Brokers {
    _dirs: Vec<TempDir>,
    hosts: Vec<Host>,
    order: PartitionOrder,
    ingest: NewIngest,
    wire: Arc<Wire>,
}

impl Brokers {
    fn new() -> Self {
        let dirs: Vec<_> = (0..3)
            .map(|_| tempfile::tempdir().expect("temp dir"))
            .collect();
        let hosts: Vec<_> = dirs
            .iter()
            .zip(1..)
            .map(|(dir, id)| broker(id, &[dir.path().to_path_buf()]))
            .collect();
        let mut order = order(TopicId::random(), 0, 0);
        order.replicas = [1, 2, 3].into();
        order.isr = [1, 2, 3].into();
        let wire = Arc::new(Wire::default());
        for (host, id) in hosts.iter().zip(1..) {
            let replicas = Arc::downgrade(&host.replicas);
            wire.brokers.lock().insert(id, replicas);
            let way: Arc<dyn StagedCopies> = Arc::clone(&wire) as _;
            host.replicas.ingests().set_copies(way);
        }
        let ingest = new(order.tip.topic_id, 5);
        let all = Self {
            _dirs: dirs,
            hosts,
            order,
            ingest,
            wire,
        };
        for host in &all.hosts {
            let opened = host.replicas.open_ingest(all.ingest.clone(), NOW);
            opened.expect("opens");
        }
        all.tell();
        all
    }

    fn tell(&self) {
        for host in &self.hosts {
            let told = host.replicas.apply(std::slice::from_ref(&self.order), 0);
            assert_eq!(told, [Ok(())]);
        }
    }

    fn now(&mut self, leader: i32, isr: &[i32]) {
        self.order.leader_epoch += i32::from(self.order.leader != leader);
        self.order.leader = leader;
        self.order.isr = isr.into();
        self.order.version += 1;
        self.tell();
    }

    fn replicas(&self, broker: i32) -> &Arc<Replicas> {
        &self.hosts[usize::try_from(broker).expect("small") - 1].replicas
    }

    fn partition(&self, broker: i32) -> Arc<Partition> {
        let found = self.replicas(broker).partition(self.order.tip);
        found.expect("hosted")
    }

    fn stage(&self, sequence: i64, data: &[u8]) -> Result<i64, IngestError> {
        let leader = self.order.leader;
        self.replicas(leader).stage_records(
            &self.ingest.name,
            5,
            1,
            1,
            &self.partition(leader),
            sequence,
            &mut data.to_vec(),
            NOW,
        )
    }

    /// Return the number of records that a broker has staged.
    fn staged(&self, broker: i32) -> i64 {
        let states = self.replicas(broker).list_ingests();
        states[0].partitions.first().map_or(0, |sums| sums.1)
    }

    fn prepare(&self, broker: i32, listed: &[CommitEntry]) -> Result<(), IngestError> {
        let preparation = Preparation {
            plan: PLAN,
            leads: broker == self.order.leader,
            holders: [(0, Arc::clone(&self.order.isr))].into_iter().collect(),
        };
        let name = &self.ingest.name;
        let replicas = self.replicas(broker);
        let prepared = replicas.prepare_ingest(name, 5, &preparation, listed, NOW)?;
        assert_eq!(prepared.len(), 1);
        Ok(())
    }

    fn attach(&self) -> (i64, i64) {
        let attached = self.replicas(self.order.leader).attach_ingest(
            self.order.tip,
            &self.ingest.directory,
            PLAN,
            TimestampType::CreateTime,
            NOW,
        );
        let attached = attached.expect("attaches").0;
        (attached.base_offset, attached.end_offset)
    }

    /// Return the content of a broker's small log.
    fn bytes(&self, broker: i32) -> Vec<u8> {
        let partition = self.partition(broker);
        let log = partition.log().expect("open");
        let read = log.read(0, 1 << 20, log.log_end_offset(), true);
        read.expect("reads").to_vec().expect("bytes")
    }

    /// Run one fetch of a follower; return the response.
    fn fetch(&self, follower: i32) -> PartitionRead {
        let (mine, led) = (self.partition(follower), self.partition(self.order.leader));
        let from = mine.fetch_from(self.order.leader).expect("follows");
        let who = Follower {
            broker: follower,
            broker_epoch: 1,
            received: Instant::now(),
        };
        let wanted = FetchRead {
            offset: from.offset,
            max_bytes: 1 << 20,
            isolation: Isolation::LogEnd,
            current_leader_epoch: from.leader_epoch,
            last_fetched_epoch: from.last_epoch,
            at_least_one: true,
            any_replica: false,
        };
        let read = led.read_for_follower(who, &wanted, Instant::now());
        let read = read.expect("reads");
        if let Some(common) = read.diverging {
            mine.cut_diverging(&from, common, 0).expect("cuts");
        } else if let Some(told) = &read.attach {
            let replicas = self.replicas(follower);
            let end = replicas.attach_fetched(self.order.tip, &from, told, NOW);
            assert_eq!(end, Ok(told.end_offset));
        } else {
            let records = read.records.to_vec().expect("reads");
            let end = mine.append_fetched(&from, &records, 0).expect("appends");
            until(|| mine.may_claim(end, Waker::noop()));
        }
        read
    }
}

/// Return two batches of two records each, and the entry of a commit that lists them.
fn load() -> (Vec<u8>, Vec<u8>, CommitEntry) {
    let (one, two) = (batch(&["a", "b"]), batch(&["c", "d"]));
    let mut all = listed(1, &one, 2);
    let header = BatchHeader::parse(&two).expect("a batch");
    all.totals.add(2, two.len() as u64, header.crc);
    (one, two, all)
}

#[test]
fn an_append_is_answered_when_all_that_are_in_sync_have_it() {
    let mut brokers = Brokers::new();
    let (one, two, _) = load();
    assert_eq!(brokers.stage(0, &one), Ok(2));
    assert_eq!([1, 2, 3].map(|broker| brokers.staged(broker)), [2, 2, 2]);
    brokers.wire.away.lock().push(3);
    let refused = brokers.stage(2, &two);
    assert!(
        matches!(refused, Err(IngestError::NotCopied { broker: 3, .. })),
        "{refused:?}"
    );
    // Broker 3 has left the ISR, and the client retries.
    brokers.now(1, &[1, 2]);
    assert_eq!(brokers.stage(2, &two), Ok(4));
    assert_eq!([1, 2, 3].map(|broker| brokers.staged(broker)), [4, 4, 2]);
    // Broker 3 returns and receives the remaining records before it joins the ISR.
    brokers.wire.away.lock().clear();
    let brought = brokers
        .replicas(1)
        .bring_staged(brokers.order.tip, &[3], NOW);
    assert_eq!(brought, Ok(()));
    assert_eq!(brokers.staged(3), 4);
    // The next leader continues where the previous one ended, even if the client repeats requests.
    brokers.now(3, &[1, 2, 3]);
    assert_eq!(brokers.stage(2, &two), Ok(4));
    assert_eq!(brokers.stage(4, &one), Ok(6));
    assert_eq!([1, 2, 3].map(|broker| brokers.staged(broker)), [6, 6, 6]);
}

#[test]
fn all_that_are_in_sync_attach_what_they_prepared_where_the_leader_does() {
    let mut brokers = Brokers::new();
    let (one, two, all) = load();
    brokers.now(1, &[1, 2]);
    assert_eq!(brokers.stage(0, &one), Ok(2));
    assert_eq!(brokers.stage(2, &two), Ok(4));
    assert_eq!(brokers.prepare(1, &[all]), Ok(()));
    assert_eq!(brokers.prepare(2, &[all]), Ok(()));
    assert_eq!(brokers.stage(4, &one), Err(IngestError::Committing));
    // A replaced leader that has not noticed its successor cannot add to the prepared attempts.
    let late = StagedChunk {
        name: &brokers.ingest.name,
        epoch: 5,
        partition: 0,
        writer: 1,
        attempt: 1,
        sequence: 4,
        records: &one,
    };
    assert_eq!(brokers.wire.send(2, &late), Ok(4));
    assert_eq!(brokers.staged(2), 4);

    assert_eq!(brokers.attach(), (0, 4));
    assert_eq!(
        brokers.partition(1).high_watermark(),
        0,
        "broker 2 has it not"
    );
    let read = brokers.fetch(2);
    assert_eq!(read.records.len, 0);
    assert_eq!(
        read.attach.map(|told| (told.base_offset, told.end_offset)),
        Some((0, 4))
    );
    // Broker 3 was not in sync, so it copies the records instead of attaching them.
    assert!(brokers.fetch(3).attach.is_none());
    assert_eq!(brokers.partition(3).log_end_offset(), 4);
    for broker in [2, 3] {
        brokers.fetch(broker);
    }
    assert_eq!(brokers.partition(1).high_watermark(), 4);
    assert_eq!(brokers.attach(), (0, 4), "once");

    // The next leader announces the attach to followers that lack it.
    brokers.now(2, &[1, 2]);
    assert_eq!(brokers.attach(), (0, 4), "once, whoever leads");
    assert_eq!(brokers.partition(2).log_end_offset(), 4);
}

#[test]
fn a_leader_that_has_not_attached_it_does_and_who_had_it_elsewhere_is_cut_back() {
    let mut brokers = Brokers::new();
    let (one, two, all) = load();
    assert_eq!(brokers.stage(0, &one), Ok(2));
    assert_eq!(brokers.stage(2, &two), Ok(4));
    for broker in 1..=3 {
        assert_eq!(brokers.prepare(broker, &[all]), Ok(()));
    }
    assert_eq!(brokers.attach(), (0, 4));
    brokers.fetch(2);
    // Broker 1 dies. Broker 3, whose log lacks the ingest, becomes leader and first appends another record.
    brokers.now(3, &[2, 3]);
    let valid = pybroker_model::ValidBatches::checked_owned(batch(&["first"])).expect("a batch");
    let appended = brokers.partition(3).append(valid, 1, NOW);
    assert_eq!(appended.map(|info| info.base_offset), Ok(0));
    assert_eq!(brokers.attach(), (1, 5));
    for broker in [2, 1] {
        for _ in 0..6 {
            brokers.fetch(broker);
        }
        let partition = brokers.partition(broker);
        assert_eq!(partition.log_end_offset(), 5, "broker {broker}");
        assert_eq!(brokers.bytes(broker), brokers.bytes(3), "broker {broker}");
    }
    assert_eq!(brokers.partition(3).high_watermark(), 5);
    // Broker 2 leads again, after it has attached the ingest once more.
    brokers.now(2, &[1, 2, 3]);
    assert_eq!(brokers.attach(), (1, 5));
    assert_eq!(brokers.partition(2).log_end_offset(), 5);
}

#[test]
fn what_is_over_is_copied() {
    let mut brokers = Brokers::new();
    let (one, two, all) = load();
    assert_eq!(brokers.stage(0, &one), Ok(2));
    assert_eq!(brokers.stage(2, &two), Ok(4));
    for broker in 1..=3 {
        assert_eq!(brokers.prepare(broker, &[all]), Ok(()));
    }
    assert_eq!(brokers.attach(), (0, 4));
    // Broker 3 was unreachable while the others completed the ingest, and has removed its files.
    brokers.now(1, &[1, 2]);
    brokers.fetch(2);
    for broker in [3, 1] {
        let replicas = brokers.replicas(broker);
        let dropped = replicas.drop_ingest(&brokers.ingest.name, &brokers.ingest.directory);
        assert_eq!(dropped, Ok(()));
    }
    assert!(brokers.fetch(3).attach.is_none());
    assert_eq!(brokers.partition(3).log_end_offset(), 4);
}
