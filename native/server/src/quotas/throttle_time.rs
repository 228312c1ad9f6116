//! Position of the throttle time in encoded responses.

use pybroker_protocol::codec::{Direction, Kind, Presence, Registry};

const FIELD: &str = "throttle_time_ms";
const BYTES: usize = 4;

/// Raise the throttle time in the response to at least `wait_ms`. Some versions lack the field; the broker mutes the
/// connection in any case.
pub(crate) fn raise(api_key: i16, version: i16, body: &mut [u8], wait_ms: i32) {
    let Some(start) = place(api_key, version, body.len()) else {
        return;
    };
    if let Some(field) = body
        .get_mut(start..)
        .and_then(|rest| rest.first_chunk_mut::<BYTES>())
    {
        *field = i32::from_be_bytes(*field).max(wait_ms).to_be_bytes();
    }
}

/// Return the position: after fields of fixed sizes, or at the end of the body. Responses have the field at no other
/// place.
fn place(api_key: i16, version: i16, body_bytes: usize) -> Option<usize> {
    let message = Registry::Client.message(api_key, Direction::Response)?;
    let layout = message.layout(version)?;
    let fields = &message.classes[layout.class].fields;
    let mut inline = fields
        .iter()
        .zip(&layout.slots)
        .filter(|(_, slot)| slot.presence == Presence::Inline);
    let mut before = Some(0);
    loop {
        let (field, slot) = inline.next()?;
        if field.name == FIELD {
            break;
        }
        before = before
            .zip(fixed_bytes(&slot.kind))
            .map(|(sum, one)| sum + one);
    }
    if before.is_some() {
        return before;
    }
    // The field is the last one, before an empty tag section.
    let is_last = inline.next().is_none() && layout.tagged.is_empty();
    body_bytes
        .checked_sub(BYTES + usize::from(layout.flexible))
        .filter(|_| is_last)
}

fn fixed_bytes(kind: &Kind) -> Option<usize> {
    match kind {
        Kind::String { .. } | Kind::Bytes { .. } | Kind::Array { .. } | Kind::Struct { .. } => None,
        fixed => Some(fixed.min_bytes()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use pybroker_protocol::api_key::APIS;
    use pybroker_protocol::codec::{Value, decode_value, encode_value};
    use pybroker_protocol::{ApiKey, Plane};

    /// Return whether the handler writes the throttle time itself, or the field is a tag (our own APIs).
    fn is_native(key: ApiKey) -> bool {
        matches!(
            key,
            ApiKey::Produce | ApiKey::ApiVersions | ApiKey::ListTopics
        )
    }

    #[test]
    fn every_answer_that_can_tell_it_does() {
        let mut told = 0;
        for api in APIS.iter().filter(|api| api.served && !is_native(api.key)) {
            let key = api.key.code();
            let Some(message) = Registry::Client.message(key, Direction::Response) else {
                continue;
            };
            for version in api.min_version..=api.max_version {
                let layout = message.layout(version).expect("served");
                let class = &message.classes[layout.class];
                let Some(index) = class.fields.iter().position(|field| field.name == FIELD) else {
                    continue;
                };
                let defaults = Value::default_struct(message, 0);
                let mut body = encode_value(message, version, &defaults).expect("defaults");
                raise(key, version, &mut body, 77);
                raise(key, version, &mut body, 5);
                let read = decode_value(message, version, &body, 100).expect("a version");
                let value = read.expect("still whole");
                let expected = if layout.slots[index].presence == Presence::Absent {
                    0
                } else {
                    told += 1;
                    77
                };
                let found = value.get(message, 0, FIELD);
                let expected = Value::Int(expected);
                assert_eq!(found, Some(&expected), "{} v{version}", api.name());
            }
        }
        assert!(told > 100, "{told}");
        assert!(APIS.iter().any(|api| api.plane == Plane::Python));
    }

    #[test]
    fn a_body_that_is_too_short_is_left_alone() {
        let mut body = [1, 2];
        raise(ApiKey::CreateTopics.code(), 5, &mut body, 77);
        assert_eq!(body, [1, 2]);
    }
}
