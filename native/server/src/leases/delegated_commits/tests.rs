use pybroker_model::{BatchHeader, Uuid};
use pybroker_protocol::hot::offset_commit::OffsetCommitPartition;

use super::*;

const BY_NAME: i16 = 9;
const NAMES: [&str; 3] = ["none", "one", "two"];

fn topic_id(number: u128) -> TopicId {
    TopicId::new(Uuid::from_u128(number)).expect("not zero")
}

fn shard() -> Arc<ShardCommits> {
    let tip = TopicIdPartition {
        topic_id: topic_id(9),
        partition: 0,
    };
    Arc::new(ShardCommits::new(tip, 0))
}

fn commit(group: &str, topic: u128, offset: i64) -> MemberCommit {
    MemberCommit {
        group: group.into(),
        topic_id: topic_id(topic),
        topic: "t".into(),
        partition: 0,
        offset,
        leader_epoch: -1,
        metadata: "".into(),
        timestamp_ms: 0,
        log_offset: 0,
    }
}

fn all_of(commits: Vec<MemberCommit>) -> Vec<(String, TopicId)> {
    let mut found: Vec<_> = commits
        .into_iter()
        .map(|commit| (commit.group.to_string(), commit.topic_id))
        .collect();
    found.sort_unstable();
    found
}

#[test]
fn of_two_commits_the_later_record_counts_in_whatever_order_they_end() {
    for ends in [[(0, 10), (1, 11)], [(1, 11), (0, 10)]] {
        let shard = shard();
        let batches = [7, 8].map(|offset| shard.began(vec![commit("g", 1, offset)]));
        for (batch, base_offset) in ends {
            assert!(shard.ended(batches[batch], base_offset).is_ok());
        }
        let taken = shard.take();
        assert_eq!(taken.len(), 1);
        assert_eq!((taken[0].offset, taken[0].log_offset), (8, 11));
    }
}

#[test]
fn what_has_failed_is_neither_on_its_way_nor_counted() {
    let shard = shard();
    let batches = [1, 2].map(|topic| shard.began(vec![commit("g", topic, 5)]));
    shard.failed(batches[0]);
    assert_eq!(all_of(shard.in_flight()), [("g".to_owned(), topic_id(2))]);
    assert!(shard.ended(batches[1], 0).is_ok());
    assert_eq!((shard.take().len(), shard.take_count()), (1, 1));
    assert_eq!((shard.take().len(), shard.take_count()), (0, 0));
}

#[test]
fn a_group_and_a_topic_take_away_what_is_theirs_and_nothing_else() {
    let everything = || {
        ["g", "h"]
            .into_iter()
            .flat_map(|group| [1, 2].map(|topic| commit(group, topic, 5)))
            .collect::<Vec<_>>()
    };
    let shard = shard();
    let done = shard.began(everything());
    assert!(shard.ended(done, 0).is_ok());
    shard.began(everything());
    shard.drop_group("g");
    let of_h = [1, 2].map(|topic| ("h".to_owned(), topic_id(topic)));
    assert_eq!(all_of(shard.in_flight()), of_h);
    shard.drop_topic(topic_id(1));
    assert_eq!(all_of(shard.in_flight()), of_h[1..]);
    assert_eq!(all_of(shard.take()), of_h[1..]);
}

#[test]
fn commits_of_a_topic_that_is_deleted_while_they_are_written_fail() {
    let shard = shard();
    let batch = shard.began(vec![commit("g", 1, 5), commit("g", 2, 5)]);
    let other = shard.began(vec![commit("h", 2, 5)]);
    shard.drop_topic(topic_id(1));
    let ended = shard.ended(batch, 0);
    assert!(matches!(ended, Err(PartitionError::Deleted)), "{ended:?}");
    assert!(shard.ended(other, 2).is_ok());
    let of_two = ["g", "h"].map(|group| (group.to_owned(), topic_id(2)));
    assert_eq!(all_of(shard.take()), of_two);
}

#[test]
fn records_are_of_when_it_was_committed_and_in_their_order() {
    let commits = [(1, 70), (2, 71)].map(|(topic, timestamp_ms)| MemberCommit {
        timestamp_ms,
        ..commit("g", topic, 5)
    });
    let batch = batch_of(&commits).expect("small");
    let header = BatchHeader::parse(batch.as_bytes()).expect("a batch");
    assert_eq!((header.base_timestamp, header.max_timestamp), (70, 71));
    assert_eq!(header.record_count, 2);
}

/// The committing member: generation, member id, instance id.
type Who = (i32, &'static str, Option<&'static str>);
const ONE: Who = (3, "m", None);

fn body(version: i16, group: &str, who: Who, topics: &[(u128, i32)]) -> Vec<u8> {
    let (generation, member_id, instance) = who;
    let topics = topics.iter().map(|&(topic, epoch)| OffsetCommitTopic {
        name: NAMES[topic as usize],
        topic_id: Uuid::from_u128(topic),
        partitions: vec![OffsetCommitPartition {
            partition_index: 0,
            committed_offset: 5,
            committed_leader_epoch: epoch,
            committed_metadata: None,
        }],
    });
    let request = OffsetCommitRequest {
        group_id: group,
        generation_id_or_member_epoch: generation,
        member_id,
        group_instance_id: instance,
        topics: topics.collect(),
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    body
}

/// The parts of a broker that commits need.
#[derive(Default)]
struct Giver(CachedResponses);

impl Giver {
    fn grant(
        &self,
        shard: &Arc<ShardCommits>,
        version: i16,
        body: &[u8],
        topics: &[u128],
        before: Option<&CommitLease>,
    ) -> Option<Arc<CommitLease>> {
        let topics = topics.iter().map(|&topic| CommitTopic {
            topic_id: topic_id(topic),
            name: NAMES[topic as usize].into(),
            partitions: 1,
            first_epoch: 4,
        });
        let bounds = CommitBounds {
            topics: topics.collect(),
            metadata_bytes_max: 8,
            timeout: Duration::from_secs(1),
        };
        let asked = (version, body);
        CommitLease::grant(&self.0, shard, asked, bounds, before, Instant::now()).expect("a commit")
    }

    fn of(&self, shard: &Arc<ShardCommits>, who: Who) -> Arc<CommitLease> {
        let body = body(BY_NAME, "g", who, &[]);
        self.grant(shard, BY_NAME, &body, &[1], None)
            .expect("of this version")
    }
}

fn topics(lease: &CommitLease) -> Vec<&str> {
    lease
        .bounds
        .topics
        .iter()
        .map(|topic| &*topic.name)
        .collect()
}

#[test]
fn a_right_has_the_topics_of_the_one_before_while_that_stands() {
    let (giver, shard) = (Giver::default(), shard());
    let after = |who, version, shard: &Arc<ShardCommits>, before: &CommitLease| {
        let body = body(version, "g", who, &[]);
        let lease = giver.grant(shard, version, &body, &[2], Some(before));
        topics(&lease.expect("of this version")).join(" ")
    };
    let first = giver.of(&shard, ONE);
    assert_eq!(after(ONE, BY_NAME, &shard, &first), "two one");
    let both = giver.grant(
        &shard,
        BY_NAME,
        &body(BY_NAME, "g", ONE, &[]),
        &[1, 2],
        None,
    );
    let both = both.expect("of this version");
    assert_eq!(after(ONE, BY_NAME, &shard, &both), "two one", "each once");
    for other in [(4, "m", None), (3, "n", None), (3, "m", Some("i"))] {
        assert_eq!(after(other, BY_NAME, &shard, &first), "two", "{other:?}");
    }
    assert_eq!(after(ONE, 8, &shard, &first), "two", "of another version");
    assert_eq!(
        after(ONE, BY_NAME, &self::shard(), &first),
        "two",
        "another shard"
    );
    let ends: [&dyn Fn(&CommitLease); 3] =
        [&|lease| lease.revoke(), &|_| shard.revoke_all(), &|_| {
            giver.0.invalidate_all()
        }];
    for end in ends {
        let before = giver.of(&shard, ONE);
        end(&before);
        assert_eq!(after(ONE, BY_NAME, &shard, &before), "two");
    }
}

#[test]
fn only_requests_that_are_read_here_get_a_right() {
    let (giver, shard) = (Giver::default(), shard());
    assert!(giver.grant(&shard, 4, b"whatever", &[1], None).is_none());
    let bounds = || CommitBounds {
        topics: Vec::new(),
        metadata_bytes_max: 8,
        timeout: Duration::ZERO,
    };
    let asked = (BY_NAME, &b"no commit"[..]);
    assert!(CommitLease::grant(&giver.0, &shard, asked, bounds(), None, Instant::now()).is_err());
}

fn within(lease: &CommitLease, body: &[u8]) -> Option<Vec<(TopicId, i32)>> {
    let request = OffsetCommitRequest::decode(body, lease.api_version).expect("a commit");
    let commits = lease.commits(&request, 0)?;
    let told = |commit: MemberCommit| (commit.topic_id, commit.leader_epoch);
    Some(commits.into_iter().map(told).collect())
}

#[test]
fn topics_go_by_name_or_by_id_as_the_version_has_it() {
    let (giver, shard) = (Giver::default(), shard());
    for version in [BY_NAME, offset_commit::BY_ID] {
        let body = |topics: &[(u128, i32)]| body(version, "g", ONE, topics);
        let lease = giver.grant(&shard, version, &body(&[]), &[1, 2], None);
        let lease = lease.expect("of this version");
        let two = [(topic_id(2), 4), (topic_id(1), -1)];
        assert_eq!(
            within(&lease, &body(&[(2, 4), (1, -1)])),
            Some(two.to_vec())
        );
        assert_eq!(
            within(&lease, &body(&[(1, 4), (0, 4)])),
            None,
            "one is not known"
        );
        // The commit's leader epoch is from before this incarnation. Because the request names the topic by id, it can
        // only mean this incarnation.
        let early = within(&lease, &body(&[(1, 3)]));
        assert_eq!(early.is_some(), version == offset_commit::BY_ID);
    }
}

#[test]
fn a_right_is_found_by_who_commits_and_in_which_version() {
    let (giver, shard) = (Giver::default(), shard());
    let mut leases = CommitLeases::default();
    let who = (3, "m", Some("i"));
    leases.insert(giver.of(&shard, who));
    let found = |version, group: &str, who| {
        let body = body(version, group, who, &[(2, 4)]);
        leases.find(version, &body).is_some()
    };
    assert!(found(BY_NAME, "g", who), "whatever it commits");
    assert!(!found(8, "g", who));
    assert!(!found(BY_NAME, "gg", who));
    for other in [
        (4, "m", Some("i")),
        (3, "n", Some("i")),
        (3, "m", None),
        (3, "m", Some("ii")),
    ] {
        assert!(!found(BY_NAME, "g", other), "{other:?}");
    }
    assert!(leases.find(BY_NAME, b"").is_none());
}

#[test]
fn a_connection_keeps_few_rights_and_those_that_stand() {
    let (giver, shard) = (Giver::default(), shard());
    let names = ["a", "b", "c", "d", "e", "f"];
    let of = |at: usize| giver.of(&shard, (3, names[at], None));
    let has = |leases: &CommitLeases, at: usize| {
        leases
            .find(BY_NAME, &body(BY_NAME, "g", (3, names[at], None), &[]))
            .is_some()
    };
    let mut leases = CommitLeases::default();
    let (first, again) = (of(0), of(0));
    leases.insert(first);
    leases.insert(of(1));
    leases.insert(Arc::clone(&again));
    assert_eq!(leases.0.len(), 2, "one for each member");
    assert!(Arc::ptr_eq(&leases.0[1], &again), "the latest");
    for at in [2, 3, 4] {
        leases.insert(of(at));
    }
    assert_eq!(leases.0.len(), LEASES_MAX);
    assert!(
        !has(&leases, 1) && has(&leases, 0),
        "what came first has gone"
    );
    leases.0[1].revoke();
    leases.insert(of(5));
    assert!(
        has(&leases, 0) && !has(&leases, 2),
        "what was taken back goes before"
    );
    assert_eq!(leases.0.len(), LEASES_MAX);
    shard.revoke_all();
    leases.insert(of(1));
    assert_eq!(leases.0.len(), 1);
}
