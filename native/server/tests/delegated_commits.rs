//! Delegated offset commits: data threads append them under a lease.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pybroker_model::{TopicIdPartition, Uuid};
use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::offset_commit::{
    OffsetCommitPartition, OffsetCommitRequest, OffsetCommitTopic,
};
use pybroker_server::authorizer::{Acl, AclDelta, Operation, ResourceType};
use pybroker_server::control_plane::ControlReply;
use pybroker_server::delegated_commits::{CommitBounds, CommitLease, CommitTopic, ShardCommits};
use pybroker_server::metadata_view::MetadataDelta;
use pybroker_storage::FlushMode;
use support::{BROKER_ID, Client, TestServer, topic_id, wait_until};

const VERSION: i16 = 9;
const EPOCH: i32 = 5;
const OFFSETS: &str = "__consumer_offsets";

fn shard(leader_epoch: i32) -> Arc<ShardCommits> {
    let tip = TopicIdPartition {
        topic_id: topic_id(9),
        partition: 0,
    };
    Arc::new(ShardCommits::new(tip, leader_epoch))
}

/// Encode an OffsetCommit. `commits`: partition of the topic "read", offset, leader epoch, metadata.
fn body(version: i16, generation: i32, commits: &[(i32, i64, i32, &str)]) -> Vec<u8> {
    let partition = |&(partition_index, committed_offset, epoch, metadata)| OffsetCommitPartition {
        partition_index,
        committed_offset,
        committed_leader_epoch: epoch,
        committed_metadata: Some(metadata),
    };
    let request = OffsetCommitRequest {
        group_id: "g",
        generation_id_or_member_epoch: generation,
        member_id: "m",
        group_instance_id: None,
        topics: vec![OffsetCommitTopic {
            name: "read",
            topic_id: Uuid::from_u128(1),
            partitions: commits.iter().map(partition).collect(),
        }],
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    body
}

fn plain(offset: i64) -> Vec<u8> {
    body(VERSION, 3, &[(0, offset, -1, "")])
}

/// Answer a commit in the control plane and grant a lease for the next ones.
fn delegate(
    server: &TestServer,
    client: &mut Client,
    shard: &Arc<ShardCommits>,
) -> Arc<CommitLease> {
    let sent = client.send(ApiKey::OffsetCommit, VERSION, &plain(0));
    let request = server.control.next();
    let bounds = CommitBounds {
        topics: vec![CommitTopic {
            topic_id: topic_id(1),
            name: "read".into(),
            partitions: 2,
            first_epoch: 4,
        }],
        metadata_bytes_max: 8,
        timeout: Duration::from_secs(60),
    };
    let asked = (request.api_version, &*request.body);
    let now = Instant::now();
    let cached = server.metadata.cached_responses();
    let lease = CommitLease::grant(cached, shard, asked, bounds, None, now);
    let lease = lease.expect("a commit").expect("of this version");
    request.reply.reply(ControlReply::Delegated {
        body: Bytes::from_static(b"yes"),
        lease: Arc::clone(&lease),
    });
    assert_eq!(client.receive(ApiKey::OffsetCommit, VERSION, sent), b"yes");
    lease
}

/// Send a commit that data threads must pass to the control plane, and answer it there.
fn is_asked(server: &TestServer, client: &mut Client, version: i16, body: &[u8]) {
    let sent = client.send(ApiKey::OffsetCommit, version, body);
    let request = server.control.next();
    assert_eq!(&request.body[..], body);
    request.reply.send(Bytes::from_static(b"no"));
    assert_eq!(client.receive(ApiKey::OffsetCommit, version, sent), b"no");
}

/// Return the response for one partition with this error code.
fn answer(code: i16) -> Vec<u8> {
    let mut answer = vec![0, 0, 0, 0, 2, 5];
    answer.extend(b"read");
    answer.extend([2, 0, 0, 0, 0]);
    answer.extend(code.to_be_bytes());
    answer.extend([0, 0, 0]);
    answer
}

fn taken(shard: &ShardCommits) -> Vec<(i32, i64, i64)> {
    let mut taken: Vec<_> = shard
        .take()
        .iter()
        .map(|commit| (commit.partition, commit.offset, commit.log_offset))
        .collect();
    taken.sort_unstable();
    taken
}

fn hosting() -> TestServer {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(9), OFFSETS, 1, EPOCH);
    server
}

#[test]
fn what_is_within_the_bounds_is_committed_without_the_control_plane() {
    let server = hosting();
    let (shard, mut client) = (shard(EPOCH), server.connect());
    let lease = delegate(&server, &mut client, &shard);
    std::thread::sleep(Duration::from_millis(20));
    for offset in 1..=3 {
        let answered = client.call(ApiKey::OffsetCommit, VERSION, &plain(offset));
        assert_eq!(answered, answer(0));
    }
    assert!(lease.idle(Instant::now()) < Duration::from_millis(20));
    let two = body(VERSION, 3, &[(1, 7, 4, "eight by"), (0, 4, -1, "")]);
    client.call(ApiKey::OffsetCommit, VERSION, &two);
    assert_eq!(server.control.queued(), 0);
    assert_eq!(taken(&shard), [(0, 4, 4), (1, 7, 3)], "the latest of each");
    assert_eq!((taken(&shard).len(), shard.take_count()), (0, 5));
    let counted =
        "kafka_network_requestmetrics_requests_total{request=\"OffsetCommit\",version=\"9\"}";
    assert_eq!(server.metric(counted), 5.0, "as any request");
    let others = [
        body(VERSION, 4, &[(0, 5, -1, "")]),
        body(VERSION, 3, &[(0, 5, -1, ""), (2, 5, -1, "")]),
        body(VERSION, 3, &[(-1, 5, -1, "")]),
        body(VERSION, 3, &[(0, 5, 3, "")]),
        body(VERSION, 3, &[(0, 5, -1, "nine byte")]),
        body(VERSION, 3, &[]),
        b"no commit at all".to_vec(),
    ];
    for other in others {
        is_asked(&server, &mut client, VERSION, &other);
    }
    is_asked(&server, &mut client, 8, &body(8, 3, &[(0, 5, -1, "")]));
    is_asked(&server, &mut server.connect(), VERSION, &plain(5));
    assert_eq!(taken(&shard), []);
    assert_eq!(
        client.call(ApiKey::OffsetCommit, VERSION, &plain(6)),
        answer(0)
    );
}

#[test]
fn a_right_ends_when_it_is_taken_back() {
    let server = hosting();
    let (shard, mut client) = (shard(EPOCH), server.connect());
    let ends: [&dyn Fn(&CommitLease); 3] =
        [&|lease| lease.revoke(), &|_| shard.revoke_all(), &|_| {
            server.metadata.apply(MetadataDelta::default());
        }];
    for end in ends {
        let lease = delegate(&server, &mut client, &shard);
        client.call(ApiKey::OffsetCommit, VERSION, &plain(1));
        assert_eq!(taken(&shard).len(), 1);
        end(&lease);
        is_asked(&server, &mut client, VERSION, &plain(2));
        assert_eq!(taken(&shard), []);
    }
    shard.close();
    delegate(&server, &mut client, &shard);
    is_asked(&server, &mut client, VERSION, &plain(3));
}

#[test]
fn a_leader_that_was_replaced_commits_nothing() {
    let server = hosting();
    let (shard, mut client) = (shard(EPOCH - 1), server.connect());
    delegate(&server, &mut client, &shard);
    is_asked(&server, &mut client, VERSION, &plain(1));
    assert_eq!((taken(&shard), shard.in_flight()), (vec![], vec![]));
}

#[test]
fn whoever_commits_is_authorized_each_time() {
    let server = hosting();
    let (shard, mut client) = (shard(EPOCH), server.connect());
    let allowed = |resource_type, name: &str| Acl {
        resource_type,
        prefixed: false,
        name: name.into(),
        principal: "User:ANONYMOUS".into(),
        host: "*".into(),
        operation: Operation::READ,
        allow: true,
    };
    let acls = [
        allowed(ResourceType::GROUP, "g"),
        allowed(ResourceType::TOPIC, "read"),
    ];
    let rules = server.metadata.authorizer();
    rules.apply(AclDelta {
        added: acls.to_vec(),
        ..AclDelta::default()
    });
    delegate(&server, &mut client, &shard);
    for acl in acls {
        let permitted = client.call(ApiKey::OffsetCommit, VERSION, &plain(1));
        assert_eq!(permitted, answer(0));
        let change = |removed: &[Acl], added: &[Acl]| {
            rules.apply(AclDelta {
                removed: removed.to_vec(),
                added: added.to_vec(),
                ..AclDelta::default()
            });
        };
        change(std::slice::from_ref(&acl), &[]);
        is_asked(&server, &mut client, VERSION, &plain(2));
        change(&[], &[acl]);
    }
}

#[test]
fn a_commit_counts_and_is_answered_when_it_is_committed() {
    let server = TestServer::with_flush(FlushMode::Os);
    let replicas = [BROKER_ID, 2];
    server.create_replicated(topic_id(9), OFFSETS, EPOCH, &replicas);
    let shard = shard(EPOCH);
    let mut clients: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut clients {
        delegate(&server, client, &shard);
    }
    let mut sent = Vec::new();
    for (client, offset) in clients.iter_mut().zip(1..) {
        sent.push(client.send(ApiKey::OffsetCommit, VERSION, &plain(offset)));
        wait_until("the append", || shard.in_flight().len() == offset as usize);
    }
    assert_eq!(taken(&shard), [], "nothing is committed");
    // One client closes its connection early, but its commit is still appended.
    drop(clients.pop());
    let map = server.disk.replicas.snapshot();
    let partition = map.partition(topic_id(9), 0).expect("hosted");
    partition.set_isr(EPOCH, &[BROKER_ID], 1);
    for (client, sent) in clients.iter_mut().zip(sent) {
        assert_eq!(
            client.receive(ApiKey::OffsetCommit, VERSION, sent),
            answer(0)
        );
    }
    wait_until("the last one", || shard.in_flight().is_empty());
    assert_eq!((taken(&shard), shard.take_count()), (vec![(0, 3, 2)], 3));
}

#[test]
fn what_its_group_or_topic_takes_away_does_not_come_back() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(9), OFFSETS, EPOCH, &[BROKER_ID, 2]);
    let shard = shard(EPOCH);
    // An undelete of the topic may not restore the commit, so the member must ask the coordinator again.
    let drops: [(&dyn Fn(), i16); 2] = [
        (&|| shard.drop_group("g"), 0),
        (&|| shard.drop_topic(topic_id(1)), 16),
    ];
    for ((drop, code), version) in drops.iter().zip(1..) {
        let mut client = server.connect();
        delegate(&server, &mut client, &shard);
        let partition = server.disk.replicas.snapshot();
        let partition = partition.partition(topic_id(9), 0).expect("hosted");
        partition.set_isr(EPOCH, &[BROKER_ID, 2], 2 * version);
        let sent = client.send(ApiKey::OffsetCommit, VERSION, &plain(1));
        wait_until("the append", || shard.in_flight().len() == 1);
        drop();
        assert_eq!(shard.in_flight(), []);
        partition.set_isr(EPOCH, &[BROKER_ID], 2 * version + 1);
        let answered = client.receive(ApiKey::OffsetCommit, VERSION, sent);
        assert_eq!(answered, answer(*code));
        assert_eq!(taken(&shard), []);
    }
}

#[test]
fn a_leader_that_steps_down_has_not_committed() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(9), OFFSETS, EPOCH, &[BROKER_ID, 2]);
    let (shard, mut client) = (shard(EPOCH), server.connect());
    delegate(&server, &mut client, &shard);
    let sent = client.send(ApiKey::OffsetCommit, VERSION, &plain(1));
    wait_until("the append", || shard.in_flight().len() == 1);
    server.delete_topic(topic_id(9), 1);
    let answered = client.receive(ApiKey::OffsetCommit, VERSION, sent);
    assert_eq!(answered, answer(16), "NOT_COORDINATOR");
    assert_eq!((taken(&shard), shard.in_flight()), (vec![], vec![]));
}

#[test]
fn who_takes_a_right_back_finds_all_of_it_in_the_log_and_no_more_comes() {
    let server = hosting();
    let (shard, mut client) = (shard(EPOCH), server.connect());
    let map = server.disk.replicas.snapshot();
    let partition = map.partition(topic_id(9), 0).expect("hosted");
    // The high watermark is the log end, because no commit waits for the disk.
    let end = || partition.high_watermark();
    for round in 0..300 {
        let lease = delegate(&server, &mut client, &shard);
        let began = end();
        std::thread::scope(|scope| {
            let commits = scope.spawn(|| {
                while client.call(ApiKey::OffsetCommit, VERSION, &plain(1)) != b"no" {}
            });
            wait_until("the first of them", || end() > began);
            if round % 2 == 0 {
                lease.revoke();
            } else {
                shard.revoke_all();
            }
            let found = end();
            let request = server.control.next();
            assert_eq!(end(), found, "round {round}");
            request.reply.send(Bytes::from_static(b"no"));
            commits.join().expect("it ends");
        });
    }
}
