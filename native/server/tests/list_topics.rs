//! ListTopics over real sockets: topics that the client may not describe, and the page size. For names,
//! pages and cursors see tests/wire/test_list_topics.py.

mod support;

use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::list_topics::{ListTopicsRequest, ListTopicsResponse};
use pybroker_server::authorizer::{Acl, AclDelta, Operation, ResourceType};
use pybroker_server::metadata_view::{MetadataDelta, TopicMetadata};
use support::{Client, TestServer, topic_id};

const ALL: ListTopicsRequest<'_> = ListTopicsRequest {
    list_internal: true,
    prefix: "",
    after: None,
    limit: 0,
};

/// Return the names in the response, and its cursor.
fn list(
    client: &mut Client,
    version: i16,
    request: ListTopicsRequest<'_>,
) -> (Vec<String>, Option<String>) {
    let mut body = Vec::new();
    request.encode(version, &mut body);
    let answer = client.call(ApiKey::ListTopics, version, &body);
    let response = ListTopicsResponse::decode(&answer, version).expect("a ListTopics response");
    assert_eq!((response.error_code, response.throttle_time_ms), (0, 0));
    let names = response.topics.iter().map(|topic| topic.name.to_owned());
    (names.collect(), response.next.map(Into::into))
}

fn server_with(names: impl Iterator<Item = String>) -> TestServer {
    let server = TestServer::plain();
    let topic = |(number, name): (usize, String)| TopicMetadata {
        id: topic_id(number as u128 + 1),
        name: name.into(),
        internal: false,
        partitions: Vec::new(),
    };
    server.metadata.apply(MetadataDelta {
        topics_changed: names.enumerate().map(topic).collect(),
        ..MetadataDelta::default()
    });
    server
}

#[test]
fn what_the_asker_may_not_describe_is_left_out_without_a_trace() {
    let server = server_with((0..10).map(|number| format!("t{number}")));
    let may = |number: i32| Acl {
        resource_type: ResourceType::TOPIC,
        prefixed: false,
        name: format!("t{number}"),
        principal: "User:*".to_owned(),
        host: "*".to_owned(),
        operation: Operation::DESCRIBE,
        allow: true,
    };
    let mut client = server.connect();
    server.metadata.authorizer().apply(AclDelta::default());
    for version in [0, 1] {
        assert_eq!(list(&mut client, version, ALL), (vec![], None));
    }
    server.metadata.authorizer().apply(AclDelta {
        added: (1..10).step_by(2).map(may).collect(),
        ..AclDelta::default()
    });
    let odd = ["t1", "t3", "t5", "t7", "t9"];
    assert_eq!(list(&mut client, 0, ALL).0, odd);
    let page = |client: &mut Client, limit, after| {
        let request = ListTopicsRequest {
            limit,
            after,
            ..ALL
        };
        list(client, 1, request)
    };
    let (names, next) = page(&mut client, 2, None);
    assert_eq!(
        (names, next.as_deref()),
        (vec!["t1".into(), "t3".into()], Some("t3"))
    );
    let (names, next) = page(&mut client, 3, Some("t4"));
    assert_eq!(names, odd[2..]);
    assert_eq!(
        next, None,
        "hidden topics after a page's last are not told of"
    );
    assert!(
        server
            .lines()
            .iter()
            .all(|line| !line.contains("denied request"))
    );
}

#[test]
fn a_page_is_bounded_whatever_is_asked_for() {
    let server = server_with((0..10_005).map(|number| format!("t{number:06}")));
    let mut client = server.connect();
    assert_eq!(list(&mut client, 0, ALL).0.len(), 10_005);
    assert_eq!(server.control.queued(), 0, "no control plane is asked");
    for limit in [0, -5, i32::MIN, i32::MAX] {
        let (names, next) = list(&mut client, 1, ListTopicsRequest { limit, ..ALL });
        assert_eq!((names.len(), next.as_deref()), (10_000, Some("t009999")));
    }
    let rest = ListTopicsRequest {
        after: Some("t009999"),
        ..ALL
    };
    let (names, next) = list(&mut client, 1, rest);
    assert_eq!((names.len(), next), (5, None));
}

// checklist: 312, 313, 316, 331
#[test]
fn internal_topics_are_listed_if_asked_for() {
    let server = server_with(["a".to_owned()].into_iter());
    server.metadata.apply(MetadataDelta {
        topics_changed: vec![TopicMetadata {
            id: topic_id(99),
            name: "__consumer_offsets".into(),
            internal: true,
            partitions: Vec::new(),
        }],
        ..MetadataDelta::default()
    });
    let mut client = server.connect();
    for version in [0, 1] {
        assert_eq!(
            list(&mut client, version, ALL).0,
            ["__consumer_offsets", "a"]
        );
        let users = ListTopicsRequest {
            list_internal: false,
            ..ALL
        };
        assert_eq!(list(&mut client, version, users).0, ["a"]);
    }
}

#[test]
fn a_body_that_is_no_request_ends_the_connection_and_nothing_else() {
    let server = server_with(["a".to_owned()].into_iter());
    for (version, body) in [
        (0, &[][..]),
        (0, &[1, 0]),
        (1, &[1]),
        (1, &[1, 9, 0, 0, 0, 0]),
    ] {
        let mut client = server.connect();
        client.send(ApiKey::ListTopics, version, body);
        client.expect_closed();
    }
    assert_eq!(list(&mut server.connect(), 1, ALL).0, ["a"]);
}
