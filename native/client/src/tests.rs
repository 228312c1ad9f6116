//! Tests of closed connections, refused logins, and waits for topics.

use std::cell::Cell;
use std::io::{Read, Write};
use std::net::TcpListener;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};

use pybroker_model::Uuid;
use pybroker_protocol::{ApiKey, ErrorCode};

use crate::test_broker::{Broker, TOPIC, settings_of, texts};
use crate::{Client, Error, Node, Result};

fn ask(client: &mut Client) -> Result<Vec<u8>> {
    client.call(Node::Any, ApiKey::InitProducerId as i16, 1, &[0; 6])
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_nothing() {
    // Each connection serves one request and closes before the second.
    let broker = Broker::start(|request| (request.before == 0).then(|| vec![1, 2, 3]));
    let mut client = broker.client(&[]);
    for _ in 0..3 {
        assert_eq!(ask(&mut client).expect("an answer"), [1, 2, 3]);
    }
}

#[test]
fn a_request_goes_out_twice_at_most() {
    let count = Arc::new(AtomicUsize::new(0));
    let seen = count.clone();
    let broker =
        Broker::start(move |_| (seen.fetch_add(1, Ordering::Relaxed) == 0).then(|| vec![1, 2, 3]));
    let mut client = broker.client(&[]);
    ask(&mut client).expect("the first answer");
    let problem = ask(&mut client).expect_err("closed twice");
    assert_eq!(problem.code(), ErrorCode::NETWORK_EXCEPTION);
    assert_eq!(count.load(Ordering::Relaxed), 3);
    // The connection is new, so the client does not send the request again.
    ask(&mut client).expect_err("closed again");
    assert_eq!(count.load(Ordering::Relaxed), 4);
}

#[test]
fn a_connection_can_be_ended_while_its_owner_waits_for_an_answer() {
    let broker = Broker::start(|_| {
        loop {
            std::thread::park();
        }
    });
    let mut client = broker.client(&[("request.timeout.ms", "600000")]);
    let connection = client.connection(Node::Any).expect("a connection");
    let closer = connection.closer().expect("a descriptor");
    let closes = std::thread::spawn(move || closer.close());
    let answer = connection.call(ApiKey::InitProducerId as i16, 1, &[0; 6]);
    let problem = answer.expect_err("nobody answers");
    assert_eq!(problem.code(), ErrorCode::NETWORK_EXCEPTION);
    closes.join().expect("closed");
}

#[test]
fn a_broker_that_closes_before_its_first_answer_may_be_of_another_protocol() {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("an address").to_string();
    // A TLS listener answers a plaintext request with an alert. A Kafka client reads the alert's first bytes as a size.
    let alert = [0x15, 3, 3, 0, 2, 2, 0x50];
    std::thread::spawn(move || {
        for (number, mut stream) in listener.incoming().map_while(|each| each.ok()).enumerate() {
            let mut request = [0; 1024];
            let _ = stream.read(&mut request);
            let _ = stream.write_all(&alert[..number % 2 * alert.len()]);
        }
    });
    for (protocol, times) in [("PLAINTEXT", 2), ("SSL", 1)] {
        let values = [
            ("bootstrap.servers", address.as_str()),
            ("security.protocol", protocol),
        ];
        let settings = settings_of(&texts(&values));
        for _ in 0..times {
            let problem = ask(&mut Client::new(settings.clone())).expect_err("closed");
            assert_eq!(problem.code(), ErrorCode::NETWORK_EXCEPTION);
            let text = problem.to_string();
            assert!(text.starts_with(&address), "{text}");
            let question = format!(": does kafka.security.protocol={protocol} fit this listener?");
            assert!(text.ends_with(&question), "{text}");
        }
    }
    // For a broker that has answered before, the client adds no such hint.
    let broker = Broker::start(|_| None);
    let text = ask(&mut broker.client(&[]))
        .expect_err("closed")
        .to_string();
    assert!(text.ends_with("unexpected end of file"), "{text}");
}

#[test]
fn a_mechanism_that_is_refused_comes_with_those_that_are_offered() {
    let login = [
        ("security.protocol", "SASL_PLAINTEXT"),
        ("sasl.username", "u"),
    ];
    // The SaslHandshake response has an error code and an array of mechanism names.
    for (answer, offered) in [
        (
            &b"\0\x22\0\0\0\0"[..],
            "ILLEGAL_SASL_STATE(34): the broker offers none",
        ),
        (
            b"\0\x21\0\0\0\x02\0\x01A\0\x01B",
            "UNSUPPORTED_SASL_MECHANISM(33): the broker offers A, B",
        ),
    ] {
        let broker = Broker::start(|_| Some(answer.to_vec()));
        let text = ask(&mut broker.client(&login))
            .expect_err("refused")
            .to_string();
        assert!(
            text.starts_with("SASL mechanism PLAIN at 127.0.0.1:"),
            "{text}"
        );
        assert!(text.ends_with(&format!(": {offered}")), "{text}");
    }
}

#[test]
fn a_broker_that_shuts_everybody_out_may_be_of_another_protocol() {
    let broker = Broker::start_shut();
    let question = ": does kafka.security.protocol=PLAINTEXT fit this listener?";
    let wanted = [(Uuid::ZERO, TOPIC)];
    let refused = broker
        .client(&[])
        .topics(&wanted)
        .expect_err("it is refused");
    assert_eq!(refused.code(), ErrorCode::TOPIC_AUTHORIZATION_FAILED);
    assert!(refused.to_string().ends_with(question), "{refused}");
    let closed = broker.client(&[]).cluster_id().expect_err("it is closed");
    assert_eq!(closed.code(), ErrorCode::NETWORK_EXCEPTION);
    assert!(closed.to_string().ends_with(question), "{closed}");
}

#[test]
fn trouble_that_may_pass_is_waited_out() {
    let broker = Broker::start(|_| None);
    let mut client = broker.client(&[]);
    let asked = Cell::new(0);
    let found = client.patiently(|_| {
        asked.set(asked.get() + 1);
        match asked.get() {
            1 => Err(Error::refused(ErrorCode::NOT_CONTROLLER, "a", None)),
            2 => Err(Error::refused(ErrorCode::UNKNOWN_TOPIC_ID, "a", None)),
            number => Ok(number),
        }
    });
    assert_eq!(found.expect("the third answer"), 3);
    // A permanent error ends the retries immediately.
    let asked = Cell::new(0);
    let refused: Result<()> = client.patiently(|_| {
        asked.set(asked.get() + 1);
        Err(Error::refused(ErrorCode::INVALID_CONFIG, "a", None))
    });
    refused.expect_err("for good");
    assert_eq!(asked.get(), 1);
}

#[test]
fn a_topic_that_nobody_knows_is_not_waited_for_as_long_as_a_broker() {
    let broker = Broker::start(|_| None);
    let mut client = broker.client(&[]);
    let started = Instant::now();
    let refused = client.topics(&[(Uuid::from_bytes([8; 16]), "other")]);
    assert_eq!(
        refused.expect_err("there is none").code(),
        ErrorCode::UNKNOWN_TOPIC_OR_PARTITION
    );
    let patience = client.settings().delivery_timeout;
    assert_eq!(patience, Duration::from_secs(120));
    assert!(started.elapsed() < patience);
}
