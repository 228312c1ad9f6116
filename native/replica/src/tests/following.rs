//! Replicas of one partition on several brokers: followers copy the leader's log, and logs never diverge.

use std::task::Waker;
use std::time::Instant;

use proptest::prelude::*;
use tempfile::TempDir;

use super::*;
use crate::Follower;

/// Brokers 1 to 3, each with a replica of the partition.
struct Three {
    _dirs: Vec<TempDir>,
    hosts: Vec<Host>,
    order: PartitionOrder,
}

impl Three {
    fn new(mode: FlushMode) -> Self {
        let dirs: Vec<_> = (0..3)
            .map(|_| tempfile::tempdir().expect("temp dir"))
            .collect();
        let hosts = dirs
            .iter()
            .zip(1..)
            .map(|(dir, id)| broker(id, &[dir.path().to_path_buf()]))
            .collect();
        let mut order = order(TopicId::random(), 0, 0);
        order.replicas = [1, 2, 3].into();
        order.isr = [1, 2, 3].into();
        order.config = topic_config(mode, |log| log.segment_bytes = 400);
        let three = Self {
            _dirs: dirs,
            hosts,
            order,
        };
        for broker in 1..=3 {
            three.tell(broker);
        }
        three
    }

    /// Send the partition's state to a broker.
    fn tell(&self, broker: i32) {
        let host = &self.hosts[usize::try_from(broker).expect("small") - 1];
        let told = host.replicas.apply(std::slice::from_ref(&self.order), 0);
        assert!(matches!(
            told[..],
            [Ok(()) | Err(PartitionError::FencedLeaderEpoch { .. })]
        ));
    }

    fn elect(&mut self, leader: i32) {
        self.order.leader = leader;
        self.order.leader_epoch += 1;
        self.order.version += 1;
    }

    fn partition(&self, broker: i32) -> Arc<Partition> {
        let host = &self.hosts[usize::try_from(broker).expect("small") - 1];
        host.replicas.partition(self.order.tip).expect("hosted")
    }

    /// Run one fetch of `follower` from `leader`. Return whether their logs agree up to the follower's end. `None` if
    /// the follower follows another leader, or the leader refuses the fetch.
    fn fetch(&self, follower: i32, leader: i32) -> Option<bool> {
        let (mine, led) = (self.partition(follower), self.partition(leader));
        let from = mine.fetch_from(leader)?;
        let who = Follower {
            broker: follower,
            broker_epoch: 1,
            received: Instant::now(),
        };
        let wanted = FetchRead {
            offset: from.offset,
            max_bytes: 200,
            isolation: Isolation::LogEnd,
            current_leader_epoch: from.leader_epoch,
            last_fetched_epoch: from.last_epoch,
            at_least_one: true,
            any_replica: false,
        };
        let read = led.read_for_follower(who, &wanted, Instant::now()).ok()?;
        let epoch = from.leader_epoch;
        if let Some(common) = read.diverging {
            mine.cut_diverging(&from, common, 0).expect("follows");
            return Some(false);
        }
        let records = read.records.to_vec().expect("reads");
        let end = mine.append_fetched(&from, &records, 0).expect("appends");
        until(|| mine.may_claim(end, Waker::noop()));
        mine.follow_bounds(epoch, read.high_watermark, read.log_start_offset)
            .expect("follows");
        Some(true)
    }

    /// Fetch until nothing changes any more.
    fn settle(&self, follower: i32) {
        let leader = self.order.leader;
        for _ in 0..200 {
            let before = self.partition(follower).log_end_offset();
            let watermark = self.partition(follower).high_watermark();
            // A truncation does not always shorten the log: an epoch without records is removed first.
            let agree = self.fetch(follower, leader).expect("follows");
            if agree
                && self.partition(follower).log_end_offset() == before
                && self.partition(follower).high_watermark() == watermark
                && before == self.partition(leader).log_end_offset()
            {
                return;
            }
        }
        panic!("broker {follower} does not catch up with {leader}");
    }

    /// Return the content of a broker's log.
    fn bytes(&self, broker: i32) -> Vec<u8> {
        let partition = self.partition(broker);
        let log = partition.log().expect("open");
        let (mut offset, mut all) = (log.log_start_offset(), Vec::new());
        while offset < log.log_end_offset() {
            let slice = log
                .read(offset, 1 << 20, log.log_end_offset(), true)
                .expect("reads");
            let bytes = slice.to_vec().expect("reads");
            let last = pybroker_model::Batches::new(&bytes)
                .map(|batch| batch.expect("whole").0.last_offset())
                .last();
            offset = last.expect("something") + 1;
            all.extend(bytes);
        }
        all
    }
}

#[test]
fn consumers_read_at_a_follower_what_it_knows_to_be_committed() {
    let mut three = Three::new(FlushMode::Os);
    three.elect(1);
    (1..=3).for_each(|broker| three.tell(broker));
    let leader = three.partition(1);
    append(&leader, &["a"]).expect("appends");
    append(&leader, &["b"]).expect("appends");
    let follower = three.partition(2);
    let read = |offset, current_leader_epoch, any_replica| {
        follower.read(&FetchRead {
            offset,
            current_leader_epoch,
            any_replica,
            isolation: Isolation::ReadUncommitted,
            ..fetch(0)
        })
    };
    assert_eq!(three.fetch(2, 1), Some(true));
    assert!(follower.log_end_offset() > 0);
    assert_eq!(
        read(0, 1, true).expect("reads").records.len,
        0,
        "nothing is committed"
    );
    assert_eq!(
        read(1, 1, true).err(),
        Some(PartitionError::OffsetNotAvailable {
            requested: 1,
            known: 0
        })
    );
    three.settle(3);
    three.settle(2);
    // The claim in this fetch raises the high watermark, which only the next fetch returns.
    three.settle(2);
    assert!(read(0, 1, true).expect("reads").records.len > 0);
    assert!(read(0, -1, true).is_ok());
    assert!(matches!(
        read(0, 0, true),
        Err(PartitionError::FencedLeaderEpoch { .. })
    ));
    assert!(matches!(
        read(0, 2, true),
        Err(PartitionError::UnknownLeaderEpoch { .. })
    ));
    assert_eq!(read(0, 1, false).err(), Some(PartitionError::NotLeader));
}

#[test]
fn a_follower_has_what_its_leader_has_and_the_watermark_follows() {
    for mode in [FlushMode::Commit, FlushMode::Os] {
        let three = Three::new(mode);
        let leader = three.partition(1);
        let info = append(&leader, &["a", "b", "c"]).expect("appends");
        assert_eq!(leader.committed(&info).try_get(), None);
        three.settle(2);
        assert_eq!(leader.committed(&info).try_get(), None, "3 is in sync too");
        three.settle(3);
        three.settle(2);
        until(|| leader.high_watermark() == 3);
        three.settle(2);
        assert_eq!(three.partition(2).high_watermark(), 3);
        assert_eq!(three.bytes(1), three.bytes(2));
        assert_eq!(three.bytes(1), three.bytes(3));
    }
}

#[test]
fn who_has_caught_up_is_proposed_and_who_stays_away_is_proposed_to_go() {
    let mut three = Three::new(FlushMode::Os);
    three.order.isr = [1, 2].into();
    three.elect(1);
    three.tell(1);
    three.tell(2);
    three.tell(3);
    append(&three.partition(1), &["a"]).expect("appends");
    let replicas = &three.hosts[0].replicas;
    three.settle(2);
    assert_eq!(replicas.proposals().take(), [], "it is in sync already");
    three.settle(3);
    let asked = replicas.proposals().take();
    let members = |proposal: &crate::Proposal| -> Vec<i32> {
        proposal.isr.iter().map(|member| member.broker).collect()
    };
    let [ref joining] = asked[..] else {
        panic!("asked once, not {asked:?}");
    };
    assert_eq!(members(&joining.proposal), [1, 2, 3]);
    assert_eq!(joining.leader_epoch, three.order.leader_epoch);
    let version = joining.proposal.version + 1;
    three
        .partition(1)
        .set_isr(three.order.leader_epoch, &[1, 2, 3], version);
    // A minute later neither follower has fetched again, and there are new records.
    append(&three.partition(1), &["b"]).expect("appends");
    let later = Instant::now() + Duration::from_secs(60);
    replicas.judge_followers(later, Duration::from_secs(30));
    let [ref leaving] = replicas.proposals().take()[..] else {
        panic!("asked once");
    };
    assert_eq!(members(&leaving.proposal), [1]);
}

#[test]
fn who_is_not_taken_in_is_waited_for_no_more() {
    let mut three = Three::new(FlushMode::Os);
    three.order.isr = [1, 2].into();
    three.elect(1);
    three.tell(1);
    three.tell(2);
    three.tell(3);
    let (leader, replicas) = (three.partition(1), &three.hosts[0].replicas);
    append(&leader, &["a"]).expect("appends");
    three.settle(2);
    three.settle(3);
    let [ref joining] = replicas.proposals().take()[..] else {
        panic!("asked once");
    };
    append(&leader, &["b"]).expect("appends");
    three.settle(2);
    assert_eq!(leader.high_watermark(), 1, "3 may be in sync, and lacks it");
    // The followers do not fetch again, because the leader has no new records for them.
    leader.isr_refused(joining.leader_epoch, joining.proposal.version);
    assert_eq!(leader.high_watermark(), 2);
}

#[test]
fn a_leader_that_wrote_nothing_leaves_no_epoch_that_others_lack() {
    let mut three = Three::new(FlushMode::Commit);
    append(&three.partition(1), &["a"]).expect("appends");
    three.settle(2);
    three.settle(3);
    // Broker 2 leads and writes nothing. Then broker 3 leads, which never received broker 2's epoch.
    three.elect(2);
    three.tell(2);
    three.elect(3);
    three.tell(3);
    three.tell(2);
    append(&three.partition(3), &["b"]).expect("appends");
    three.settle(2);
    assert_eq!(three.bytes(2), three.bytes(3));
    let epochs = |broker| three.partition(broker).log().expect("open").leader_epochs();
    assert_eq!(epochs(2), epochs(3));
}

#[test]
fn what_an_old_leader_kept_writing_is_cut_off() {
    let mut three = Three::new(FlushMode::Commit);
    append(&three.partition(1), &["a"]).expect("appends");
    three.settle(2);
    three.settle(3);
    // Broker 1 is not notified that broker 2 leads.
    three.elect(2);
    three.tell(2);
    three.tell(3);
    let batches = ValidBatches::checked_owned(batch(&["x", "y"])).expect("valid");
    three
        .partition(1)
        .append(batches, 1, 0)
        .expect("acks=1, still leading");
    append(&three.partition(2), &["b"]).expect("appends");
    assert_eq!(three.fetch(3, 1), None, "3 follows 2 by now");
    three.tell(1);
    three.settle(1);
    three.settle(3);
    assert_eq!(three.bytes(1), three.bytes(2));
    assert_eq!(three.bytes(3), three.bytes(2));
}

#[test]
fn a_log_that_ends_below_the_leaders_start_begins_anew() {
    let three = Three::new(FlushMode::Commit);
    append(&three.partition(1), &["a", "b", "c"]).expect("appends");
    let leader = three.partition(1);
    let from = three.partition(2).fetch_from(1).expect("follows");
    three.settle(3);
    // Delete the first records, as retention does once the slow follower is no longer in sync.
    leader.set_isr(0, &[1, 3], 1);
    three.settle(3);
    until(|| leader.high_watermark() == 3);
    leader.delete_records(2).expect("deletes");
    three
        .partition(2)
        .start_over(&from, leader.log_start_offset(), 0)
        .expect("follows");
    assert_eq!(three.partition(2).fetch_from(1).expect("follows").offset, 2);
    three.settle(3);
    assert_eq!(three.partition(3).log_start_offset(), 2);
}

#[derive(Debug, Clone)]
enum Step {
    Append {
        broker: i32,
        all: bool,
    },
    Fetch {
        follower: i32,
        leader: i32,
    },
    Elect(i32),
    Tell(i32),
    /// The broker answers the waiting producers late, as under load.
    Answer,
}

#[test]
fn a_commit_is_that_of_the_leadership_that_appended() {
    let mut three = Three::new(FlushMode::Os);
    let old = three.partition(1);
    let kept = append(&old, &["kept"]).expect("appends");
    three.settle(2);
    three.settle(3);
    three.settle(2);
    three.settle(3);
    let lost = append(&old, &["lost"]).expect("appends");
    assert_eq!(old.committed(&lost).try_get(), None);
    three.elect(2);
    for broker in 1..=3 {
        three.tell(broker);
    }
    let other = append(&three.partition(2), &["other"]).expect("appends");
    assert_eq!(other.last_offset, lost.last_offset);
    for _ in 0..2 {
        three.settle(1);
        three.settle(3);
    }
    assert_eq!(three.partition(2).committed(&other).try_get(), Some(Ok(())));
    until(|| old.high_watermark() > lost.last_offset);
    assert_eq!(old.committed(&kept).try_get(), Some(Ok(())));
    let not_leader = Some(Err(PartitionError::NotLeader));
    assert_eq!(old.committed(&lost).try_get(), not_leader);
    // The result stays the same when broker 1 leads again.
    three.elect(1);
    for broker in 1..=3 {
        three.tell(broker);
    }
    assert_eq!(old.committed(&lost).try_get(), not_leader);
}

fn steps() -> impl Strategy<Value = Vec<Step>> {
    let broker = || 1..=3i32;
    let step = prop_oneof![
        3 => (broker(), any::<bool>()).prop_map(|(broker, all)| Step::Append { broker, all }),
        6 => (broker(), broker()).prop_map(|(follower, leader)| Step::Fetch { follower, leader }),
        1 => broker().prop_map(Step::Elect),
        2 => broker().prop_map(Step::Tell),
        3 => Just(Step::Answer),
    ];
    proptest::collection::vec(step, 1..60)
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 48, ..ProptestConfig::default() })]

    /// Leaders change. Brokers learn of it late or never, and keep writing; every elected broker is in sync. At the end
    /// all logs are equal byte by byte and contain all committed records.
    #[test]
    fn logs_never_diverge_for_good(steps in steps()) {
        let mut three = Three::new(FlushMode::Os);
        let mut number = 0;
        let mut appended: Vec<(i32, AppendInfo, String)> = Vec::new();
        let mut committed: Vec<(i64, String)> = Vec::new();
        for step in steps {
            match step {
                Step::Append { broker, all } => {
                    number += 1;
                    let value = format!("{number:03}");
                    let batches = ValidBatches::checked_owned(batch(&[&value])).expect("valid");
                    let acks = if all { -1 } else { 1 };
                    if let Ok(info) = three.partition(broker).append(batches, acks, 0) && all {
                        appended.push((broker, info, value));
                    }
                }
                Step::Fetch { follower, leader } => { three.fetch(follower, leader); }
                // All three brokers stay in sync, so that each of them may lead.
                Step::Elect(broker) => three.elect(broker),
                Step::Tell(broker) => three.tell(broker),
                Step::Answer => appended.retain(|(broker, info, value)| {
                    match three.partition(*broker).committed(info).try_get() {
                        Some(Ok(())) => { committed.push((info.last_offset, value.clone())); false }
                        Some(Err(_)) => false,
                        None => true,
                    }
                }),
            }
        }
        three.elect(1);
        for broker in 1..=3 {
            three.tell(broker);
        }
        three.settle(2);
        three.settle(3);
        let all = three.bytes(1);
        prop_assert_eq!(&all, &three.bytes(2));
        prop_assert_eq!(&all, &three.bytes(3));
        let text = String::from_utf8_lossy(&all);
        for (offset, value) in committed {
            prop_assert!(text.contains(&value), "record {} at offset {} was committed and is gone", value, offset);
        }
    }
}

#[test]
fn a_new_leader_lists_no_end_below_the_start_of_its_epoch() {
    let mut three = Three::new(FlushMode::Os);
    three.elect(1);
    (1..=3).for_each(|broker| three.tell(broker));
    for time in [1_000, 1_000, 3_000] {
        let mut builder = BatchBuilder::new(Codec::None);
        builder.push(time, None, Some(b"v"));
        let batch = ValidBatches::checked_owned(builder.build().expect("builds"));
        let appended = three.partition(1).append(batch.expect("valid"), -1, 1_000);
        appended.expect("appends");
    }
    // Both followers have all records, and the first leader has acknowledged these. Broker 2 does not know yet that
    // they are committed.
    three.settle(3);
    while three.partition(1).high_watermark() < 3 {
        three.fetch(2, 1);
    }
    assert!(three.partition(2).high_watermark() < 3);
    three.elect(2);
    three.tell(2);
    let leader = three.partition(2);
    let listed = |spec, isolation| {
        leader
            .list_offset(spec, isolation, 2)
            .map(|found| found.offset)
    };
    let refused = Err(PartitionError::OffsetNotAvailable {
        requested: 3,
        known: leader.high_watermark(),
    });
    assert!(leader.lags_epoch_start());
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        assert_eq!(listed(OffsetSpec::Latest, isolation), refused);
        assert_eq!(listed(OffsetSpec::MaxTimestamp, isolation), refused);
        assert_eq!(listed(OffsetSpec::Timestamp(2_000), isolation), refused);
        assert_eq!(listed(OffsetSpec::Earliest, isolation), Ok(0));
    }
    assert_eq!(
        listed(OffsetSpec::Latest, Isolation::LogEnd),
        Ok(3),
        "followers ask for the log end"
    );
    assert_eq!(leader.lag(0), None);
    append(&leader, &["d"]).expect("appends");
    for broker in [1, 3] {
        three.tell(broker);
        three.fetch(broker, 2);
    }
    assert!(!leader.lags_epoch_start());
    for isolation in [Isolation::ReadUncommitted, Isolation::ReadCommitted] {
        assert_eq!(listed(OffsetSpec::Latest, isolation), Ok(3));
        assert_eq!(listed(OffsetSpec::MaxTimestamp, isolation), Ok(2));
        assert_eq!(listed(OffsetSpec::Timestamp(2_000), isolation), Ok(2));
        assert_eq!(listed(OffsetSpec::Timestamp(4_000), isolation), Ok(-1));
    }
}

#[test]
fn a_new_leader_finds_times_below_its_high_watermark() {
    let mut three = Three::new(FlushMode::Os);
    three.elect(1);
    (1..=3).for_each(|broker| three.tell(broker));
    append(&three.partition(1), &["a"]).expect("appends");
    // The second round of fetches tells the followers that the record is committed.
    for _ in 0..2 {
        three.settle(3);
        three.settle(2);
    }
    assert_eq!(three.partition(2).high_watermark(), 1);
    append(&three.partition(1), &["b"]).expect("appends");
    three.fetch(2, 1);
    three.elect(2);
    three.tell(2);
    let leader = three.partition(2);
    let listed = |spec| {
        leader
            .list_offset(spec, Isolation::ReadUncommitted, 2)
            .map(|found| found.offset)
    };
    assert!(leader.lags_epoch_start());
    assert_eq!(listed(OffsetSpec::Timestamp(1_000)), Ok(0));
    assert_eq!(listed(OffsetSpec::MaxTimestamp), Ok(0));
    assert!(matches!(
        listed(OffsetSpec::Timestamp(1_001)),
        Err(PartitionError::OffsetNotAvailable { .. })
    ));
}

#[test]
fn a_leader_alone_in_the_isr_knows_its_end_at_once() {
    let dir = tempfile::tempdir().expect("temp dir");
    let host = host(&[dir.path().to_path_buf()]);
    let mut order = order(TopicId::random(), 0, 0);
    order.config = topic_config(FlushMode::Os, |_| {});
    let partition = lead(&host, &order);
    append(&partition, &["a"]).expect("appends");
    order.leader_epoch = 1;
    order.is_new = false;
    let partition = lead(&host, &order);
    assert!(!partition.lags_epoch_start());
    assert_eq!(partition.high_watermark(), 1);
}
