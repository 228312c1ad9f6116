//! The typed codecs of hot messages against the interpreter: the same bytes, and the same opinion on every mutant.

use rand::SeedableRng;
use rand::rngs::StdRng;

use super::mutation::mutate;
use super::random::random_value;
use super::*;
use crate::hot::api_versions::{ApiVersionsRequest, ApiVersionsResponse};
use crate::hot::fetch_request::FetchRequest;
use crate::hot::fetch_response::FetchResponse;
use crate::hot::list_offsets::{ListOffsetsRequest, ListOffsetsResponse};
use crate::hot::metadata::{MetadataRequest, MetadataResponse};
use crate::hot::offset_for_leader_epoch::{
    OffsetForLeaderEpochRequest, OffsetForLeaderEpochResponse,
};
use crate::hot::produce_request::ProduceRequest;
use crate::hot::produce_response::ProduceResponse;
use crate::primitives::{DecodeError, ELEMENTS_MAX};

/// Reads a body with the typed codec and writes it again.
type Typed = fn(&[u8], i16, &mut Vec<u8>) -> Result<(), DecodeError>;

/// What the interpreter wrote comes back from the typed codec byte for byte, and both have the same opinion on mutants.
fn agrees(name: &str, versions: std::ops::RangeInclusive<i16>, typed: Typed) {
    let same_opinion = |message: &Message, version: i16, body: &[u8], rng: &mut StdRng| {
        for _ in 0..10 {
            let mut mutant = body.to_vec();
            mutate(&mut mutant, rng);
            let checked = check(message.layout(version).unwrap(), &mutant, ELEMENTS_MAX);
            let read = typed(&mutant, version, &mut Vec::new());
            assert_eq!(
                read.is_ok(),
                checked.is_ok(),
                "{name} v{version} {mutant:02x?}: {read:?} {checked:?}"
            );
        }
    };
    same_bytes(name, versions, typed, |_, _| {}, same_opinion);
}

/// `settle` takes out of a random message what the typed form does not carry; `then` gets every body.
fn same_bytes(
    name: &str,
    versions: std::ops::RangeInclusive<i16>,
    typed: Typed,
    settle: fn(&Message, &mut Value),
    then: impl Fn(&Message, i16, &[u8], &mut StdRng),
) {
    let message = client(name);
    let mut rng = StdRng::seed_from_u64(6);
    for version in versions {
        for _ in 0..200 {
            let mut value = random_value(message, message.layout(version).unwrap(), &mut rng);
            settle(message, &mut value);
            let body = encode_value(message, version, &value).unwrap();
            let mut again = Vec::new();
            let read = typed(&body, version, &mut again);
            assert_eq!(read, Ok(()), "{name} v{version} {value:?}");
            assert_eq!(again, body, "{name} v{version} {value:?}");
            then(message, version, &body, &mut rng);
        }
    }
}

#[test]
fn produce_request() {
    let typed: Typed = |body, version, out| {
        let mut request = ProduceRequest::default();
        request.decode(body, version)?;
        request.encode(body, version, out);
        Ok(())
    };
    agrees("ProduceRequest", 3..=13, typed);
}

#[test]
fn produce_response() {
    let typed: Typed = |body, version, out| {
        ProduceResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("ProduceResponse", 3..=13, typed);
}

#[test]
fn fetch_request() {
    let typed: Typed = |body, version, out| {
        let mut request = FetchRequest::default();
        request.decode(body, version)?;
        request.encode(body, version, out);
        Ok(())
    };
    agrees("FetchRequest", 4..=18, typed);
}

#[test]
fn fetch_response() {
    let typed: Typed = |body, version, out| {
        FetchResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    agrees("FetchResponse", 4..=18, typed);
}

#[test]
fn list_offsets() {
    agrees("ListOffsetsRequest", 0..=11, |body, version, out| {
        ListOffsetsRequest::decode(body, version)?.encode(version, out);
        Ok(())
    });
    agrees("ListOffsetsResponse", 0..=11, |body, version, out| {
        ListOffsetsResponse::decode(body, version)?.encode(version, out);
        Ok(())
    });
}

#[test]
fn metadata() {
    agrees("MetadataRequest", 0..=13, |body, version, out| {
        MetadataRequest::decode(body, version)?.encode(version, out);
        Ok(())
    });
    agrees("MetadataResponse", 0..=13, |body, version, out| {
        MetadataResponse::decode(body, version)?.encode(version, out);
        Ok(())
    });
}

#[test]
fn offset_for_leader_epoch() {
    agrees(
        "OffsetForLeaderEpochRequest",
        0..=4,
        |body, version, out| {
            OffsetForLeaderEpochRequest::decode(body, version)?.encode(version, out);
            Ok(())
        },
    );
    agrees(
        "OffsetForLeaderEpochResponse",
        0..=4,
        |body, version, out| {
            OffsetForLeaderEpochResponse::decode(body, version)?.encode(version, out);
            Ok(())
        },
    );
}

#[test]
fn api_versions() {
    agrees("ApiVersionsRequest", 0..=5, |body, version, out| {
        ApiVersionsRequest::decode(body, version)?.encode(version, out);
        Ok(())
    });
    // The typed response skips the features, whatever they are, and writes none: all tagged, so absent by default.
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
    let typed: Typed = |body, version, out| {
        ApiVersionsResponse::decode(body, version)?.encode(version, out);
        Ok(())
    };
    same_bytes(
        "ApiVersionsResponse",
        0..=5,
        typed,
        without_features,
        |_, _, _, _| {},
    );
}
