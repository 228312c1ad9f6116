//! Requests between brokers in the layouts of KIP-516: by topic id, over the inter-broker listener.

mod support;

use bytes::Bytes;
use pybroker_model::Uuid;
use pybroker_protocol::codec::Registry;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pybroker_protocol::hot::list_offsets::{
    ListOffsetsPartition, ListOffsetsRequest, ListOffsetsResponse,
};
use pybroker_protocol::hot::of_topic::{OfTopic, TopicRef};
use pybroker_protocol::hot::offset_for_leader_epoch::{
    EpochPartition, OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use pybroker_protocol::{Api, ApiKey, ErrorCode};
use pybroker_server::authorizer::{Acl, AclDelta, Operation, ResourceType};
use pybroker_server::config::{ClusterKind, DynamicSettings, SecurityProtocol};
use pybroker_server::control_plane::ControlReply;
use pybroker_storage::FlushMode;
use support::records::{Fetch, TestTopic, batch, read_fetched};
use support::{BROKER_ID, Client, Disk, TestServer, topic_id};

const PRODUCE: WireVersion = WireVersion::inter_broker(9);
const FETCH: WireVersion = WireVersion::inter_broker(13);
const LIST_OFFSETS: WireVersion = WireVersion::inter_broker(6);
const EPOCHS: WireVersion = WireVersion::inter_broker(4);

const EPOCH: i32 = 5;
const FOLLOWER: i32 = 2;
const LATEST: i64 = -1;

const UNKNOWN_TOPIC_ID: i16 = ErrorCode::UNKNOWN_TOPIC_ID.0;
const FENCED: i16 = ErrorCode::FENCED_LEADER_EPOCH.0;
const UNKNOWN_EPOCH: i16 = ErrorCode::UNKNOWN_LEADER_EPOCH.0;
const MAY_NOT: i16 = ErrorCode::CLUSTER_AUTHORIZATION_FAILED.0;

fn id(number: u128) -> Uuid {
    topic_id(number).uuid()
}

/// Return a topic for requests by id, which do not contain its name.
fn by_id(number: u128) -> TestTopic<'static> {
    TestTopic {
        name: "not on the wire",
        id: id(number),
    }
}

/// Return error code, offset and leader epoch of partition 0 of each topic.
fn list(
    client: &mut Client,
    version: WireVersion,
    replica_id: i32,
    current_leader_epoch: i32,
    timestamp: i64,
    topics: &[TopicRef<'_>],
) -> Vec<(i16, i64, i32)> {
    let ask = |topic| OfTopic {
        topic,
        partitions: vec![ListOffsetsPartition {
            partition: 0,
            current_leader_epoch,
            timestamp,
            max_num_offsets: 1,
        }],
    };
    let request = ListOffsetsRequest {
        replica_id,
        isolation_level: 0,
        topics: topics.iter().copied().map(ask).collect(),
        timeout_ms: 0,
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    let answer = client.call(ApiKey::ListOffsets, version.number, &body);
    let response = ListOffsetsResponse::decode(&answer, version).expect("in this layout");
    let told = response.topics.iter().map(|told| told.topic);
    assert_eq!(told.collect::<Vec<_>>(), topics);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|told| (told.error_code, told.offset, told.leader_epoch))
        .collect()
}

/// Return error code, epoch and end offset of partition 0 of each topic.
fn epoch_ends(
    client: &mut Client,
    version: WireVersion,
    replica_id: i32,
    current_leader_epoch: i32,
    topics: &[TopicRef<'_>],
) -> Vec<(i16, i32, i64)> {
    let ask = |topic| OfTopic {
        topic,
        partitions: vec![EpochPartition {
            partition: 0,
            current_leader_epoch,
            leader_epoch: EPOCH,
        }],
    };
    let request = OffsetForLeaderEpochRequest {
        replica_id,
        topics: topics.iter().copied().map(ask).collect(),
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    let answer = client.call(ApiKey::OffsetForLeaderEpoch, version.number, &body);
    let response = OffsetForLeaderEpochResponse::decode(&answer, version).expect("in this layout");
    let told = response.topics.iter().map(|told| told.topic);
    assert_eq!(told.collect::<Vec<_>>(), topics);
    let partitions = response.topics.iter().flat_map(|topic| &topic.partitions);
    partitions
        .map(|told| (told.error_code, told.leader_epoch, told.end_offset))
        .collect()
}

/// Return a follower's fetch of partition 0.
fn follows(topic: TestTopic<'static>, offset: i64, epoch: i32) -> Fetch<'static> {
    Fetch {
        replica_id: FOLLOWER,
        partitions: vec![(topic, 0, offset, epoch)],
        ..Fetch::default()
    }
}

fn advertised(client: &mut Client) -> Vec<(i16, i16, i16)> {
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        cluster_id: None,
        node_id: -1,
    };
    let mut body = Vec::new();
    request.encode(3, &mut body);
    let answer = client.call(ApiKey::ApiVersions, 3, &body);
    let response = ApiVersionsResponse::decode(&answer, 3).expect("a response");
    let rows = response.api_keys.iter();
    rows.map(|row| (row.api_key, row.min_version, row.max_version))
        .collect()
}

// checklist: R9, R15
#[test]
fn each_listener_tells_what_it_serves() {
    let server = TestServer::plain();
    for (mut client, registry) in [
        (server.connect(), Registry::Client),
        (server.connect_as_broker(), Registry::InterBroker),
    ] {
        let expected = Api::advertised(registry, DynamicSettings::default().cluster);
        let expected: Vec<_> = expected
            .map(|(api, lowest, highest)| (api.key.code(), lowest, highest))
            .collect();
        assert_eq!(advertised(&mut client), expected, "{registry:?}");
    }
    let own = advertised(&mut server.connect_as_broker());
    for text in [(0, 9, 9), (1, 12, 13), (2, 5, 6), (23, 3, 4)] {
        assert!(own.contains(&text), "{text:?} in {own:?}");
    }
}

/// Return a server that uses names, like a broker whose `inter.broker.protocol.version` is below 2.8.
fn without_topic_ids() -> TestServer {
    let settings = DynamicSettings {
        cluster: ClusterKind {
            topic_ids: false,
            quorum: false,
        },
        ..DynamicSettings::default()
    };
    let disk = Disk::new(FlushMode::Os);
    TestServer::start(settings, SecurityProtocol::Plaintext, disk)
}

// checklist: 67
#[test]
fn below_2_8_brokers_serve_versions_by_name_only() {
    let server = without_topic_ids();
    let own = advertised(&mut server.connect_as_broker());
    for by_name in [
        (1, 12, 12),
        (2, 5, 5),
        (4, 4, 4),
        (5, 3, 3),
        (6, 6, 6),
        (23, 3, 3),
    ] {
        assert!(own.contains(&by_name), "{by_name:?} in {own:?}");
    }
    assert!(!own.iter().any(|(key, ..)| *key == ApiKey::Produce.code()));
    let mut broker = server.connect_as_broker();
    broker.send(ApiKey::Fetch, 13, &follows(by_id(1), 0, EPOCH).body(13));
    broker.expect_closed();
}

// checklist: 67
#[test]
fn a_follower_that_knows_no_ids_asks_by_name() {
    let (fetch, list_offsets, epochs) = (
        WireVersion::inter_broker(12),
        WireVersion::inter_broker(5),
        WireVersion::inter_broker(3),
    );
    for server in [without_topic_ids(), TestServer::with_flush(FlushMode::Os)] {
        server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
        let a = TestTopic {
            name: "a",
            id: Uuid::ZERO,
        };
        server.connect().produce_with(12, 1, a, 0, &batch(&[b"x"]));
        let mut broker = server.connect_as_broker();
        let names = [TopicRef::Name("a"), TopicRef::Name("b")];
        assert_eq!(
            list(&mut broker, list_offsets, FOLLOWER, EPOCH, LATEST, &names),
            [(0, 1, EPOCH), (3, -1, -1)]
        );
        assert_eq!(
            epoch_ends(&mut broker, epochs, FOLLOWER, EPOCH, &names),
            [(0, EPOCH, 1), (3, -1, -1)]
        );
        let first = Fetch {
            session: (0, 0),
            ..follows(a, 0, EPOCH)
        };
        let fetched = broker.fetch(fetch, &first);
        assert_eq!(
            (fetched.one().topic.as_str(), fetched.one().offsets()),
            ("a", vec![0])
        );
        assert_ne!(fetched.session, 0);
        // Leader epochs distinguish leaders, and incarnations of a topic name.
        for (epoch, error) in [(EPOCH - 1, FENCED), (EPOCH + 1, UNKNOWN_EPOCH)] {
            let fetched = broker.fetch(fetch, &follows(a, 1, epoch));
            assert_eq!(fetched.one().head.error_code, error);
        }
        // The next fetch offset acknowledges all records below it.
        let next = Fetch {
            session: (fetched.session, 1),
            ..follows(a, 1, EPOCH)
        };
        assert_eq!(broker.fetch(fetch, &next).error, 0);
        let committed = list(&mut broker, list_offsets, -1, EPOCH, LATEST, &names[..1]);
        assert_eq!(committed, [(0, 1, EPOCH)]);
    }
}

// checklist: 53, 54, 55, 56, 87, 88, 90, 91, 96, 97, 99, 100, 106, 107
#[test]
fn topics_go_by_their_ids_alone() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, EPOCH);
    let mut broker = server.connect_as_broker();
    let produced = broker.produce(PRODUCE, by_id(1), 0, &batch(&[b"x", b"y"]));
    assert_eq!((produced.error, produced.offset), (0, 0));
    assert_eq!(
        broker.produce(PRODUCE, by_id(1), 0, &batch(&[b"z"])).offset,
        2
    );

    let a = [TopicRef::Id(id(1))];
    for (timestamp, told) in [
        (LATEST, (0, 3, EPOCH)),
        (-2, (0, 0, EPOCH)),
        (0, (0, 0, EPOCH)),
    ] {
        assert_eq!(
            list(&mut broker, LIST_OFFSETS, -1, EPOCH, timestamp, &a),
            [told]
        );
    }
    let ends = epoch_ends(&mut broker, EPOCHS, -1, EPOCH, &a);
    assert_eq!(ends, [(0, EPOCH, 3)]);

    let fetched = broker.fetch(FETCH, &Fetch::of(by_id(1), 0, 0));
    let partition = fetched.one();
    assert_eq!((&*partition.topic, partition.id), ("", id(1)));
    assert_eq!(partition.offsets(), [0, 2]);
    assert_eq!(
        (
            partition.head.high_watermark,
            partition.head.log_start_offset
        ),
        (3, 0)
    );
    assert_eq!(
        (
            partition.head.diverging_epoch,
            partition.head.current_leader
        ),
        (None, None)
    );
}

// checklist: 92, 93, 94, 98, 101, 108, 327
#[test]
fn the_id_of_a_deleted_topic_is_refused_though_its_name_was_created_again() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, EPOCH);
    let mut broker = server.connect_as_broker();
    broker.produce(PRODUCE, by_id(1), 0, &batch(&[b"old"]));
    server.delete_topic(topic_id(1), 1);
    // Same name and same leader epoch: only the topic id distinguishes the incarnations.
    server.create_topic(topic_id(2), "a", 1, EPOCH);
    broker.produce(PRODUCE, by_id(2), 0, &batch(&[b"new", b"newer"]));

    let refused = broker.produce(PRODUCE, by_id(1), 0, &batch(&[b"late"]));
    assert_eq!((refused.error, refused.offset), (UNKNOWN_TOPIC_ID, -1));
    let both = [TopicRef::Id(id(1)), TopicRef::Id(id(2))];
    assert_eq!(
        list(&mut broker, LIST_OFFSETS, FOLLOWER, EPOCH, LATEST, &both),
        [(UNKNOWN_TOPIC_ID, -1, -1), (0, 2, EPOCH)],
        "nothing was written to the successor"
    );
    assert_eq!(
        epoch_ends(&mut broker, EPOCHS, FOLLOWER, EPOCH, &both),
        [(UNKNOWN_TOPIC_ID, -1, -1), (0, EPOCH, 2)]
    );
    for fetch in [follows(by_id(1), 0, EPOCH), Fetch::of(by_id(1), 0, 0)] {
        let fetched = broker.fetch(FETCH, &fetch);
        let partition = fetched.one();
        assert_eq!(partition.head.error_code, UNKNOWN_TOPIC_ID);
        assert!(partition.records.is_empty());
    }
}

// checklist: 106, 108
#[test]
fn ids_that_are_no_topics_are_told_per_partition() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, EPOCH);
    let mut broker = server.connect_as_broker();
    let topics = [
        TopicRef::Id(id(9)),
        TopicRef::Id(id(1)),
        TopicRef::Id(Uuid::ZERO),
    ];
    let listed = list(&mut broker, LIST_OFFSETS, -1, -1, LATEST, &topics);
    assert_eq!(
        listed,
        [
            (UNKNOWN_TOPIC_ID, -1, -1),
            (0, 0, EPOCH),
            (UNKNOWN_TOPIC_ID, -1, -1)
        ]
    );
    let ends = epoch_ends(&mut broker, EPOCHS, -1, -1, &topics);
    assert_eq!(
        ends,
        [
            (UNKNOWN_TOPIC_ID, -1, -1),
            (0, EPOCH, 0),
            (UNKNOWN_TOPIC_ID, -1, -1)
        ]
    );
    for number in [9, 0] {
        let topic = TestTopic {
            name: "a",
            id: Uuid::from_u128(number),
        };
        let refused = broker.produce(PRODUCE, topic, 0, &batch(&[b"x"]));
        assert_eq!(refused.error, UNKNOWN_TOPIC_ID, "its name does not help");
    }
    let again = [TopicRef::Id(id(1)), TopicRef::Id(id(1))];
    let twice = list(&mut broker, LIST_OFFSETS, -1, -1, LATEST, &again);
    assert_eq!(twice, [(ErrorCode::INVALID_REQUEST.0, -1, -1); 2]);
}

// checklist: 94, 96, 99
#[test]
fn leader_epochs_are_checked() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
    let mut broker = server.connect_as_broker();
    let a = [TopicRef::Id(id(1))];
    for (epoch, error) in [(EPOCH - 1, FENCED), (EPOCH + 1, UNKNOWN_EPOCH)] {
        let listed = list(&mut broker, LIST_OFFSETS, FOLLOWER, epoch, LATEST, &a);
        assert_eq!(listed, [(error, -1, -1)]);
        let ends = epoch_ends(&mut broker, EPOCHS, FOLLOWER, epoch, &a);
        assert_eq!(ends, [(error, -1, -1)]);
        let fetched = broker.fetch(FETCH, &follows(by_id(1), 0, epoch));
        assert_eq!(fetched.one().head.error_code, error);
    }
    let current_leader = |epoch| {
        let fetched = server
            .connect_as_broker()
            .fetch(FETCH, &follows(by_id(1), 0, epoch));
        let leader = fetched.one().head.current_leader;
        leader.map(|leader| (leader.leader_id, leader.leader_epoch))
    };
    assert_eq!(current_leader(EPOCH - 1), Some((BROKER_ID, EPOCH)));
    assert_eq!(current_leader(EPOCH), None);
}

// checklist: 88, 91
#[test]
fn a_follower_reads_to_the_log_end_and_how_far_it_asks_is_committed() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
    let mut broker = server.connect_as_broker();
    let first = broker.produce_with(PRODUCE, 1, by_id(1), 0, &batch(&[b"x"]));
    assert_eq!((first.error, first.offset), (0, 0));

    let a = [TopicRef::Id(id(1))];
    let seen = |broker: &mut Client, replica_id| {
        list(broker, LIST_OFFSETS, replica_id, EPOCH, LATEST, &a)[0].1
    };
    assert_eq!((seen(&mut broker, FOLLOWER), seen(&mut broker, -1)), (1, 0));
    let fetched = broker.fetch(FETCH, &follows(by_id(1), 0, EPOCH));
    assert_eq!(fetched.one().offsets(), [0]);
    assert_eq!(fetched.one().head.high_watermark, 0);
    assert_eq!(seen(&mut broker, -1), 0, "it has asked for offset 0 only");

    // The follower has the record at offset 0 and waits for more.
    let waiting = Fetch {
        max_wait_ms: 60_000,
        ..follows(by_id(1), 1, EPOCH)
    };
    let sent = broker.send(ApiKey::Fetch, 13, &waiting.body(13));
    let mut other = server.connect_as_broker();
    support::wait_until("the follower's claim", || {
        seen(&mut server.connect_as_broker(), -1) == 1
    });
    // An uncommitted record wakes the follower's fetch: the follower must copy it before it can be committed.
    other.produce_with(PRODUCE, 1, by_id(1), 0, &batch(&[b"y"]));
    let fetched = read_fetched(&broker.receive(ApiKey::Fetch, 13, sent), FETCH);
    assert_eq!(fetched.one().offsets(), [1]);
    assert_eq!(seen(&mut other, -1), 1);

    // A Produce with acks=all waits for the follower.
    let mut producer = server.connect_as_broker();
    let acked = std::thread::spawn(move || {
        producer
            .produce(PRODUCE, by_id(1), 0, &batch(&[b"z"]))
            .error
    });
    support::wait_until("the append", || {
        seen(&mut server.connect_as_broker(), FOLLOWER) == 3
    });
    assert!(!acked.is_finished());
    broker.fetch(FETCH, &follows(by_id(1), 3, EPOCH));
    assert_eq!(acked.join().expect("answered"), 0);
    assert_eq!(seen(&mut other, -1), 3);
}

// checklist: 7, 94
#[test]
fn a_stranger_follows_nothing() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, EPOCH);
    let mut broker = server.connect_as_broker();
    broker.produce(PRODUCE, by_id(1), 0, &batch(&[b"x"]));
    for (epoch, error) in [
        (EPOCH, UNKNOWN_EPOCH),
        (-1, ErrorCode::NOT_LEADER_OR_FOLLOWER.0),
    ] {
        let fetched = broker.fetch(FETCH, &follows(by_id(1), 0, epoch));
        assert_eq!(fetched.one().head.error_code, error);
        assert!(fetched.one().records.is_empty());
    }
}

// checklist: 89, 95
#[test]
fn fetch_sessions_of_followers_go_by_id() {
    let server = TestServer::with_flush(FlushMode::Os);
    for number in [1, 2] {
        let name = format!("t{number}");
        server.create_replicated(topic_id(number), &name, EPOCH, &[BROKER_ID, FOLLOWER]);
    }
    let mut broker = server.connect_as_broker();
    let fetched = broker.fetch(
        FETCH,
        &Fetch {
            session: (0, 0),
            ..follows(by_id(1), 0, EPOCH)
        },
    );
    let session = fetched.session;
    assert_ne!(session, 0);
    broker.produce_with(PRODUCE, 1, by_id(1), 0, &batch(&[b"x"]));
    let mut next = |epoch, fetch: Fetch<'static>| {
        let fetched = broker.fetch(
            FETCH,
            &Fetch {
                session: (session, epoch),
                ..fetch
            },
        );
        assert_eq!((fetched.error, fetched.session), (0, session));
        let told = fetched.partitions.iter();
        told.map(|told| (told.id, told.offsets()))
            .collect::<Vec<_>>()
    };
    let follower = || Fetch {
        replica_id: FOLLOWER,
        ..Fetch::default()
    };
    let added = next(1, follows(by_id(2), 0, EPOCH));
    assert!(added.contains(&(id(1), vec![0])), "{added:?}");
    assert_eq!(next(2, follower()), [(id(1), vec![0])], "asked again");
    let forgotten = Fetch {
        forgotten: vec![(by_id(1), 0)],
        ..follower()
    };
    assert_eq!(next(3, forgotten), []);
}

// checklist: R15, R9
#[test]
fn what_belongs_to_brokers_is_refused_where_clients_listen() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
    let mut client = server.connect();
    let named = TestTopic {
        name: "a",
        id: id(1),
    };
    assert_eq!(
        client.produce_with(9, 1, named, 0, &batch(&[b"x"])).error,
        0
    );
    for version in [7, 12, 13] {
        let body = follows(named, 1, EPOCH).body(version);
        let fetched = client.call(ApiKey::Fetch, version, &body);
        let fetched = read_fetched(&fetched, version);
        assert_eq!((fetched.error, fetched.partitions.len()), (MAY_NOT, 0));
    }
    let a = [TopicRef::Name("a")];
    for replica_id in [-2, -1, 0, FOLLOWER] {
        // As in Kafka, the response does not depend on the replica id. The fetch acknowledged nothing, so the high
        // watermark is 0.
        let listed = list(&mut client, 6.into(), replica_id, -1, LATEST, &a);
        assert_eq!(listed, [(0, 0, EPOCH)], "as a consumer sees it");
        let ends = epoch_ends(&mut client, 4.into(), replica_id, -1, &a);
        assert_eq!(ends, [(0, EPOCH, 1)]);
    }

    for key in [
        ApiKey::LeaderAndIsr,
        ApiKey::StopReplica,
        ApiKey::UpdateMetadata,
    ] {
        let mut intruder = server.connect();
        intruder.send(key, key.api().max_version.min(5), b"");
        intruder.expect_closed();
    }
}

// checklist: R15, R9
#[test]
fn what_belongs_to_clients_is_refused_where_brokers_listen() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, EPOCH);
    for (key, version) in [
        (ApiKey::Produce, 13),
        (ApiKey::Produce, 8),
        (ApiKey::Fetch, 11),
        (ApiKey::ListOffsets, 7),
        (ApiKey::OffsetForLeaderEpoch, 2),
        (ApiKey::Metadata, 12),
        (ApiKey::CreateTopics, 7),
        (ApiKey::OffsetCommit, 9),
        (ApiKey::IngestBegin, 0),
    ] {
        let mut client = server.connect_as_broker();
        client.send(key, version, b"");
        client.expect_closed();
        server.wait_for_line(&format!(
            "listener REPLICATION closed: api key {} version {version} is not served here",
            key.code()
        ));
    }
}

#[test]
fn who_may_not_act_for_the_cluster_is_no_broker() {
    let server = TestServer::start(
        DynamicSettings::default(),
        SecurityProtocol::SaslPlaintext,
        Disk::new(FlushMode::Os),
    );
    server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
    let acl = |resource_type, name: &str, operation| Acl {
        resource_type,
        prefixed: false,
        name: name.into(),
        principal: "User:broker".into(),
        host: "*".into(),
        operation,
        allow: true,
    };
    // A client with all client permissions is not a broker.
    server.metadata.authorizer().apply(AclDelta {
        added: vec![acl(ResourceType::TOPIC, "a", Operation::ALL)],
        ..AclDelta::default()
    });
    let a = [TopicRef::Id(id(1))];
    let answers = |broker: &mut Client| {
        (
            broker
                .produce_with(PRODUCE, 1, by_id(1), 0, &batch(&[b"x"]))
                .error,
            list(broker, LIST_OFFSETS, FOLLOWER, EPOCH, LATEST, &a)[0].0,
            epoch_ends(broker, EPOCHS, FOLLOWER, EPOCH, &a)[0].0,
            broker
                .fetch(FETCH, &follows(by_id(1), 0, EPOCH))
                .one()
                .head
                .error_code,
        )
    };
    let mut broker = server.connect_as_broker();
    let sent = broker.send(ApiKey::SaslAuthenticate, 0, b"secret");
    let login = ControlReply::Authenticated {
        body: Bytes::from_static(b"ok"),
        principal: "User:broker".into(),
        by_token: false,
        session_lifetime_ms: None,
    };
    server.control.next().reply.reply(login);
    assert_eq!(broker.receive(ApiKey::SaslAuthenticate, 0, sent), b"ok");
    assert_eq!(answers(&mut broker), (MAY_NOT, MAY_NOT, MAY_NOT, MAY_NOT));
    server.metadata.authorizer().apply(AclDelta {
        added: vec![acl(
            ResourceType::CLUSTER,
            "kafka-cluster",
            Operation::CLUSTER_ACTION,
        )],
        ..AclDelta::default()
    });
    assert_eq!(answers(&mut broker), (0, 0, 0, 0));
    let listed = list(&mut broker, LIST_OFFSETS, FOLLOWER, EPOCH, LATEST, &a);
    assert_eq!(listed, [(0, 1, EPOCH)], "the first was not written");
}
