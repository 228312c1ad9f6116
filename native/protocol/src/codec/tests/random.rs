//! Random messages of any version. Every run produces the same messages.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::schemas::{messages, versions};
use super::*;
use crate::primitives::ELEMENTS_MAX;
use pybroker_model::Uuid;

/// Return a message that `version` can encode without loss: fields that it does not have keep their defaults.
pub(crate) fn random_value(message: &Message, layout: &Layout, rng: &mut StdRng) -> Value {
    let fields = layout.slots.iter().enumerate().map(|(place, slot)| {
        let left_out = slot.presence == Presence::Tagged && rng.random_bool(0.5);
        if slot.presence == Presence::Absent || left_out {
            Value::default_of(message, layout.class, place)
        } else {
            random_field(message, &slot.kind, rng)
        }
    });
    Value::Struct(fields.collect())
}

fn random_field(message: &Message, kind: &Kind, rng: &mut StdRng) -> Value {
    let mut integer = |extreme: [i64; 2]| {
        Value::Int(match rng.random_range(0..8) {
            0 => extreme[0],
            1 => extreme[1],
            2 => extreme[0].max(-1),
            _ => rng.random_range(0..100),
        })
    };
    match kind {
        Kind::Bool => Value::Bool(rng.random()),
        Kind::Int8 => integer([i8::MIN.into(), i8::MAX.into()]),
        Kind::Int16 => integer([i16::MIN.into(), i16::MAX.into()]),
        Kind::Uint16 => integer([0, u16::MAX.into()]),
        Kind::Int32 => integer([i32::MIN.into(), i32::MAX.into()]),
        Kind::Int64 => integer([i64::MIN, i64::MAX]),
        Kind::Float64 => Value::Float(rng.random_range(-1e9..1e9)),
        Kind::Uuid => Value::Uuid(Uuid::from_u128(rng.random())),
        Kind::String { nullable: true, .. }
        | Kind::Bytes { nullable: true, .. }
        | Kind::Array { nullable: true, .. }
        | Kind::Struct { nullable: true, .. }
            if rng.random_bool(0.2) =>
        {
            Value::Null
        }
        Kind::String { .. } => {
            let length = [0, 1, 5, 130][rng.random_range(0..4)];
            Value::String(
                (0..length)
                    .map(|_| ['a', 'é', '漢', '😀', '-'][rng.random_range(0..5)])
                    .collect(),
            )
        }
        Kind::Bytes { .. } => {
            let mut bytes = vec![0; [0, 1, 9, 200][rng.random_range(0..4)]];
            rng.fill(&mut bytes[..]);
            Value::Bytes(bytes)
        }
        Kind::Array { element, .. } => {
            let count = rng.random_range(0..4);
            Value::Array(
                (0..count)
                    .map(|_| random_field(message, element, rng))
                    .collect(),
            )
        }
        Kind::Struct { layout, .. } => random_value(message, layout, rng),
    }
}

/// Call a function with random bodies of every version of every message: message, version, layout, value, bytes.
pub(crate) fn random_bodies(
    seed: u64,
    each: usize,
    mut visit: impl FnMut(&'static Message, i16, &'static Layout, Value, Vec<u8>),
) {
    let mut rng = StdRng::seed_from_u64(seed);
    for message in messages() {
        for (version, layout) in versions(message) {
            for _ in 0..each {
                let value = random_value(message, layout, &mut rng);
                let body = encode_value(message, version, &value)
                    .unwrap_or_else(|error| panic!("v{version}: {error}"));
                visit(message, version, layout, value, body);
            }
        }
    }
}

#[test]
fn what_is_written_is_read_back_the_same() {
    random_bodies(1, 20, |message, version, layout, value, body| {
        let name = message.name();
        assert_eq!(
            check(layout, &body, ELEMENTS_MAX),
            Ok(()),
            "{name} v{version}"
        );
        let read = decode_value(message, version, &body, ELEMENTS_MAX).unwrap();
        assert_eq!(read, Ok(value), "{name} v{version}");
    });
}

#[test]
fn no_message_is_shorter_than_its_least_size() {
    random_bodies(2, 3, |message, version, layout, _, body| {
        assert!(
            body.len() >= layout.min_bytes,
            "{} v{version}",
            message.name()
        );
    });
}
