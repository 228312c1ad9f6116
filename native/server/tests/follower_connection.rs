//! A follower's connection to its leader, made with `pybroker_client`.

mod support;

use std::net::SocketAddr;
use std::time::Duration;

use pybroker_client::{
    Connection, ConnectionSettings, ReachedBrokers, Sasl, SecurityProtocol, Software, Tls,
};
use pybroker_protocol::codec::Registry;
use pybroker_protocol::hot::WireVersion;
use pybroker_protocol::{ApiKey, ErrorCode};
use pybroker_storage::FlushMode;
use support::records::{Fetch, TestTopic, batch, produce_body, read_fetched, read_produced};
use support::{BROKER_ID, TestServer, topic_id};

const EPOCH: i32 = 5;
const FOLLOWER: i32 = 2;

fn open(address: SocketAddr, registry: Registry) -> Connection {
    let settings = ConnectionSettings {
        prefix: "",
        registry,
        software: Software {
            name: "a-follower",
            version: "1",
        },
        client_id: "broker-2-fetcher-0".into(),
        protocol: SecurityProtocol::default(),
        sasl: Sasl::default(),
        tls: Tls::default(),
        connect_timeout: Duration::from_secs(30),
        request_timeout: Duration::from_secs(30),
        answered: ReachedBrokers::default(),
    };
    Connection::open(&address.to_string(), &settings).expect("a connection")
}

#[test]
fn a_connection_speaks_the_layouts_that_its_registry_names() {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_replicated(topic_id(1), "a", EPOCH, &[BROKER_ID, FOLLOWER]);
    let topic = TestTopic {
        name: "a",
        id: topic_id(1).uuid(),
    };
    let follows = |offset, version| {
        let fetch = Fetch {
            replica_id: FOLLOWER,
            partitions: vec![(topic, 0, offset, EPOCH)],
            ..Fetch::default()
        };
        fetch.body(version)
    };
    let mut broker = open(server.brokers_address, Registry::InterBroker);
    let mut client = open(server.address, Registry::Client);

    // The same version number has two layouts: topic ids among brokers, names for clients.
    let records = batch(&[b"x"]);
    for (connection, version, offset) in [
        (&mut broker, WireVersion::inter_broker(9), 0),
        (&mut client, WireVersion::from(9), 1),
    ] {
        let number = connection.version_of(ApiKey::Produce, 9..=9).expect("9");
        let body = produce_body(version, 1, 0, topic, &[(0, Some(&records))]);
        let answer = connection.call(ApiKey::Produce.code(), number, &body);
        let produced = read_produced(&answer.expect("an answer"), version);
        assert_eq!((produced[0].error, produced[0].offset), (0, offset));
    }

    // A follower sends the next fetch before it processes the previous response.
    let fetch = ApiKey::Fetch.code();
    let sent = [0, 1].map(|offset| {
        let body = follows(offset, 13);
        broker.send(fetch, 13, &[&body]).expect("sent")
    });
    for (sent, offsets) in sent.into_iter().zip([&[0, 1][..], &[1]]) {
        let answer = broker.receive(sent).expect("an answer");
        assert_eq!(
            read_fetched(&answer, WireVersion::inter_broker(13))
                .one()
                .offsets(),
            offsets
        );
    }

    // The client refuses to send a request that its registry does not have.
    let body = follows(0, 11);
    let refused = broker.send(fetch, 11, &[&body]).expect_err("no layout");
    assert_eq!(refused.code(), ErrorCode::UNSUPPORTED_VERSION);
    client.send(fetch, 11, &[&body]).expect("sent");
}
