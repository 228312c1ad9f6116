//! Clients whose `security.protocol` differs from the listener's. They get an error at once if the protocol has one,
//! and one log line names the setting.

mod support;

use std::io::Read;

use pybroker_model::Uuid;
use pybroker_protocol::hot::api_versions::ApiVersionsRequest;
use pybroker_protocol::hot::metadata::{MetadataRequest, MetadataRequestTopic, MetadataResponse};
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_server::config::{DynamicSettings, SecurityProtocol};
use support::{TestServer, no_replicas, topic_id};

const REFUSED: [u8; 2] = ErrorCode::SASL_AUTHENTICATION_FAILED.0.to_be_bytes();
const WORDS: &str = "set security.protocol=SASL_PLAINTEXT";

fn server_with_sasl() -> TestServer {
    TestServer::start(
        DynamicSettings::default(),
        SecurityProtocol::SaslPlaintext,
        no_replicas(),
    )
}

/// Return the response to a client's first request after ApiVersions; the server then closes the connection.
fn first_answer(server: &TestServer, key: ApiKey, version: i16, body: &[u8]) -> Vec<u8> {
    let mut client = server.connect();
    let mut api_versions = Vec::new();
    ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        cluster_id: None,
        node_id: -1,
    }
    .encode(3, &mut api_versions);
    client.call(ApiKey::ApiVersions, 3, &api_versions);
    let answer = client.call(key, version, body);
    client.expect_closed();
    answer
}

fn has_words(answer: &[u8]) -> bool {
    answer
        .windows(WORDS.len())
        .any(|part| part == WORDS.as_bytes())
}

/// Check that the log has exactly one line for the client's address, and that it contains all `parts`.
fn assert_one_line(server: &TestServer, parts: &[&str]) {
    let lines = server.lines();
    assert_eq!(lines.len(), 1, "one line for one address: {lines:#?}");
    for part in parts.iter().chain(&["from 127.0.0.1:", "on listener"]) {
        assert!(lines[0].contains(part), "{part} in {}", lines[0]);
    }
}

#[test]
fn topics_that_metadata_names_are_refused_without_looking() {
    let server = server_with_sasl();
    server.create_topic(topic_id(1), "there", 1, 0);
    for version in 0..=13 {
        let named = |name| MetadataRequestTopic {
            topic_id: Uuid::ZERO,
            name: Some(name),
        };
        let mut body = Vec::new();
        MetadataRequest {
            topics: Some(vec![named("there"), named("gone")]),
            allow_auto_topic_creation: true,
            include_cluster_authorized_operations: true,
            include_topic_authorized_operations: true,
        }
        .encode(version, &mut body);
        let answer = first_answer(&server, ApiKey::Metadata, version, &body);
        let response = MetadataResponse::decode(&answer, version).expect("a response");
        let told = response.topics.iter();
        let told: Vec<_> = told
            .map(|topic| (topic.name, topic.error_code, topic.partitions.len()))
            .collect();
        let refused = ErrorCode::TOPIC_AUTHORIZATION_FAILED.0;
        let both = [(Some("there"), refused, 0), (Some("gone"), refused, 0)];
        assert_eq!(told, both);
        assert_eq!(response.head.cluster_id, None);
        let port = i32::from(server.address.port());
        assert_eq!(response.head.brokers[0].port, port);
    }
    assert_one_line(&server, &[WORDS]);
}

#[test]
fn what_has_an_error_code_says_to_log_in() {
    let server = server_with_sasl();
    let find_coordinator = first_answer(&server, ApiKey::FindCoordinator, 0, &[0, 1, b'g']);
    assert_eq!(find_coordinator[..2], REFUSED);
    let init_producer_id = first_answer(
        &server,
        ApiKey::InitProducerId,
        0,
        &[0xff, 0xff, 0, 0, 0, 1],
    );
    assert_eq!(init_producer_id[4..6], REFUSED);
    // Fields of the response: throttle time, error code, message.
    let list_groups = first_answer(&server, ApiKey::ListGroups, 4, &[1, 1, 0]);
    assert_eq!(list_groups[4..6], REFUSED);

    // For requests with a list, the response has an element for each element. This request has a key type, one key and
    // no tagged fields.
    let find_coordinators = first_answer(&server, ApiKey::FindCoordinator, 4, &[0, 2, 2, b'g', 0]);
    // Fields of the response: throttle time, count, key, node id, empty host, port, error code.
    assert_eq!(find_coordinators[4..7], [2, 2, b'g']);
    assert_eq!(find_coordinators[16..18], REFUSED);
    assert!(has_words(&find_coordinators));
    // Fields of the request: one topic (name, partitions, replicas, no assignments, no settings), timeout,
    // validate_only=false.
    let topic = [
        &[0, 0, 0, 1, 0, 1, b't'][..],
        &[0, 0, 0, 1, 0, 1, 0, 0, 0, 0, 0, 0, 0, 0],
        &[0, 0, 0, 9, 0],
    ];
    let create_topics = first_answer(&server, ApiKey::CreateTopics, 2, &topic.concat());
    assert_eq!(create_topics[4..11], [0, 0, 0, 1, 0, 1, b't']);
    assert_eq!(create_topics[11..13], REFUSED);
    assert!(has_words(&create_topics));
    // Fields of the request: one name, timeout.
    let delete_topics = first_answer(
        &server,
        ApiKey::DeleteTopics,
        1,
        &[0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 9],
    );
    assert_eq!(delete_topics[4..11], [0, 0, 0, 1, 0, 1, b't']);
    assert_eq!(delete_topics[11..], REFUSED);
    assert_eq!(server.control.queued(), 0, "nobody was asked");
    assert_one_line(&server, &[WORDS]);
}

#[test]
fn what_leaves_no_way_to_say_it_ends_without_an_answer() {
    let server = server_with_sasl();
    for (key, version, body) in [
        // A request for all topics, and bytes that are not a request.
        (ApiKey::Metadata, 1, &[0xff, 0xff, 0xff, 0xff][..]),
        (ApiKey::Metadata, 1, &[9]),
        // An empty request has no element that could carry an error.
        (ApiKey::DeleteTopics, 1, &[0, 0, 0, 0, 0, 0, 0, 1]),
        // The response has errors only for partitions. The request has a replica id and no topics.
        (
            ApiKey::ListOffsets,
            1,
            &[0xff, 0xff, 0xff, 0xff, 0, 0, 0, 0],
        ),
        (ApiKey::CreateTopics, 2, b""),
    ] {
        let mut client = server.connect();
        client.send(key, version, body);
        client.expect_closed();
    }
    assert_one_line(&server, &[WORDS, "before authentication"]);
    assert_eq!(server.metric("pybroker_protocol_errors_total"), 5.0);
}

#[test]
fn a_tls_client_hears_an_alert_of_tls() {
    for (server, protocol) in [
        (
            TestServer::with_limits(|_| {}),
            "security.protocol=PLAINTEXT",
        ),
        (server_with_sasl(), WORDS),
    ] {
        for _ in 0..5 {
            let mut client = server.connect();
            // The start of a TLS record of 512 bytes with a client hello.
            client.send_raw(&[&[0x16, 3, 1, 2, 0, 1][..], &[0; 511]].concat());
            let mut alert = Vec::new();
            let read = client.socket.read_to_end(&mut alert);
            read.expect("the end");
            // The server sends a fatal TLS alert, handshake_failure (RFC 8446, section 6).
            assert_eq!(alert, [0x15, 3, 3, 0, 2, 2, 40]);
        }
        assert_one_line(&server, &["speaks TLS", protocol]);
        assert_eq!(server.metric("pybroker_protocol_errors_total"), 5.0);
    }
}
