//! Requests of the driver over connections that do not last.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use pybroker_protocol::{ApiKey, ErrorCode};

use super::broker::Broker;
use crate::client::{Client, Node};
use crate::error::Result;

fn ask(client: &mut Client) -> Result<Vec<u8>> {
    client.call(Node::Any, ApiKey::InitProducerId as i16, 1, false, &[0; 6])
}

#[test]
fn a_connection_that_was_closed_while_idle_costs_nothing() {
    // Each connection serves one request; the second one finds it closed.
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
    // On a connection of its own a request goes out once.
    ask(&mut client).expect_err("closed again");
    assert_eq!(count.load(Ordering::Relaxed), 4);
}
