//! Mutated messages: decoding returns a result and never panics, and `check` agrees with `decode`.

use rand::rngs::StdRng;
use rand::{Rng, SeedableRng};

use super::random::random_bodies;
use super::*;
use crate::primitives::ELEMENTS_MAX;

pub(super) fn mutate(body: &mut Vec<u8>, rng: &mut StdRng) {
    for _ in 0..rng.random_range(1..4) {
        let place = rng.random_range(0..=body.len());
        match rng.random_range(0..6) {
            0 => body.truncate(place),
            1 => body.insert(place, rng.random()),
            2 if place < body.len() => body[place] = rng.random(),
            3 if place < body.len() => body[place] ^= 1 << rng.random_range(0..8),
            4 => {
                // Overwrite four bytes with a hostile length.
                let end = (place + 4).min(body.len());
                body[place..end].fill([0x7f, 0xff, 0x80][rng.random_range(0..3)]);
            }
            _ => {
                let end = (place + rng.random_range(0..9)).min(body.len());
                let copy = body[place..end].to_vec();
                body.extend(copy);
            }
        }
    }
}

#[test]
fn mutants_of_every_message_are_answered_and_check_agrees_with_decode() {
    let mut rng = StdRng::seed_from_u64(3);
    let mut accepted = 0;
    random_bodies(4, 2, |message, version, layout, _, body| {
        for _ in 0..40 {
            let mut mutant = body.clone();
            mutate(&mut mutant, &mut rng);
            let checked = check(layout, &mutant, ELEMENTS_MAX);
            let decoded = decode_value(message, version, &mutant, ELEMENTS_MAX).unwrap();
            assert_eq!(
                checked,
                decoded.as_ref().map(|_| ()).map_err(|error| *error)
            );
            if let Ok(value) = decoded {
                accepted += 1;
                // A message that was accepted can be encoded again, and decodes to an equal value.
                let again = encode_value(message, version, &value).unwrap();
                let read = decode_value(message, version, &again, ELEMENTS_MAX).unwrap();
                // NaN is not equal to itself, so equal bytes count as success, too.
                assert!(
                    read == Ok(value) || again == mutant || has_nan(&again, message),
                    "{}",
                    message.name()
                );
            }
        }
    });
    assert!(
        accepted > 100,
        "mutants that are still messages must be among them"
    );
}

fn has_nan(_: &[u8], message: &Message) -> bool {
    message
        .classes
        .iter()
        .flat_map(|class| &class.fields)
        .any(|field| field.kind == FieldType::Float64)
}
