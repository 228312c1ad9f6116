//! ApiVersions (key 18), versions 0–5. v3 is flexible and has the client's software (KIP-511); v5 has the cluster and
//! node that the client expects (KIP-1242).

use super::check_version;
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=5;
const FLEXIBLE: i16 = 3;

/// The request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiVersionsRequest<'a> {
    /// Name of the client library (v3+).
    pub client_software_name: &'a str,
    /// The software's version (v3+).
    pub client_software_version: &'a str,
    /// Cluster that the client expects (v5+).
    pub cluster_id: Option<&'a str>,
    /// Broker id that the client expects, or −1 if unknown (v5+).
    pub node_id: i32,
}

impl<'a> ApiVersionsRequest<'a> {
    /// Decode a request body.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let mut request = ApiVersionsRequest {
            client_software_name: "",
            client_software_version: "",
            cluster_id: None,
            node_id: -1,
        };
        let mut reader = Reader::new(body);
        if version >= FLEXIBLE {
            request.client_software_name = reader.string(true)?;
            request.client_software_version = reader.string(true)?;
            if version >= 5 {
                request.cluster_id = reader.nullable_string(true)?;
                request.node_id = reader.i32()?;
            }
            reader.skip_tags(true)?;
        }
        reader.finish()?;
        Ok(request)
    }

    /// Append the request body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        if version >= FLEXIBLE {
            writer.string(self.client_software_name);
            writer.string(self.client_software_version);
            if version >= 5 {
                writer.nullable_string(self.cluster_id);
                writer.i32(self.node_id);
            }
        }
        writer.no_tags();
    }
}

/// An API key and its served versions.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ApiVersion {
    /// API key.
    pub api_key: i16,
    /// Lowest version.
    pub min_version: i16,
    /// Highest version.
    pub max_version: i16,
}

/// A feature of the cluster (KIP-584).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Feature {
    /// The feature's name in Kafka.
    pub name: &'static str,
    /// The lowest supported level. Level 0 means that the feature is disabled.
    pub lowest: i16,
    /// The highest supported level.
    pub highest: i16,
    /// The finalized level.
    pub level: i16,
}

const SUPPORTED_FEATURES: u32 = 0;
const FINALIZED_FEATURES_EPOCH: u32 = 1;
const FINALIZED_FEATURES: u32 = 2;

/// The response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ApiVersionsResponse {
    /// Kafka error code.
    pub error_code: i16,
    /// The served keys.
    pub api_keys: Vec<ApiVersion>,
    /// Throttle time in milliseconds (v1+).
    pub throttle_time_ms: i32,
    /// Supported and finalized features (v3+). Ignored by `decode`.
    pub features: Vec<Feature>,
    /// Epoch of the finalized features, which grows with each change (v3+, with features). Ignored by `decode`.
    pub features_epoch: i64,
}

impl ApiVersionsResponse {
    /// Decode a response body; features are skipped.
    pub fn decode(body: &[u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let flexible = version >= FLEXIBLE;
        let mut reader = Reader::new(body);
        let error_code = reader.i16()?;
        let count = reader.array_len(flexible, 6)?;
        let mut api_keys = Vec::with_capacity(count);
        for _ in 0..count {
            api_keys.push(ApiVersion {
                api_key: reader.i16()?,
                min_version: reader.i16()?,
                max_version: reader.i16()?,
            });
            reader.skip_tags(flexible)?;
        }
        let throttle_time_ms = if version >= 1 { reader.i32()? } else { 0 };
        reader.skip_tags(flexible)?;
        reader.finish()?;
        Ok(ApiVersionsResponse {
            error_code,
            api_keys,
            throttle_time_ms,
            features: Vec::new(),
            features_epoch: 0,
        })
    }

    /// Append the response body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, version >= FLEXIBLE);
        writer.i16(self.error_code);
        writer.array_len(self.api_keys.len());
        for key in &self.api_keys {
            writer.i16(key.api_key);
            writer.i16(key.min_version);
            writer.i16(key.max_version);
            writer.no_tags();
        }
        if version >= 1 {
            writer.i32(self.throttle_time_ms);
        }
        if version >= FLEXIBLE && !self.features.is_empty() {
            self.write_features(&mut writer);
        } else {
            writer.no_tags();
        }
    }

    fn write_features(&self, writer: &mut Writer<'_>) {
        writer.tag_count(3);
        writer.tag(SUPPORTED_FEATURES, |out| {
            out.array_len(self.features.len());
            for feature in &self.features {
                out.string(feature.name);
                out.i16(feature.lowest);
                out.i16(feature.highest);
                out.no_tags();
            }
        });
        writer.tag(FINALIZED_FEATURES_EPOCH, |out| out.i64(self.features_epoch));
        writer.tag(FINALIZED_FEATURES, |out| {
            // Leave out features at level 0, which are disabled.
            let in_force = || self.features.iter().filter(|feature| feature.level > 0);
            out.array_len(in_force().count());
            for feature in in_force() {
                out.string(feature.name);
                out.i16(feature.level);
                out.i16(feature.level);
                out.no_tags();
            }
        });
    }
}
