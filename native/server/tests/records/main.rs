//! Produce, Fetch and offsets over real sockets and real logs.

mod fetch;
mod fetch_sessions;
mod offsets;
mod produce;
#[path = "../support/mod.rs"]
mod support;

use pybroker_storage::FlushMode;
use support::records::TestTopic;
use support::{TestServer, topic_id};

fn topic<'n>(name: &'n str, number: u128) -> TestTopic<'n> {
    TestTopic {
        name,
        id: topic_id(number).uuid(),
    }
}

const A: fn() -> TestTopic<'static> = || topic("a", 1);

fn server_with_a(partitions: i32) -> TestServer {
    let server = TestServer::with_flush(FlushMode::Os);
    server.create_topic(topic_id(1), "a", partitions, 5);
    server
}
