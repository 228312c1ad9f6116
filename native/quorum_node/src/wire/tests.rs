//! Messages follow the schemas' layouts and survive a round trip.

use bytes::Bytes;
use pybroker_metadata_log::{Endpoint, decode_batches, encode_records};
use pybroker_model::Uuid;
use pybroker_protocol::codec::{
    Direction, ELEMENTS_MAX_TRUSTED, Registry, decode_value, encode_value,
};
use pybroker_quorum::{Answer, Ask, EpochEnd, Error, FetchResult, ReplicaKey, Request, Response};

use super::{
    Api, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH, Payload, ReplyTo, Sender, VOTE, api_of,
    decode_request, decode_response, encode_request, encode_response,
};

const TOPIC: Uuid = Uuid::from_u128(0x1234);

fn endpoint(node: i32, listener: &str) -> Endpoint {
    Endpoint {
        node,
        listener: listener.into(),
        host: "a.example".into(),
        port: 60_000,
    }
}

fn sender() -> Sender {
    Sender {
        cluster_id: "a-cluster".into(),
        cluster_key: Uuid::from_u128(99),
        endpoints: vec![endpoint(7, "CONTROLLER")],
        fetch_bytes_max: 1000,
    }
}

fn key(id: i32) -> ReplicaKey {
    ReplicaKey {
        id,
        directory: Uuid::from_u128(id.unsigned_abs().into()),
    }
}

fn end(epoch: i32, offset: i64) -> EpochEnd {
    EpochEnd { epoch, offset }
}

fn asks() -> Vec<Ask> {
    vec![
        Ask::Vote {
            voter: Some(key(3)),
            last: end(4, 50),
            pre_vote: true,
        },
        Ask::BeginQuorumEpoch,
        Ask::EndQuorumEpoch {
            preferred_successors: vec![3, 1],
        },
        Ask::Fetch {
            from: end(4, 50),
            high_watermark: 40,
            wait_ms: 300,
        },
        Ask::FetchSnapshot { id: end(4, 50) },
    ]
}

fn request(ask: Ask) -> Request {
    Request {
        cluster_id: sender().cluster_key,
        topic_id: TOPIC,
        epoch: 5,
        sender: key(7),
        ask,
    }
}

/// Decode a message by its schema, and encode it again.
fn by_schema(api: Api, direction: Direction, body: &[u8]) -> Vec<u8> {
    let message = Registry::InterBroker.message(api.key, direction);
    let message = message.expect("a message");
    let value = decode_value(message, api.version, body, ELEMENTS_MAX_TRUSTED);
    let value = value.expect("a version").expect("the layout");
    encode_value(message, api.version, &value).expect("encoded")
}

#[test]
fn requests_have_the_layout_and_come_back() {
    for ask in asks() {
        let api = api_of(&ask);
        let sent = request(ask);
        let body = encode_request(&sent, &sender(), 17);
        assert_eq!(by_schema(api, Direction::Request, &body), body, "{api:?}");
        let came = decode_request(api, &body, &sender()).expect("decoded");
        assert_eq!(came.request, sent);
        let addressed = matches!(api.key, BEGIN_QUORUM_EPOCH | END_QUORUM_EPOCH);
        assert_eq!(came.endpoints.len(), usize::from(addressed));
        if let Ask::FetchSnapshot { id } = sent.ask {
            assert_eq!((came.reply.snapshot, came.reply.position), (id, 17));
        }
        for cut in 0..body.len() {
            let cut = decode_request(api, &body[..cut], &sender());
            assert!(cut.is_err(), "{api:?}");
        }
    }
}

#[test]
fn requests_of_another_cluster_are_told() {
    for ask in asks() {
        let api = api_of(&ask);
        let body = encode_request(&request(ask), &sender(), 0);
        let other = Sender {
            cluster_id: "another".into(),
            ..sender()
        };
        let came = decode_request(api, &body, &other).expect("decoded");
        assert_ne!(came.request.cluster_id, other.cluster_key);
    }
}

fn reply_to(api: Api) -> ReplyTo {
    ReplyTo {
        api,
        topic_id: TOPIC,
        bytes_max: 1000,
        snapshot: end(4, 50),
        position: 30,
    }
}

fn response(error: Error, answer: Answer<Bytes>) -> Response<Bytes> {
    Response {
        error,
        epoch: 5,
        leader: Some(3),
        answer,
    }
}

fn fetched(fetched: FetchResult<Bytes>) -> Answer<Bytes> {
    Answer::Fetch {
        high_watermark: 40,
        fetched,
    }
}

#[test]
fn responses_have_the_layout_and_come_back() {
    let records = encode_records([&b"one"[..], b"two"], 5, 4).expect("records");
    let batches = decode_batches(&records).expect("a batch");
    let answers = [
        (0, Answer::Vote { granted: true }, Bytes::new()),
        (1, Answer::Empty, Bytes::new()),
        (2, Answer::Empty, Bytes::new()),
        (3, fetched(FetchResult::Batches(batches)), records.clone()),
        (3, fetched(FetchResult::Diverging(end(3, 20))), Bytes::new()),
        (3, fetched(FetchResult::Snapshot(end(3, 20))), Bytes::new()),
        (4, Answer::Empty, records),
    ];
    for (ask, answer, bytes) in answers {
        let api = api_of(&asks()[ask]);
        let sent = response(Error::None, answer);
        let payload = Payload { bytes, size: 1234 };
        let addresses = [endpoint(3, "")];
        let body = encode_response(&sent, &reply_to(api), &payload, &addresses);
        assert_eq!(by_schema(api, Direction::Response, &body), body, "{api:?}");
        let came = decode_response(api, &body).expect("decoded");
        assert_eq!((came.response, came.endpoints), (sent, addresses.to_vec()));
        let part = came
            .part
            .map(|part| (part.id, part.size, part.position, part.bytes));
        let expected = (end(4, 50), 1234, 30, payload.bytes);
        assert_eq!(part, (ask == 4).then_some(expected));
    }
}

#[test]
fn errors_come_back() {
    for ask in asks() {
        let api = api_of(&ask);
        for error in [
            Error::InconsistentClusterId,
            Error::UnknownTopicId,
            Error::InvalidVoterKey,
            Error::FencedLeaderEpoch,
            Error::UnknownLeaderEpoch,
            Error::NotLeader,
            Error::SnapshotNotFound,
        ] {
            let sent = response(error, Answer::Empty);
            let body = encode_response(&sent, &reply_to(api), &Payload::default(), &[]);
            assert_eq!(by_schema(api, Direction::Response, &body), body, "{api:?}");
            let came = decode_response(api, &body).expect("decoded");
            assert_eq!(came.response.error, error);
        }
    }
}

/// These versions follow the KIP-516 text and have no directory ids.
#[test]
fn version_0_is_read_and_answered() {
    for key in [VOTE, BEGIN_QUORUM_EPOCH, END_QUORUM_EPOCH] {
        let api = Api { key, version: 0 };
        let message = Registry::InterBroker
            .message(key, Direction::Request)
            .expect("a message");
        let newer = Api { key, version: 1 };
        let ask = asks()
            .into_iter()
            .find(|ask| api_of(ask) == newer)
            .expect("an ask");
        let body = encode_request(&request(ask.clone()), &sender(), 0);
        let value = decode_value(message, 1, &body, ELEMENTS_MAX_TRUSTED);
        let value = value.expect("a version").expect("the layout");
        let older =
            encode_value(message, 0, &without_newer_fields(message, value)).expect("encoded");
        let came = decode_request(api, &older, &sender())
            .expect("decoded")
            .request;
        assert_eq!((came.topic_id, came.epoch, came.sender.id), (TOPIC, 5, 7));
        match (ask, came.ask) {
            (Ask::Vote { last, .. }, came) => {
                let expected = Ask::Vote {
                    voter: None,
                    last,
                    pre_vote: false,
                };
                assert_eq!(came, expected);
            }
            (ask, came) => assert_eq!(ask, came),
        }
        let sent = response(Error::None, Answer::Empty);
        let body = encode_response(
            &sent,
            &reply_to(api),
            &Payload::default(),
            &[endpoint(3, "")],
        );
        assert_eq!(by_schema(api, Direction::Response, &body), body);
        assert_eq!(
            decode_response(api, &body).expect("decoded").response.epoch,
            5
        );
    }
}

/// Set the fields that version 0 lacks to their defaults.
fn without_newer_fields(
    message: &pybroker_protocol::codec::Message,
    value: pybroker_protocol::codec::Value,
) -> pybroker_protocol::codec::Value {
    use pybroker_protocol::codec::{FieldType, Value};
    fn strip(message: &pybroker_protocol::codec::Message, class: usize, value: Value) -> Value {
        let Value::Struct(fields) = value else {
            return value;
        };
        let fields = fields.into_iter().enumerate().map(|(place, value)| {
            let field = &message.classes[class].fields[place];
            if !field.versions.contains(0) {
                return Value::default_of(message, class, place);
            }
            match (&field.kind, value) {
                (FieldType::Array(inner), Value::Array(values)) => match **inner {
                    FieldType::Struct(inner) => Value::Array(
                        values
                            .into_iter()
                            .map(|value| strip(message, inner, value))
                            .collect(),
                    ),
                    _ => Value::Array(values),
                },
                (_, value) => value,
            }
        });
        Value::Struct(fields.collect())
    }
    strip(message, 0, value)
}
