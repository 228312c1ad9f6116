//! The connection layer: order of responses, limits, slow and idle clients, invalid bytes.

mod support;

use std::io::{Read, Write};
use std::time::{Duration, Instant};

use bytes::Bytes;
use pybroker_protocol::ApiKey;
use pybroker_protocol::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use pybroker_server::config::{DynamicSettings, SecurityProtocol};
use pybroker_server::control_plane::ControlReply;
use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};
use support::{Client, PATIENCE, TestServer, no_replicas, request_frame, wait_until};

fn api_versions_body() -> Vec<u8> {
    let request = ApiVersionsRequest {
        client_software_name: "test",
        client_software_version: "1",
        cluster_id: None,
        node_id: -1,
    };
    let mut body = Vec::new();
    request.encode(3, &mut body);
    body
}

#[test]
fn replies_come_in_the_order_of_requests() {
    let server = TestServer::plain();
    let mut client = server.connect();
    // Responses of data threads wait for an earlier request in the control plane.
    let first = client.send(ApiKey::DescribeCluster, 0, &[1, 2, 3]);
    let second = client.send(ApiKey::ApiVersions, 3, &api_versions_body());
    let third = client.send(ApiKey::ListGroups, 0, &[]);
    let fourth = client.send(ApiKey::ApiVersions, 3, &api_versions_body());
    let request = server.control.next();
    assert_eq!((request.api_key, &request.body[..]), (60, &[1, 2, 3][..]));
    assert_eq!(request.client_id.as_deref(), Some("test"));
    assert_eq!(&*request.principal, "User:ANONYMOUS");
    assert_eq!(server.control.queued(), 0, "one at a time per connection");
    request.reply.send(Bytes::from_static(b"one"));
    server
        .control
        .next()
        .reply
        .send(Bytes::from_static(b"three"));
    assert_eq!(client.receive(ApiKey::DescribeCluster, 0, first), b"one");
    assert!(
        ApiVersionsResponse::decode(&client.receive(ApiKey::ApiVersions, 3, second), 3).is_ok()
    );
    assert_eq!(client.receive(ApiKey::ListGroups, 0, third), b"three");
    client.receive(ApiKey::ApiVersions, 3, fourth);
}

#[test]
fn a_frame_that_comes_byte_by_byte_is_a_frame() {
    let server = TestServer::plain();
    let mut client = server.connect();
    for byte in request_frame(ApiKey::ApiVersions, 3, 9, &api_versions_body()) {
        client.send_raw(&[byte]);
    }
    client.receive(ApiKey::ApiVersions, 3, 9);
}

#[test]
fn large_frames_in_pieces_and_pipelined() {
    let server = TestServer::plain();
    let mut client = server.connect();
    let bodies: Vec<Vec<u8>> = [3_000_000, 10, 200_000, 70_000]
        .iter()
        .map(|size| vec![*size as u8; *size])
        .collect();
    let mut bytes = Vec::new();
    for (number, body) in bodies.iter().enumerate() {
        bytes.extend_from_slice(&request_frame(ApiKey::CreateTopics, 2, number as i32, body));
    }
    let mut writer = client.socket.try_clone().expect("a second handle");
    let sender = std::thread::spawn(move || {
        for piece in bytes.chunks(99_991) {
            writer.write_all(piece).expect("the server reads on");
        }
    });
    for (number, body) in bodies.iter().enumerate() {
        let request = server.control.next();
        assert_eq!(&request.body[..], &body[..], "request {number}");
        request.reply.send(request.body.slice(..4));
        client.receive(ApiKey::CreateTopics, 2, number as i32);
    }
    sender.join().expect("sent");
    wait_until("nothing to be held", || {
        server.metric("pybroker_in_flight_bytes") == 0.0
    });
}

#[test]
fn the_control_plane_can_close_and_a_lost_answer_closes() {
    let server = TestServer::plain();
    let mut client = server.connect();
    client.send(ApiKey::CreateTopics, 2, &[]);
    server.control.next().reply.close();
    client.expect_closed();
    let mut client = server.connect();
    client.send(ApiKey::CreateTopics, 2, &[]);
    drop(server.control.next().reply);
    client.expect_closed();
    server.wait_for_line("was lost");
}

#[test]
fn an_answer_that_is_lost_during_the_stop_is_no_error() {
    let server = TestServer::plain();
    let mut client = server.connect();
    client.send(ApiKey::CreateTopics, 2, &[]);
    let reply = server.control.next().reply;
    server.server.stop_accepting();
    drop(reply);
    client.expect_closed();
    wait_until("the connection to be closed", || {
        server.metric("pybroker_connections") == 0.0
    });
    assert_eq!(server.lines(), Vec::<String>::new());
}

#[test]
fn an_answer_that_nobody_waits_for_is_known_to_be() {
    let server = TestServer::plain();
    let mut client = server.connect();
    client.send(ApiKey::JoinGroup, 2, &[]);
    let request = server.control.next();
    assert!(!request.reply.is_cancelled());
    client.close();
    wait_until("the cancellation", || request.reply.is_cancelled());
}

// checklist: R13
#[test]
fn a_full_queue_stops_the_connection_and_nothing_is_lost() {
    let server = TestServer::plain();
    server.control.set_capacity(1);
    let mut clients: Vec<Client> = (0..5).map(|_| server.connect()).collect();
    let sent: Vec<i32> = clients
        .iter_mut()
        .enumerate()
        .map(|(n, c)| c.send(ApiKey::CreateTopics, 2, &[n as u8]))
        .collect();
    for _ in 0..clients.len() {
        let request = server.control.next();
        request.reply.send(request.body.clone());
    }
    for (number, client) in clients.iter_mut().enumerate() {
        assert_eq!(
            client.receive(ApiKey::CreateTopics, 2, sent[number]),
            [number as u8]
        );
    }
}

#[test]
fn lengths_that_are_none_close_the_connection_with_one_line() {
    let server = TestServer::with_limits(|limits| limits.request_bytes_max = 1000);
    let check = |bytes: &[u8], line: &str| {
        let mut client = server.connect();
        client.send_raw(bytes);
        client.expect_closed();
        server.wait_for_line(line);
    };
    check(
        &[0xff, 0xff, 0xff, 0xff],
        "a request of -1 bytes, allowed are 8 to 1000",
    );
    check(&[0, 0, 0, 0], "a request of 0 bytes");
    check(&[0, 0, 0, 1], "a request of 1 bytes");
    check(&[0, 0, 3, 0xe9], "a request of 1001 bytes");
    check(&[0x7f, 0xff, 0xff, 0xff], "a request of 2147483647 bytes");
    check(b"GET / HTTP/1.1\r\n\r\n", "it speaks HTTP");
    check(
        &request_frame(ApiKey::CreateTopics, 99, 1, &[]),
        "api key 19 version 99 is not served here",
    );
    check(
        &[0, 0, 0, 10, 0x70, 0, 0, 1, 0, 0, 0, 1, 0xff, 0xff],
        "api key 28672 version 1 is not served here",
    );
    check(
        &request_frame(ApiKey::Metadata, 12, 1, &[0xff, 0xff, 0xff, 0xff, 0x0f]),
        "cannot be decoded: api key 3",
    );
    check(
        &request_frame(ApiKey::Metadata, 1, 1, &[0, 0, 0, 0, 7]),
        "bytes are left over",
    );
    assert_eq!(
        server.lines().len(),
        10,
        "one line each: {:#?}",
        server.lines()
    );
    assert_eq!(server.metric("pybroker_protocol_errors_total"), 10.0);
    // Other connections are still served.
    server
        .connect()
        .call(ApiKey::ApiVersions, 3, &api_versions_body());
}

#[test]
fn a_listener_with_sasl_takes_little_before_authentication() {
    let server = TestServer::start(
        DynamicSettings::default(),
        SecurityProtocol::SaslPlaintext,
        no_replicas(),
    );
    let mut client = server.connect();
    client.call(ApiKey::ApiVersions, 3, &api_versions_body());
    client.send(ApiKey::CreateTopics, 2, b"");
    client.expect_closed();
    server.wait_for_line("api key 19 before authentication");
    let mut client = server.connect();
    client.send_raw(&[0, 1, 0, 1]);
    client.expect_closed();
    server.wait_for_line("a request of 65537 bytes, allowed are 8 to 65536");
}

#[test]
fn connections_have_limits() {
    let server = TestServer::with_limits(|limits| limits.connections_max = 3);
    let mut kept: Vec<Client> = (0..3).map(|_| server.connect()).collect();
    for client in &mut kept {
        client.call(ApiKey::ApiVersions, 3, &api_versions_body());
    }
    server.connect().expect_closed();
    server.wait_for_line("max.connections reached");
    kept.pop().expect("one").close();
    wait_until("a free place", || server.server.connections() == 2);
    server
        .connect()
        .call(ApiKey::ApiVersions, 3, &api_versions_body());

    let server = TestServer::with_limits(|limits| limits.connections_per_ip_max = 1);
    let mut first = server.connect();
    first.call(ApiKey::ApiVersions, 3, &api_versions_body());
    server.connect().expect_closed();
    server.wait_for_line("max.connections.per.ip reached");
    let mut settings = DynamicSettings::clone(&server.server.settings());
    settings
        .limits
        .connections_per_ip_overrides
        .insert([127, 0, 0, 1].into(), 2);
    server.server.set_settings(settings);
    server
        .connect()
        .call(ApiKey::ApiVersions, 3, &api_versions_body());
}

#[test]
fn idle_and_half_open_peers_are_closed() {
    let server = TestServer::with_limits(|limits| {
        limits.idle = Duration::from_secs(3);
        limits.frame_stall = Duration::from_millis(50);
    });
    let mut idle = server.connect();
    let mut half = server.connect();
    idle.call(ApiKey::ApiVersions, 3, &api_versions_body());
    half.send_raw(&[0, 0, 1, 0, 0, 18]);
    half.expect_closed();
    server.wait_for_line("an incomplete request got no more bytes");
    idle.expect_closed();
    wait_until("all to be gone", || server.server.connections() == 0);
    assert_eq!(server.metric("pybroker_in_flight_bytes"), 0.0);
}

#[test]
fn a_client_that_waits_for_its_answer_is_not_idle() {
    let server = TestServer::with_limits(|limits| limits.idle = Duration::from_secs(1));
    let mut client = server.connect();
    let sent = client.send(ApiKey::JoinGroup, 2, &[]);
    let request = server.control.next();
    std::thread::sleep(Duration::from_millis(2_500));
    request.reply.send(Bytes::from_static(b"late"));
    assert_eq!(client.receive(ApiKey::JoinGroup, 2, sent), b"late");
}

#[test]
fn a_peer_that_does_not_read_stops_being_served_and_is_closed() {
    let server = TestServer::with_limits(|limits| limits.write_stall = Duration::from_millis(500));
    let mut client = server.connect();
    // Responses of 1 MB each; the socket buffers hold a few of them.
    let mut answered = 0;
    let mut sent = 0;
    while sent < 100 {
        client.send(ApiKey::CreateTopics, 2, &[7; 100]);
        sent += 1;
    }
    server
        .control
        .next()
        .reply
        .send(Bytes::from(vec![1; 1 << 20]));
    let deadline = Instant::now() + PATIENCE;
    while server.server.connections() > 0 {
        assert!(Instant::now() < deadline, "the connection is never closed");
        if server.control.queued() > 0 {
            server
                .control
                .next()
                .reply
                .send(Bytes::from(vec![1; 1 << 20]));
            answered += 1;
        }
        std::thread::sleep(Duration::from_millis(1));
    }
    assert!(
        answered < 30,
        "{answered} megabytes were answered to a client that does not read"
    );
    server.wait_for_line("it does not read its replies");
    client.close();
}

#[test]
fn a_client_that_only_sends_cannot_fill_the_memory() {
    let server = TestServer::with_limits(|limits| limits.in_flight_connection_bytes_max = 1 << 20);
    let client = server.connect();
    client.socket.set_nonblocking(true).expect("nonblocking");
    let frame = request_frame(ApiKey::CreateTopics, 2, 1, &vec![7; 100_000]);
    let stream: Vec<u8> = std::iter::repeat_n(&frame[..], 300)
        .flatten()
        .copied()
        .collect();
    let mut sent = 0;
    let mut last_progress = Instant::now();
    while sent < stream.len() && last_progress.elapsed() < Duration::from_millis(500) {
        match (&client.socket).write(&stream[sent..]) {
            Ok(count) => {
                sent += count;
                last_progress = Instant::now();
            }
            Err(error) if error.kind() == std::io::ErrorKind::WouldBlock => {
                std::thread::sleep(Duration::from_millis(1));
            }
            Err(error) => panic!("the server closed: {error}"),
        }
    }
    assert!(
        sent < stream.len(),
        "30 MB were taken from a client that is not answered"
    );
    assert!(server.metric("pybroker_in_flight_bytes") < 4e6);
}

#[test]
fn incomplete_frames_share_a_budget_and_still_complete() {
    let server = TestServer::with_limits(|limits| limits.in_flight_bytes_max = 1 << 20);
    let body = vec![5; 900_000];
    let mut clients: Vec<Client> = (0..6).map(|_| server.connect()).collect();
    // Each request lacks its last bytes: together they hold 5.4 MB with a budget of 1 MB.
    let frame = request_frame(ApiKey::CreateTopics, 2, 1, &body);
    let writers: Vec<_> = clients
        .iter()
        .map(|client| {
            let mut socket = client.socket.try_clone().expect("a second handle");
            let frame = frame.clone();
            std::thread::spawn(move || socket.write_all(&frame).expect("taken in the end"))
        })
        .collect();
    for _ in 0..clients.len() {
        let request = server.control.next();
        assert_eq!(request.body.len(), body.len());
        request.reply.send(Bytes::from_static(b"ok"));
    }
    for writer in writers {
        writer.join().expect("written");
    }
    for client in &mut clients {
        client.receive(ApiKey::CreateTopics, 2, 1);
    }
}

#[test]
fn stopping_answers_what_was_read() {
    let server = TestServer::plain();
    let mut waiting = server.connect();
    let mut idle = server.connect();
    idle.call(ApiKey::ApiVersions, 3, &api_versions_body());
    let sent = waiting.send(ApiKey::CreateTopics, 2, &[]);
    let request = server.control.next();
    std::thread::scope(|scope| {
        let stop = scope.spawn(|| server.server.shutdown(Instant::now() + PATIENCE));
        idle.expect_closed();
        request.reply.send(Bytes::from_static(b"done"));
        assert_eq!(waiting.receive(ApiKey::CreateTopics, 2, sent), b"done");
        waiting.expect_closed();
        stop.join().expect("stopped");
    });
    assert!(
        std::net::TcpStream::connect(server.address).is_err(),
        "nobody listens"
    );
}

#[test]
fn a_deadline_ends_what_does_not_end() {
    let server = TestServer::plain();
    let mut client = server.connect();
    client.send(ApiKey::CreateTopics, 2, &[]);
    let request = server.control.next();
    server
        .server
        .shutdown(Instant::now() + Duration::from_millis(50));
    client.expect_closed();
    assert!(request.reply.is_cancelled());
}

#[test]
fn authentication_changes_who_a_connection_is() {
    let server = TestServer::start(
        DynamicSettings::default(),
        SecurityProtocol::SaslPlaintext,
        no_replicas(),
    );
    let mut client = server.connect();
    let served = ApiKey::SaslAuthenticate.api().served;
    let sent = client.send(ApiKey::SaslAuthenticate, 0, b"secret");
    if !served {
        // Only the check before authentication matters: this server has no SASL mechanism.
        client.expect_closed();
        return;
    }
    let request = server.control.next();
    request.reply.reply(ControlReply::Authenticated {
        body: Bytes::from_static(b"ok"),
        principal: "User:alice".into(),
        by_token: false,
        session_lifetime_ms: Some(600_000),
    });
    assert_eq!(client.receive(ApiKey::SaslAuthenticate, 0, sent), b"ok");
    client.send(ApiKey::CreateTopics, 2, &[]);
    assert_eq!(&*server.control.next().principal, "User:alice");
}

/// Random and mutated frames against a live socket: the server does not panic, its memory is bounded, and other clients
/// are served. Set `PYBROKER_HOSTILE_FRAMES=1000000` for a million frames.
#[test]
fn hostile_frames() {
    let frames = std::env::var("PYBROKER_HOSTILE_FRAMES")
        .map_or(20_000, |count| count.parse().expect("a number"));
    let server = TestServer::with_limits(|limits| limits.request_bytes_max = 64 * 1024);
    let control = std::sync::Arc::clone(&server.control);
    std::thread::spawn(move || {
        // The control plane refuses mutated frames that are valid requests for it.
        loop {
            if control.queued() > 0 {
                control.next().reply.close();
            } else {
                std::thread::sleep(Duration::from_millis(1));
            }
        }
    });
    let mut rng = StdRng::seed_from_u64(1);
    let mut sent = 0;
    while sent < frames {
        let mut client = server.connect();
        client
            .socket
            .set_read_timeout(Some(Duration::from_millis(1)))
            .expect("a timeout");
        let mut bytes = Vec::new();
        for _ in 0..rng.random_range(1..200) {
            hostile_frame(&mut rng, &mut bytes);
            sent += 1;
        }
        // The server closes at the first invalid bytes; sending the rest may then fail.
        let _ = client.socket.write_all(&bytes);
        let _ = client.socket.read(&mut [0; 4096]);
        client.close();
    }
    server
        .connect()
        .call(ApiKey::ApiVersions, 3, &api_versions_body());
    wait_until("all to be gone", || {
        server.metric("pybroker_in_flight_bytes") == 0.0
    });
    assert!(server.metric("pybroker_protocol_errors_total") > 0.0);
}

fn hostile_frame(rng: &mut StdRng, out: &mut Vec<u8>) {
    const KEYS: [ApiKey; 8] = [
        ApiKey::Produce,
        ApiKey::Fetch,
        ApiKey::ListOffsets,
        ApiKey::Metadata,
        ApiKey::ApiVersions,
        ApiKey::OffsetForLeaderEpoch,
        ApiKey::CreateTopics,
        ApiKey::JoinGroup,
    ];
    let key = KEYS[rng.random_range(0..KEYS.len())];
    let version = rng.random_range(key.api().min_version..=key.api().max_version);
    let body: Vec<u8> = (0..rng.random_range(0..80))
        .map(|_| {
            if rng.random_bool(0.5) {
                [0, 0xff, 0x7f, 1, 2][rng.random_range(0..5)]
            } else {
                rng.random()
            }
        })
        .collect();
    let mut frame = request_frame(key, version, 1, &body);
    match rng.random_range(0..10) {
        0 => frame.truncate(rng.random_range(0..frame.len())),
        1 => {
            let at = rng.random_range(0..frame.len());
            frame[at] = rng.random();
        }
        2 => frame.iter_mut().for_each(|byte| *byte = rng.random()),
        _ => {}
    }
    out.extend_from_slice(&frame);
}
