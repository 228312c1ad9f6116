//! One test for each rule about bytes from outside.

use super::*;
use crate::primitives::{DecodeError, ELEMENTS_MAX};

fn refused(name: &str, version: i16, body: &[u8]) -> DecodeError {
    let message = client(name);
    let layout = message.layout(version).unwrap();
    let error = check(layout, body, ELEMENTS_MAX).expect_err("must be refused");
    assert_eq!(
        decode_value(message, version, body, ELEMENTS_MAX),
        Some(Err(error)),
        "decode agrees with check"
    );
    error
}

fn accepted(name: &str, version: i16, body: &[u8]) -> Value {
    decode_value(client(name), version, body, ELEMENTS_MAX)
        .unwrap()
        .unwrap()
}

#[test]
fn a_count_beyond_the_bytes_that_remain_is_refused() {
    // Metadata v1 that claims 0x7fffffff topics, and v9 with the five bytes that crash other codecs.
    assert_eq!(
        refused("MetadataRequest", 1, &[0x7f, 0xff, 0xff, 0xff]),
        DecodeError::CountTooLarge
    );
    assert_eq!(
        refused("MetadataRequest", 9, &[0xff, 0xff, 0xff, 0xff, 0x07]),
        DecodeError::CountTooLarge
    );
    // Two topics need at least two bytes each, but only three bytes follow.
    assert_eq!(
        refused("MetadataRequest", 1, &[0, 0, 0, 2, 0, 0, 0]),
        DecodeError::CountTooLarge
    );
}

#[test]
fn elements_are_budgeted_over_all_arrays_of_a_message() {
    // DeleteTopics v1 with four empty names and a timeout.
    let body = [0, 0, 0, 4, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 1];
    let layout = client("DeleteTopicsRequest").layout(1).unwrap();
    assert_eq!(check(layout, &body, 4), Ok(()));
    assert_eq!(check(layout, &body, 3), Err(DecodeError::TooManyElements));
    // OffsetFetch v1 with one topic and three partitions, which are four elements.
    let body = [
        0, 1, b'g', 0, 0, 0, 1, 0, 1, b't', 0, 0, 0, 3, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0, 0, 2,
    ];
    let layout = client("OffsetFetchRequest").layout(1).unwrap();
    assert_eq!(check(layout, &body, 4), Ok(()));
    assert_eq!(check(layout, &body, 3), Err(DecodeError::TooManyElements));
}

#[test]
fn a_varint_has_at_most_five_bytes_and_32_bits() {
    assert_eq!(
        refused("MetadataRequest", 9, &[0x80, 0x80, 0x80, 0x80, 0x10]),
        DecodeError::VarintTooLong
    );
    assert_eq!(
        refused("MetadataRequest", 9, &[0x80, 0x80, 0x80, 0x80, 0x80, 0]),
        DecodeError::VarintTooLong
    );
}

#[test]
fn tags_ascend_strictly() {
    let tags = |tags: &[u8]| [&[1, 1][..], tags].concat();
    // ApiVersions v3 with two empty strings, then tagged fields.
    accepted("ApiVersionsRequest", 3, &tags(&[2, 5, 0, 7, 0]));
    assert_eq!(
        refused("ApiVersionsRequest", 3, &tags(&[2, 7, 0, 5, 0])),
        DecodeError::TagsOutOfOrder
    );
    assert_eq!(
        refused("ApiVersionsRequest", 3, &tags(&[2, 5, 0, 5, 0])),
        DecodeError::TagsOutOfOrder
    );
}

#[test]
fn unknown_tags_are_skipped() {
    let message = client("ApiVersionsRequest");
    let value = accepted("ApiVersionsRequest", 3, &[2, b'x', 1, 1, 99, 3, 1, 2, 3]);
    assert_eq!(
        value.get(message, 0, "client_software_name"),
        Some(&Value::String("x".into()))
    );
    // The tagged field ends beyond the message.
    assert_eq!(
        refused("ApiVersionsRequest", 3, &[2, b'x', 1, 1, 99, 3, 1, 2]),
        DecodeError::Truncated
    );
}

#[test]
fn a_tagged_field_uses_exactly_its_size() {
    // Fetch v12 up to the tagged fields: no topics, an empty rack.
    let before = [&[0; 12][..], &[0; 4], &[0], &[0; 8], &[1, 1, 1]].concat();
    let body = |tags: &[u8]| [&before[..], tags].concat();
    let value = accepted("FetchRequest", 12, &body(&[1, 0, 2, 2, b'c']));
    assert_eq!(
        value.get(client("FetchRequest"), 0, "cluster_id"),
        Some(&Value::String("c".into()))
    );
    assert_eq!(
        refused("FetchRequest", 12, &body(&[1, 0, 3, 2, b'c', 0])),
        DecodeError::TagSizeMismatch
    );
    // The stated size is less than the value needs. The value must not extend beyond its size.
    assert_eq!(
        refused("FetchRequest", 12, &body(&[1, 0, 1, 2, b'c'])),
        DecodeError::Truncated
    );
}

#[test]
fn null_only_where_the_version_allows_it() {
    assert_eq!(
        accepted("MetadataRequest", 1, &[0xff; 4]).get(client("MetadataRequest"), 0, "topics"),
        Some(&Value::Null)
    );
    assert_eq!(
        refused("MetadataRequest", 0, &[0xff; 4]),
        DecodeError::UnexpectedNull
    );
    // The name of a topic may be null from version 10 on.
    assert_eq!(
        refused("MetadataRequest", 9, &[2, 0, 0, 0, 0, 0, 0]),
        DecodeError::UnexpectedNull
    );
    assert_eq!(
        refused("HeartbeatRequest", 0, &[0xff, 0xff, 0, 0, 0, 0, 0, 0]),
        DecodeError::UnexpectedNull
    );
}

#[test]
fn a_length_below_minus_one_is_refused() {
    assert_eq!(
        refused("HeartbeatRequest", 0, &[0xff, 0xfe, 0, 0, 0, 0, 0, 0]),
        DecodeError::NegativeLength
    );
    assert_eq!(
        refused("MetadataRequest", 1, &[0x80, 0, 0, 0]),
        DecodeError::NegativeLength
    );
}

#[test]
fn text_that_is_not_utf_8_is_replaced() {
    let message = Registry::Client.named("HeartbeatRequest").expect("known");
    let body = [0, 3, 0xc3, 0x28, b'x', 0, 0, 0, 0, 0, 0];
    let value = decode_value(message, 0, &body, 10).expect("a version");
    let value = value.expect("decodes");
    let group = value.get(message, 0, "group_id");
    assert_eq!(group, Some(&Value::String("\u{fffd}(x".into())));
    let mended = encode_value(message, 0, &value).expect("encodes");
    assert_eq!(mended[..7], [0, 5, 0xef, 0xbf, 0xbd, 0x28, b'x']);
    accepted("HeartbeatRequest", 0, &mended);
}

#[test]
fn bytes_left_over_refuse_the_message() {
    accepted("HeartbeatRequest", 0, &[0; 8]);
    assert_eq!(
        refused("HeartbeatRequest", 0, &[0; 9]),
        DecodeError::TrailingBytes
    );
    // Two layouts share one version number. A ListOffsets v6 by id, decoded in the layout by name, has a topic named ""
    // and bytes that remain.
    let by_id = Registry::InterBroker.named("ListOffsetsRequest").unwrap();
    let partition = Value::Struct(vec![Value::Int(0), Value::Int(1), Value::Int(-1)]);
    let topic = Value::Struct(vec![
        Value::String(String::new()),
        Value::Uuid(pybroker_model::Uuid::from_u128(0x0101 << 112)),
        Value::Array(vec![partition]),
    ]);
    let request = Value::Struct(vec![
        Value::Int(2),
        Value::Int(0),
        Value::Array(vec![topic]),
    ]);
    let body = encode_value(by_id, 6, &request).unwrap();
    assert_eq!(
        refused("ListOffsetsRequest", 6, &body),
        DecodeError::TrailingBytes
    );
}

#[test]
fn every_beginning_of_a_message_is_refused() {
    random::random_bodies(5, 1, |message, version, layout, _, body| {
        for end in 0..body.len() {
            assert!(
                check(layout, &body[..end], ELEMENTS_MAX).is_err(),
                "{} v{version}",
                message.name()
            );
        }
    });
}

#[test]
fn a_message_of_the_wrong_shape_is_not_written() {
    let message = client("HeartbeatRequest");
    let mut value = Value::default_struct(message, 0);
    let Value::Struct(fields) = &mut value else {
        unreachable!()
    };
    fields[1] = Value::Int(1 << 40);
    let error = encode_value(message, 0, &value).unwrap_err().to_string();
    assert_eq!(
        error,
        "HeartbeatRequest.generation_id: 1099511627776 does not fit int32"
    );
    fields_of(&mut value)[1] = Value::Int(1);
    fields_of(&mut value)[0] = Value::Null;
    let error = encode_value(message, 0, &value).unwrap_err().to_string();
    assert_eq!(
        error,
        "HeartbeatRequest.group_id: null is not allowed in this version"
    );
    fields_of(&mut value)[0] = Value::String("x".repeat(32768));
    assert!(
        encode_value(message, 0, &value).is_err(),
        "longer than a legacy string can be"
    );
    assert!(encode_value(message, 4, &value).is_ok());
    assert!(
        encode_value(message, 99, &value)
            .unwrap_err()
            .to_string()
            .contains("no version 99")
    );
}

fn fields_of(value: &mut Value) -> &mut Vec<Value> {
    let Value::Struct(fields) = value else {
        unreachable!("a message is a struct")
    };
    fields
}

#[test]
fn requests_are_checked_by_the_registry_of_their_listener() {
    let by_id = Registry::InterBroker.named("ListOffsetsRequest").unwrap();
    let body = encode_value(by_id, 6, &Value::default_struct(by_id, 0)).unwrap();
    assert_eq!(check_request(Registry::InterBroker, 2, 6, &body), Ok(()));
    assert_eq!(
        check_request(Registry::InterBroker, 2, 7, &body),
        Err(DecodeError::UnsupportedVersion)
    );
    assert_eq!(
        check_request(Registry::Client, 1234, 0, &body),
        Err(DecodeError::UnsupportedVersion)
    );
    assert_eq!(
        check_request(Registry::Client, 19, 7, &[0]),
        Err(DecodeError::UnexpectedNull)
    );
}
