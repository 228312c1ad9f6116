//! ApiVersions, versions 0–5, as released Kafka answers it. The response lists the APIs of the listener that received
//! the request.
//!
//! An unsupported version is answered with layout v0, UNSUPPORTED_VERSION and the range of ApiVersions itself
//! (KIP-511), so that a newer client can fall back. Names of client software that break KIP-511's rules are
//! INVALID_REQUEST. A client that expects another cluster or node gets REBOOTSTRAP_REQUIRED (KIP-1242, v5).

use pybroker_protocol::hot::api_versions::{
    ApiVersion, ApiVersionsRequest, ApiVersionsResponse, Feature, VERSIONS,
};
use pybroker_protocol::{Api, ApiKey, ErrorCode};

use super::Call;
use crate::clients::close_reason::CloseReason;
use crate::control_plane::Software;
use crate::net::reply::{ReplyFrame, ReplyHeader};
use crate::shared::ThreadState;

/// Maximum length of the client software's name and of its version.
const SOFTWARE_BYTES_MAX: usize = 256;

/// Features for clients: name, highest level, and the API that the feature requires.
///
/// Consumer groups (KIP-848), share groups (KIP-932), streams groups (KIP-1071), transactions version 2 (KIP-890). The
/// highest level is active unless the cluster has finalized another one. `pybroker/broker/metadata/feature_levels.py` names
/// the same features.
const FEATURES: [(&str, i16, ApiKey); 4] = [
    ("group.version", 1, ApiKey::ConsumerGroupHeartbeat),
    ("share.version", 2, ApiKey::ShareGroupHeartbeat),
    ("streams.version", 1, ApiKey::StreamsGroupHeartbeat),
    ("transaction.version", 2, ApiKey::EndTxn),
];

/// Features that only a metadata quorum has, with their supported levels. They are shown when they are finalized;
/// `feature_levels.py` has the same levels.
const LOG_FEATURES: [(&str, i16, i16); 2] = [("kraft.version", 1, 1), ("metadata.version", 30, 33)];

/// Answer the request.
pub(crate) fn run(
    call: &Call<'_>,
    thread: &ThreadState,
    body: &[u8],
    out: &mut Vec<u8>,
) -> Result<(), CloseReason> {
    let request =
        ApiVersionsRequest::decode(body, call.version).map_err(|error| call.bad_request(error))?;
    let valid = call.version < 3
        || (software_is_valid(request.client_software_name)
            && software_is_valid(request.client_software_version));
    if valid && call.version >= 3 {
        let peer = &call.connection.peer;
        peer.software.get_or_init(|| {
            let software = Software {
                name: request.client_software_name.into(),
                version: request.client_software_version.into(),
            };
            call.shared.client_software.told(peer, &software);
            software
        });
    }
    let error = if !valid {
        ErrorCode::INVALID_REQUEST
    } else if elsewhere(call, &request) {
        ErrorCode::REBOOTSTRAP_REQUIRED
    } else {
        ErrorCode::NONE
    };
    let api_keys = if valid {
        Api::advertised(call.connection.peer.registry, thread.settings.cluster)
            .map(row)
            .collect()
    } else {
        Vec::new()
    };
    write(call, thread, call.version, error, api_keys, out);
    Ok(())
}

/// Answer an unsupported version without decoding the body.
pub(crate) fn run_unsupported(call: &Call<'_>, thread: &ThreadState, out: &mut Vec<u8>) {
    write(
        call,
        thread,
        0,
        ErrorCode::UNSUPPORTED_VERSION,
        Api::advertised(call.connection.peer.registry, thread.settings.cluster)
            .filter(|(api, ..)| api.key == ApiKey::ApiVersions)
            .map(row)
            .collect(),
        out,
    );
}

fn write(
    call: &Call<'_>,
    thread: &ThreadState,
    version: i16,
    error: ErrorCode,
    api_keys: Vec<ApiVersion>,
    out: &mut Vec<u8>,
) {
    debug_assert!(VERSIONS.contains(&version));
    thread.metrics.error(call.api_key, error.0);
    // The response header is v0 in every version.
    let header = ReplyHeader {
        flexible: false,
        ..call.reply
    };
    let finalized = call.shared.metadata.features();
    let of_log = LOG_FEATURES
        .iter()
        .filter(|_| !api_keys.is_empty())
        .filter_map(|&(name, lowest, highest)| {
            let level = finalized.level(name)?;
            Some(Feature {
                name,
                lowest,
                highest,
                level,
            })
        });
    let features = FEATURES
        .iter()
        .filter(|(.., needed)| api_keys.iter().any(|key| key.api_key == needed.code()))
        .map(|&(name, highest, _)| Feature {
            name,
            lowest: 0,
            highest,
            level: finalized.level(name).unwrap_or(highest),
        })
        .chain(of_log)
        .collect();
    let frame = ReplyFrame::begin(out, header);
    ApiVersionsResponse {
        error_code: error.0,
        api_keys,
        throttle_time_ms: call.throttle_time_ms,
        features,
        features_epoch: finalized.epoch,
    }
    .encode(version, out);
    frame.end(out);
}

fn row((api, min_version, max_version): (&Api, i16, i16)) -> ApiVersion {
    ApiVersion {
        api_key: api.key.code(),
        min_version,
        max_version,
    }
}

/// Return whether the client expects another cluster or node at this address.
fn elsewhere(call: &Call<'_>, request: &ApiVersionsRequest<'_>) -> bool {
    let other_node = request.node_id >= 0 && request.node_id != call.shared.broker_id;
    other_node
        || request
            .cluster_id
            .is_some_and(|id| *id != *call.shared.metadata.load().cluster_id)
}

/// Return whether the text consists of letters, digits, '-' and '.', with a letter or digit at both ends.
fn software_is_valid(text: &str) -> bool {
    let bytes = text.as_bytes();
    let edge = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    bytes.len() <= SOFTWARE_BYTES_MAX
        && edge(bytes.first())
        && edge(bytes.last())
        && bytes
            .iter()
            .all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_of_client_software() {
        for valid in [
            "librdkafka",
            "2.16.1",
            "a",
            "apache-kafka-java",
            "1.0.0-SNAPSHOT",
        ] {
            assert!(software_is_valid(valid), "{valid}");
        }
        for invalid in ["", "-a", "a.", "a b", "a\nb", "ä", &"a".repeat(257)] {
            assert!(!software_is_valid(invalid), "{invalid}");
        }
    }
}
