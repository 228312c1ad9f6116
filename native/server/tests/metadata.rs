//! Metadata and ApiVersions over real sockets.

mod support;

use bytes::Bytes;
use pybroker_model::Uuid;
use pybroker_protocol::codec::Registry;
use pybroker_protocol::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pybroker_protocol::hot::metadata::{
    MetadataRequest, MetadataRequestTopic, MetadataResponse, OPERATIONS_OMITTED,
};
use pybroker_protocol::{Api, ApiKey};
use pybroker_server::config::DynamicSettings;
use pybroker_storage::FlushMode;
use support::{BROKER_ID, CLUSTER_ID, Client, TestServer, topic_id};

fn body(version: i16, topics: Option<&[(Uuid, Option<&str>)]>, creates: bool) -> Vec<u8> {
    let topic = |(topic_id, name): &(Uuid, Option<&'static str>)| MetadataRequestTopic {
        topic_id: *topic_id,
        name: *name,
    };
    // Leak the names, because the tests need a static lifetime.
    let topics = topics.map(|topics| {
        topics
            .iter()
            .map(|(id, name)| {
                topic(&(
                    *id,
                    name.map(|name| &*Box::leak(name.to_owned().into_boxed_str())),
                ))
            })
            .collect()
    });
    let request = MetadataRequest {
        topics,
        allow_auto_topic_creation: creates,
        include_cluster_authorized_operations: false,
        include_topic_authorized_operations: version >= 12,
    };
    let mut body = Vec::new();
    request.encode(version, &mut body);
    body
}

/// Return name, id, error code and number of partitions of each topic in the response.
fn topics(answer: &[u8], version: i16) -> Vec<(Option<String>, Uuid, i16, usize)> {
    let response = MetadataResponse::decode(answer, version).expect("a Metadata response");
    response
        .topics
        .iter()
        .map(|topic| {
            (
                topic.name.map(Into::into),
                topic.topic_id,
                topic.error_code,
                topic.partitions.len(),
            )
        })
        .collect()
}

fn named(names: &[&'static str]) -> Vec<(Uuid, Option<&'static str>)> {
    names.iter().map(|name| (Uuid::ZERO, Some(*name))).collect()
}

#[test]
fn what_is_asked_for_again_is_told_once() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 3, 4);
    let mut client = server.connect();
    let mut told = |asked: &[(Uuid, Option<&str>)]| {
        let answer = client.call(ApiKey::Metadata, 12, &body(12, Some(asked), false));
        let told = topics(&answer, 12).into_iter();
        told.map(|(_, id, code, _)| (id, code)).collect::<Vec<_>>()
    };
    let (known, unknown) = (topic_id(1).uuid(), topic_id(2).uuid());
    let names = named(&["a", "b", "a", "a", "b"]);
    assert_eq!(told(&names), [(known, 0), (Uuid::ZERO, 3)]);
    let ids = [known, unknown, known, unknown].map(|id| (id, None));
    assert_eq!(told(&ids), [(known, 0), (unknown, 100)]);
}

#[test]
fn all_topics_in_every_version() {
    let server = TestServer::with_flush(FlushMode::Os);
    for (number, name) in [(3, "c"), (1, "a"), (2, "b")] {
        server.create_topic(topic_id(number), name, number as i32, 4);
    }
    let mut client = server.connect();
    for version in 0..=13 {
        let answer = client.call(ApiKey::Metadata, version, &body(version, None, false));
        let response = MetadataResponse::decode(&answer, version).expect("a Metadata response");
        let head = &response.head;
        assert_eq!(head.cluster_id, (version >= 2).then_some(CLUSTER_ID));
        assert_eq!(
            head.controller_id,
            if version >= 1 { BROKER_ID } else { -1 }
        );
        assert_eq!(head.brokers.len(), 1);
        assert_eq!(
            (head.brokers[0].host, head.brokers[0].port),
            ("127.0.0.1", i32::from(server.address.port()))
        );
        assert_eq!(head.brokers[0].rack, (version >= 1).then_some("r1"));
        let id = |number| {
            if version >= 10 {
                topic_id(number).uuid()
            } else {
                Uuid::ZERO
            }
        };
        let expected: Vec<_> = [("a", 1), ("b", 2), ("c", 3)]
            .map(|(name, number)| (Some(name.to_owned()), id(number), 0, number as usize))
            .into();
        assert_eq!(topics(&answer, version), expected, "v{version}");
        let partition = &response.topics[0].partitions[0];
        assert_eq!((partition.error_code, partition.leader), (0, BROKER_ID));
        assert_eq!(partition.leader_epoch, if version >= 7 { 4 } else { -1 });
        assert_eq!(&partition.isr[..], [BROKER_ID]);
        let operations = if version >= 12 {
            3576
        } else {
            OPERATIONS_OMITTED
        };
        assert_eq!(response.topics[0].authorized_operations, operations);
        if version >= 1 {
            assert!(
                topics(
                    &client.call(ApiKey::Metadata, version, &body(version, Some(&[]), false)),
                    version
                )
                .is_empty()
            );
        }
    }
}

#[test]
fn by_name() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, 0);
    let mut client = server.connect();
    let mut ask = |names: &[&'static str]| {
        let answer = client.call(ApiKey::Metadata, 12, &body(12, Some(&named(names)), false));
        topics(&answer, 12)
            .into_iter()
            .map(|(name, _, code, _)| (name.expect("by name"), code))
            .collect::<Vec<_>>()
    };
    let got = ask(&["a", "nope", "not/valid", "", "..", "a"]);
    let expected = [
        ("a", 0),
        ("nope", 3),
        ("not/valid", 17),
        ("", 17),
        ("..", 17),
    ];
    assert_eq!(got, expected.map(|(name, code)| (name.to_owned(), code)));
}

#[test]
fn what_must_be_created_goes_to_the_control_plane() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, 0);
    let mut client = server.connect();
    let asks = body(12, Some(&named(&["a", "new"])), true);
    let sent = client.send(ApiKey::Metadata, 12, &asks);
    let request = server.control.next();
    assert_eq!(
        (request.api_key, request.api_version, &request.body[..]),
        (3, 12, &asks[..])
    );
    request.reply.send(Bytes::from_static(b"created"));
    assert_eq!(client.receive(ApiKey::Metadata, 12, sent), b"created");
    // Data threads refuse invalid topic names, and without automatic creation all unknown topics.
    let invalid = client.call(
        ApiKey::Metadata,
        12,
        &body(12, Some(&named(&["not/valid"])), true),
    );
    assert_eq!(topics(&invalid, 12)[0].2, 17);
    let settings = DynamicSettings {
        auto_create_topics: false,
        ..DynamicSettings::clone(&server.server.settings())
    };
    server.server.set_settings(settings);
    support::wait_until("the setting", || {
        let mut client = server.connect();
        let sent = client.send(ApiKey::Metadata, 12, &asks);
        loop {
            if server.control.queued() > 0 {
                server.control.next().reply.close();
                return false;
            }
            client.socket.set_nonblocking(true).expect("nonblocking");
            let answered = client.socket.peek(&mut [0; 8]).is_ok();
            client.socket.set_nonblocking(false).expect("blocking");
            if answered {
                let answer = client.receive(ApiKey::Metadata, 12, sent);
                return topics(&answer, 12)[1].2 == 3;
            }
        }
    });
}

// checklist: 161, 163, 331
#[test]
fn by_id() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", 1, 0);
    let mut client = server.connect();
    let (known, unknown) = (topic_id(1).uuid(), topic_id(99).uuid());
    for version in 10..=13 {
        // As in Kafka, a request with a topic id ignores its names and creates nothing.
        let asked = [
            (known, None),
            (unknown, Some("new")),
            (Uuid::ZERO, Some("a")),
        ];
        let answer = client.call(
            ApiKey::Metadata,
            version,
            &body(version, Some(&asked), true),
        );
        let hidden = if version >= 12 {
            None
        } else {
            Some(String::new())
        };
        assert_eq!(
            topics(&answer, version),
            [
                (Some("a".to_owned()), known, 0, 1),
                (hidden, unknown, 100, 0)
            ],
            "v{version}"
        );
    }
}

fn versions(
    client: &mut Client,
    version: i16,
    request: &ApiVersionsRequest<'_>,
) -> ApiVersionsResponse {
    let mut body = Vec::new();
    request.encode(version.min(5), &mut body);
    let answer = client.call(ApiKey::ApiVersions, version, &body);
    ApiVersionsResponse::decode(&answer, if version > 5 { 0 } else { version })
        .expect("an ApiVersions response")
}

#[test]
fn versions_of_the_api() {
    let server = TestServer::plain();
    let mut client = server.connect();
    let good = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1.0",
        cluster_id: None,
        node_id: -1,
    };
    for version in 0..=5 {
        let response = versions(&mut client, version, &good);
        assert_eq!(
            (response.error_code, response.api_keys.len()),
            (
                0,
                Api::advertised(Registry::Client, DynamicSettings::default().cluster).count()
            )
        );
    }
    for version in [6, 99, i16::MAX] {
        let response = versions(&mut client, version, &good);
        let keys: Vec<_> = response
            .api_keys
            .iter()
            .map(|key| (key.api_key, key.min_version, key.max_version))
            .collect();
        assert_eq!((response.error_code, keys), (35, vec![(18, 0, 5)]));
    }
    let bad = ApiVersionsRequest {
        client_software_name: "a b",
        ..good
    };
    assert_eq!(versions(&mut client, 3, &bad).error_code, 42);
    let here = ApiVersionsRequest {
        cluster_id: Some(CLUSTER_ID),
        node_id: BROKER_ID,
        ..good
    };
    assert_eq!(versions(&mut client, 5, &here).error_code, 0);
    for elsewhere in [
        ApiVersionsRequest {
            cluster_id: Some("another"),
            ..good
        },
        ApiVersionsRequest {
            node_id: BROKER_ID + 1,
            ..good
        },
    ] {
        assert_eq!(versions(&mut client, 5, &elsewhere).error_code, 129);
    }
}
