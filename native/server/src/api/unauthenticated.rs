//! Responses to clients that do not authenticate on a SASL listener, or speak plaintext on a TLS listener; usually
//! their `security.protocol` is wrong.
//!
//! Apache Kafka closes such connections silently, and clients retry until they time out. This broker first answers the
//! request with an error at which clients stop and report: TOPIC_AUTHORIZATION_FAILED for topics in Metadata, which no
//! client retries, and SASL_AUTHENTICATION_FAILED with a message in responses that have an error code of their own or
//! one per element.
//!
//! Other requests get no answer. A Metadata request without topics, with which clients start, gets this listener's
//! advertised address, and the connection stays open for the next request. The response reveals nothing else.

use pybroker_protocol::codec::{
    Class, ClassIndex, Direction, FieldType, Message, Value, decode_value, encode_value,
};
use pybroker_protocol::hot::metadata::{
    MetadataHead, MetadataRequest, MetadataResponseWriter, OPERATIONS_OMITTED,
};
use pybroker_protocol::{ApiKey, ErrorCode};

use super::Call;
use crate::api::topic_lookup::endpoints;
use crate::config::{Registry, SecurityProtocol};
use crate::limits::UNAUTHENTICATED_ELEMENTS_MAX;
use crate::net::reply::ReplyFrame;

const CODE: ErrorCode = ErrorCode::SASL_AUTHENTICATION_FAILED;

/// Return the problem and the setting that fixes it.
const fn words(without_tls: bool, security: SecurityProtocol) -> (&'static str, &'static str) {
    let wrong = if without_tls {
        "This listener speaks TLS"
    } else {
        "This listener wants clients to log in"
    };
    let setting = match security {
        SecurityProtocol::SaslSsl => "set security.protocol=SASL_SSL",
        SecurityProtocol::Ssl => "set security.protocol=SSL",
        _ => "set security.protocol=SASL_PLAINTEXT",
    };
    (wrong, setting)
}

/// The answer to an unauthenticated client.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum UnauthenticatedReply {
    /// The response has no field for an error; nothing was written.
    Nothing,
    /// The response has the addresses of brokers, because the request names no topic to refuse.
    Brokers,
    /// The response asks the client to authenticate, or to use TLS.
    Refusal,
}

/// Answer a supported request.
pub(crate) fn answer(call: &Call<'_>, body: &[u8], out: &mut Vec<u8>) -> UnauthenticatedReply {
    if call.connection.peer.registry != Registry::Client {
        return UnauthenticatedReply::Nothing;
    }
    let start = out.len();
    let frame = ReplyFrame::begin(out, call.reply);
    let written = if call.api_key == ApiKey::Metadata.code() {
        write_metadata(call, body, out)
    } else {
        write_refusal(call, body, out)
    };
    match written {
        Some(_) => frame.end(out),
        None => out.truncate(start),
    }
    written.unwrap_or(UnauthenticatedReply::Nothing)
}

/// Refuse all named topics; a request for all topics cannot be refused.
fn write_metadata(call: &Call<'_>, body: &[u8], out: &mut Vec<u8>) -> Option<UnauthenticatedReply> {
    let request = MetadataRequest::decode(body, call.version).ok()?;
    let topics = request.topics?;
    let told = if topics.is_empty() {
        UnauthenticatedReply::Brokers
    } else {
        UnauthenticatedReply::Refusal
    };
    let view = call.shared.metadata.load();
    let id = call.shared.broker_id;
    let head = MetadataHead {
        throttle_time_ms: 0,
        cluster_id: None,
        controller_id: id,
        brokers: endpoints(&view, &call.connection.peer.listener, &[id]),
    };
    let mut writer = MetadataResponseWriter::new(out, call.version, &head, topics.len());
    for topic in topics {
        let error = ErrorCode::TOPIC_AUTHORIZATION_FAILED;
        writer.topic(error.0, topic.name, topic.topic_id, false, 0);
        writer.end_topic(OPERATIONS_OMITTED);
    }
    // librdkafka ignores topics and brokers in a response with a top-level error code.
    writer.end(OPERATIONS_OMITTED, 0);
    Some(told)
}

/// Write the response with default values and the error, if its layout has a field for one.
fn write_refusal(call: &Call<'_>, body: &[u8], out: &mut Vec<u8>) -> Option<UnauthenticatedReply> {
    let message = Registry::Client.message(call.api_key, Direction::Response)?;
    let top = &message.classes[0];
    let mut response = Value::default_struct(message, 0);
    let place = place_of(top, "error_code");
    if place.is_some_and(|place| top.fields[place].versions.contains(call.version)) {
        refuse(call, top, &mut response);
    } else {
        let (name, elements) = refused_elements(call, message, body)?;
        set(top, &mut response, name, elements);
    }
    out.extend_from_slice(&encode_value(message, call.version, &response).ok()?);
    Some(UnauthenticatedReply::Refusal)
}

/// Answer a list in the request with the corresponding list in the response, with an error in each element.
fn refused_elements<'a>(
    call: &Call<'_>,
    message: &'a Message,
    body: &[u8],
) -> Option<(&'a str, Value)> {
    let asked = Registry::Client.message(call.api_key, Direction::Request)?;
    let (list, class) = lists(asked, call.version).next()?;
    let (answers, answer) = lists(message, call.version).find_map(|(field, class)| {
        let class =
            class.filter(|class| place_of(&message.classes[*class], "error_code").is_some());
        Some((field, class?))
    })?;
    let request = decode_value(asked, call.version, body, UNAUTHENTICATED_ELEMENTS_MAX)?.ok()?;
    let Value::Array(elements) = request.get(asked, 0, list)? else {
        return None;
    };
    let told = elements.iter().map(|element| {
        let to = &message.classes[answer];
        let mut told = Value::default_struct(message, answer);
        match (class, element) {
            (Some(class), Value::Struct(values)) => {
                for (field, value) in asked.classes[class].fields.iter().zip(values) {
                    set(to, &mut told, &field.name, value.clone());
                }
            }
            _ => {
                let name = to
                    .fields
                    .iter()
                    .find(|field| field.kind == FieldType::String);
                if let Some(name) = name {
                    set(to, &mut told, &name.name, element.clone());
                }
            }
        }
        refuse(call, to, &mut told);
        told
    });
    (!elements.is_empty()).then(|| (answers, Value::Array(told.collect())))
}

/// Return the arrays in a version of a message, with the class of their elements if these are structs.
fn lists(message: &Message, version: i16) -> impl Iterator<Item = (&str, Option<ClassIndex>)> {
    let fields = message.classes[0].fields.iter();
    fields
        .filter(move |field| field.versions.contains(version))
        .filter_map(|field| match &field.kind {
            FieldType::Array(element) => Some((
                field.name.as_str(),
                match **element {
                    FieldType::Struct(class) => Some(class),
                    _ => None,
                },
            )),
            _ => None,
        })
}

fn refuse(call: &Call<'_>, class: &Class, value: &mut Value) {
    let (wrong, setting) = words(call.connection.without_tls, call.connection.security);
    let mut code = CODE;
    if call.api_key == ApiKey::SaslHandshake.code() {
        // SaslHandshake has no message. With this code every client stops and reports the supported mechanisms;
        // librdkafka truncates the list to 32 characters.
        code = ErrorCode::UNSUPPORTED_SASL_MECHANISM;
        let instead = [setting, wrong].map(|text| Value::String(text.into()));
        set(class, value, "mechanisms", Value::Array(instead.into()));
    }
    let message = format!("{wrong}: {setting}.");
    set(class, value, "error_code", Value::Int(code.0.into()));
    set(class, value, "error_message", Value::String(message));
}

/// Set a field of a struct, if its class has the field.
fn set(class: &Class, value: &mut Value, name: &str, new: Value) {
    if let (Value::Struct(fields), Some(place)) = (value, place_of(class, name)) {
        fields[place] = new;
    }
}

fn place_of(class: &Class, name: &str) -> Option<usize> {
    class.fields.iter().position(|field| field.name == name)
}
