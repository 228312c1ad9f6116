//! Cached responses: data threads repeat responses of the control plane.

mod support;

use std::sync::Arc;
use std::time::{Duration, Instant};

use bytes::Bytes;
use pybroker_protocol::ApiKey;
use pybroker_server::authorizer::AclDelta;
use pybroker_server::cached_responses::{CachedResponse, ResponseKey};
use pybroker_server::control_plane::ControlReply;
use pybroker_server::metadata_view::{Features, MetadataDelta};
use pybroker_server::quotas::{EntityQuotas, QuotaDelta};
use support::{Client, PATIENCE, TestServer};

const VERSION: i16 = 4;

fn cache(server: &TestServer, client: &mut Client, body: &[u8]) -> Arc<CachedResponse> {
    let sent = client.send(ApiKey::Heartbeat, VERSION, body);
    let request = server.control.next();
    let asked = ResponseKey {
        api_key: request.api_key,
        api_version: request.api_version,
        body: request.body.clone(),
    };
    // Response of version 1 and later: throttle_time_ms, error_code, no tagged fields.
    let answer = Bytes::copy_from_slice(&[0, 0, 0, 0, 0, 0, 0]);
    let cached = server.metadata.cached_responses();
    let answer = cached.cache(asked, "g", answer, Instant::now());
    let reply = ControlReply::Cached(Arc::clone(&answer));
    request.reply.reply(reply);
    assert_eq!(
        client.receive(ApiKey::Heartbeat, VERSION, sent),
        answer.body().as_ref()
    );
    answer
}

/// Send a request that data threads must pass to the control plane, and answer it there.
fn is_asked(server: &TestServer, client: &mut Client, version: i16, body: &[u8]) {
    let sent = client.send(ApiKey::Heartbeat, version, body);
    let request = server.control.next();
    assert_eq!(&request.body[..], body);
    request.reply.send(Bytes::from_static(b"no"));
    assert_eq!(client.receive(ApiKey::Heartbeat, version, sent), b"no");
}

#[test]
fn the_same_bytes_get_the_same_answer_until_it_is_taken_back() {
    let server = TestServer::plain();
    let mut client = server.connect();
    let answer = cache(&server, &mut client, b"a heartbeat");
    std::thread::sleep(Duration::from_millis(20));
    let before = answer.idle(Instant::now());
    let repeated = client.call(ApiKey::Heartbeat, VERSION, b"a heartbeat");
    assert_eq!(repeated, answer.body().as_ref());
    assert_eq!(server.control.queued(), 0);
    assert!(answer.idle(Instant::now()) < before, "it was heard");
    let counted =
        "kafka_network_requestmetrics_requests_total{request=\"Heartbeat\",version=\"4\"}";
    assert_eq!(server.metric(counted), 2.0, "as any request");
    // Requests with other bytes, with another version or over another connection get no repeated response.
    is_asked(&server, &mut client, VERSION, b"another one");
    is_asked(&server, &mut client, VERSION - 1, b"a heartbeat");
    is_asked(&server, &mut server.connect(), VERSION, b"a heartbeat");
    client.call(ApiKey::Heartbeat, VERSION, b"a heartbeat");
    answer.invalidate();
    is_asked(&server, &mut client, VERSION, b"a heartbeat");
}

#[test]
fn whatever_is_published_takes_all_answers_back() {
    let server = TestServer::plain();
    let mut client = server.connect();
    let publish: [&dyn Fn(); 2] = [
        &|| {
            server.metadata.apply(MetadataDelta::default());
        },
        &|| server.metadata.set_features(Features::default()),
    ];
    for change in publish {
        cache(&server, &mut client, b"a heartbeat");
        client.call(ApiKey::Heartbeat, VERSION, b"a heartbeat");
        change();
        is_asked(&server, &mut client, VERSION, b"a heartbeat");
    }
}

#[test]
fn who_may_not_read_for_the_group_any_more_is_told_so_by_the_control_plane() {
    let server = TestServer::plain();
    let mut client = server.connect();
    let answer = cache(&server, &mut client, b"a heartbeat");
    client.call(ApiKey::Heartbeat, VERSION, b"a heartbeat");
    server.metadata.authorizer().apply(AclDelta {
        super_users: Some(vec!["User:root".into()]),
        ..AclDelta::default()
    });
    std::thread::sleep(Duration::from_millis(20));
    is_asked(&server, &mut client, VERSION, b"a heartbeat");
    assert!(
        answer.idle(Instant::now()) >= Duration::from_millis(20),
        "nor was it heard"
    );
}

#[test]
fn who_has_used_up_its_quota_is_told_to_wait() {
    let server = TestServer::plain();
    let quota = EntityQuotas {
        user: None,
        client_id: Some(String::new()),
        values: [None, None, Some(0.01), None],
    };
    server.server.change_quotas(&QuotaDelta {
        full: true,
        entities: vec![quota],
        addresses: Vec::new(),
    });
    let mut client = server.connect();
    cache(&server, &mut client, b"a heartbeat");
    let deadline = Instant::now() + PATIENCE;
    loop {
        let answer = client.call(ApiKey::Heartbeat, VERSION, b"a heartbeat");
        assert_eq!(answer.len(), 7);
        if answer[..4] != [0; 4] {
            break;
        }
        assert!(Instant::now() < deadline, "it is never told");
    }
    assert_eq!(server.control.queued(), 0);
}
