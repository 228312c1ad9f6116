//! Request and response headers (KIP-482: request v2 and response v1 carry tagged fields).
//!
//! The client id has the legacy form in every header version, so that a broker can decode a header even if it does not
//! know the key or version. ApiVersions answers with response header v0 in all versions (KIP-511).

use crate::primitives::{DecodeError, Reader, Writer};

/// The first eight bytes of every request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestPrefix {
    /// API key.
    pub api_key: i16,
    /// API version.
    pub api_version: i16,
    /// Correlation id, which the response repeats.
    pub correlation_id: i32,
}

/// A whole request header.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RequestHeader<'a> {
    /// Key, version and correlation id.
    pub prefix: RequestPrefix,
    /// Client id; used for logs and quotas only.
    pub client_id: Option<&'a str>,
}

impl RequestPrefix {
    /// Length of the prefix.
    pub const BYTES: usize = 8;

    /// Decode the part that has the same layout in every request.
    #[inline]
    pub fn read(reader: &mut Reader<'_>) -> Result<Self, DecodeError> {
        Ok(RequestPrefix {
            api_key: reader.i16()?,
            api_version: reader.i16()?,
            correlation_id: reader.i32()?,
        })
    }
}

/// Decode the client id after the prefix. Its bytes may not be UTF-8. `flexible` means that the message version is
/// flexible (header v2).
#[inline]
pub fn read_client_id<'a>(
    reader: &mut Reader<'a>,
    flexible: bool,
) -> Result<Option<&'a [u8]>, DecodeError> {
    let client_id = reader.nullable_string_bytes(false)?;
    reader.skip_tags(flexible)?;
    Ok(client_id)
}

impl RequestHeader<'_> {
    /// Append the header, for tests, clients and inter-broker connections.
    pub fn write(&self, out: &mut Vec<u8>, flexible: bool) {
        let mut writer = Writer::new(out, false);
        writer.i16(self.prefix.api_key);
        writer.i16(self.prefix.api_version);
        writer.i32(self.prefix.correlation_id);
        writer.nullable_string(self.client_id);
        if flexible {
            writer.raw(&[0]);
        }
    }
}

/// Append a response header: the correlation id and, in v1, an empty section of tagged fields.
#[inline]
pub fn write_response_header(out: &mut Vec<u8>, correlation_id: i32, flexible: bool) {
    let mut writer = Writer::new(out, flexible);
    writer.i32(correlation_id);
    writer.no_tags();
}

/// Decode a response header; return the correlation id.
#[inline]
pub fn read_response_header(reader: &mut Reader<'_>, flexible: bool) -> Result<i32, DecodeError> {
    let correlation_id = reader.i32()?;
    reader.skip_tags(flexible)?;
    Ok(correlation_id)
}
