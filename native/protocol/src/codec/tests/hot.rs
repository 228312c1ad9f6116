//! Comparison of the hand-written codecs of frequent messages with the interpreter. Both must produce the same bytes,
//! and accept or reject the same mutated messages.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::mutation::mutate;
use super::random::random_value;
use super::*;
use crate::hot::WireVersion;
use crate::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::hot::fetch_request::FetchRequest;
use crate::hot::fetch_response::FetchResponse;
use crate::hot::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use crate::hot::metadata::{MetadataRequest, MetadataResponse};
use crate::hot::offset_commit::OffsetCommitRequest;
use crate::hot::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use crate::hot::produce_request::ProduceRequest;
use crate::hot::produce_response::ProduceResponse;
use crate::primitives::{DecodeError, ELEMENTS_MAX, Writer};

/// A function that decodes a body with the hand-written codec and encodes it again.
type TypedRecoder = fn(&[u8], WireVersion, &mut Vec<u8>) -> Result<(), DecodeError>;

/// Check that the hand-written codec reproduces the interpreter's bytes, and that both agree on mutated messages.
fn agrees(name: &str, versions: std::ops::RangeInclusive<i16>, typed: TypedRecoder) {
    agrees_in(Registry::Client, name, versions, typed, |_, _| {});
}

/// Like `agrees`, for the versions that brokers use among themselves.
fn agrees_among_brokers(name: &str, versions: std::ops::RangeInclusive<i16>, typed: TypedRecoder) {
    agrees_in(Registry::InterBroker, name, versions, typed, |_, _| {});
}

fn agrees_in(
    registry: Registry,
    name: &str,
    versions: std::ops::RangeInclusive<i16>,
    typed: TypedRecoder,
    settle: fn(&Message, &mut Value),
) {
    let same_opinion = |message: &Message, version: WireVersion, body: &[u8], rng: &mut StdRng| {
        for _ in 0..10 {
            let mut mutant = body.to_vec();
            mutate(&mut mutant, rng);
            let layout = message.layout(version.number).unwrap();
            let checked = check(layout, &mutant, ELEMENTS_MAX);
            let read = typed(&mutant, version, &mut Vec::new());
            if read == Err(DecodeError::NotUtf8) {
                // Only the interpreter replaces invalid text, so compare the typed result with the decoded form of its
                // output.
                let value = decode_value(message, version.number, &mutant, ELEMENTS_MAX);
                if let Some(Ok(value)) = value {
                    let mended = encode_value(message, version.number, &value).unwrap();
                    assert_eq!(typed(&mended, version, &mut Vec::new()), Ok(()), "{name}");
                }
                continue;
            }
            assert_eq!(
                read.is_ok(),
                checked.is_ok(),
                "{name} {version:?} {mutant:02x?}: {read:?} {checked:?}"
            );
        }
    };
    let message = registry.named(name).unwrap();
    let versions = versions.map(|number| WireVersion { registry, number });
    same_bytes(message, versions, typed, settle, same_opinion);
}

/// Compare the codecs on random messages. `settle` removes the parts of a message that the hand-written codec does not
/// support. `then` is called with every body.
fn same_bytes(
    message: &Message,
    versions: impl Iterator<Item = WireVersion>,
    typed: TypedRecoder,
    settle: fn(&Message, &mut Value),
    then: impl Fn(&Message, WireVersion, &[u8], &mut StdRng),
) {
    let name = message.name();
    let mut rng = StdRng::seed_from_u64(6);
    for version in versions {
        let number = version.number;
        for _ in 0..200 {
            let mut value = random_value(message, message.layout(number).unwrap(), &mut rng);
            settle(message, &mut value);
            let body = encode_value(message, number, &value).unwrap();
            let mut again = Vec::new();
            let read = typed(&body, version, &mut again);
            assert_eq!(read, Ok(()), "{name} {version:?} {value:?}");
            assert_eq!(again, body, "{name} {version:?} {value:?}");
            then(message, version, &body, &mut rng);
        }
    }
}

#[test]
fn produce_request() {
    let typed: TypedRecoder = |body, version, out| {
        let mut request = ProduceRequest::default();
        request.decode(body, version)?;
        request.encode(body, version, out);
        Ok(())
    };
    agrees("ProduceRequest", 3..=13, typed);
    agrees_among_brokers("ProduceRequest", 9..=9, typed);
}

#[test]
fn produce_response() {
    let typed: TypedRecoder = |body, version, out| {
        ProduceResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("ProduceResponse", 3..=13, typed);
    agrees_among_brokers("ProduceResponse", 9..=9, typed);
}

#[test]
fn fetch_request() {
    let typed: TypedRecoder = |body, version, out| {
        let mut request = FetchRequest::default();
        // The version of the KIP-516 text has the same layout as the released version of that number.
        request.decode(body, version.number)?;
        request.encode(body, version.number, out);
        Ok(())
    };
    agrees("FetchRequest", 4..=18, typed);
    // Reset the version of the offsets that all brokers have applied, because only Python encodes this field.
    agrees_in(
        Registry::InterBroker,
        "FetchRequest",
        12..=13,
        typed,
        |_, value| set_last(value, [Value::Int(-1)]),
    );
}

#[test]
fn fetch_response() {
    let typed: TypedRecoder = |body, version, out| {
        FetchResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("FetchResponse", 4..=18, typed);
    // Reset the offsets that all brokers have applied, because only Python encodes these fields.
    agrees_in(
        Registry::InterBroker,
        "FetchResponse",
        12..=13,
        typed,
        |_, value| set_last(value, [Value::Int(-1), Value::Array(Vec::new())]),
    );
}

/// Replace the last fields of a message.
fn set_last<const N: usize>(value: &mut Value, last: [Value; N]) {
    if let Value::Struct(fields) = value {
        fields.truncate(fields.len() - N);
        fields.extend(last);
    }
}

#[test]
fn list_offsets() {
    let request: TypedRecoder = |body, version, out| {
        ListOffsetsRequest::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("ListOffsetsRequest", 0..=11, request);
    agrees_among_brokers("ListOffsetsRequest", 5..=6, request);
    let response: TypedRecoder = |body, version, out| {
        ListOffsetsResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("ListOffsetsResponse", 0..=11, response);
    agrees_among_brokers("ListOffsetsResponse", 5..=6, response);
}

#[test]
fn offset_commit() {
    agrees("OffsetCommitRequest", 5..=10, |body, version, out| {
        OffsetCommitRequest::decode(body, version.number)?.encode(version.number, out);
        Ok(())
    });
}

#[test]
fn the_answer_to_an_offset_commit_that_succeeded() {
    let (request, response) = (
        client("OffsetCommitRequest"),
        client("OffsetCommitResponse"),
    );
    let mut rng = StdRng::seed_from_u64(8);
    for version in 5..=10 {
        for _ in 0..100 {
            let asked = random_value(request, request.layout(version).unwrap(), &mut rng);
            let asked = encode_value(request, version, &asked).unwrap();
            let asked = OffsetCommitRequest::decode(&asked, version).unwrap();
            let mut body = vec![0xaa];
            let places = asked.encode_success(version, 7, &mut body);
            let mut body = body.split_off(1);
            let count: usize = asked
                .topics
                .iter()
                .map(|topic| topic.partitions.len())
                .sum();
            assert_eq!(places.len(), count);
            for &place in &places {
                Writer::new(&mut body, false).patch_i16(place, 15);
            }
            // The fields are in the order of their schema.
            let topics = asked.topics.iter().map(|topic| {
                let partitions = topic.partitions.iter().map(|partition| {
                    let index = i64::from(partition.partition_index);
                    Value::Struct(vec![Value::Int(index), Value::Int(15)])
                });
                Value::Struct(vec![
                    Value::String(topic.name.to_owned()),
                    Value::Uuid(topic.topic_id),
                    Value::Array(partitions.collect()),
                ])
            });
            let expected = Value::Struct(vec![Value::Int(7), Value::Array(topics.collect())]);
            assert_eq!(body, encode_value(response, version, &expected).unwrap());
        }
    }
}

#[test]
fn metadata() {
    agrees("MetadataRequest", 0..=13, |body, version, out| {
        MetadataRequest::decode(body, version.number)?.encode(version.number, out);
        Ok(())
    });
    agrees("MetadataResponse", 0..=13, |body, version, out| {
        MetadataResponse::decode(body, version.number)?.encode(version.number, out);
        Ok(())
    });
}

#[test]
fn offset_for_leader_epoch() {
    let request: TypedRecoder = |body, version, out| {
        OffsetForLeaderEpochRequest::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("OffsetForLeaderEpochRequest", 0..=4, request);
    agrees_among_brokers("OffsetForLeaderEpochRequest", 3..=4, request);
    let response: TypedRecoder = |body, version, out| {
        OffsetForLeaderEpochResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("OffsetForLeaderEpochResponse", 0..=4, response);
    agrees_among_brokers("OffsetForLeaderEpochResponse", 3..=4, response);
}

#[test]
fn api_versions() {
    agrees("ApiVersionsRequest", 0..=5, |body, version, out| {
        ApiVersionsRequest::decode(body, version.number)?.encode(version.number, out);
        Ok(())
    });
    // The typed response ignores all features and writes none. They are tagged fields, so they are absent by default.
    let without_features = |message: &Message, value: &mut Value| {
        let Value::Struct(fields) = value else {
            unreachable!("a message is a struct")
        };
        for (place, field) in message.classes[0].fields.iter().enumerate() {
            if field.tag.is_some() {
                fields[place] = Value::default_of(message, 0, place);
            }
        }
    };
    let typed: TypedRecoder = |body, version, out| {
        ApiVersionsResponse::decode(body, version.number)?.encode(version.number, out);
        Ok(())
    };
    same_bytes(
        client("ApiVersionsResponse"),
        (0..=5).map(WireVersion::from),
        typed,
        without_features,
        |_, _, _, _| {},
    );
}
