//! ListTopics (key 32142). v0 is defined by KIP-142 and not flexible. v1 adds ids, a prefix and pages
//! (docs/protocol.md).

use pybroker_model::Uuid;

use super::check_version;
use crate::primitives::{DecodeError, Reader, Writer};

/// Versions of the message.
pub const VERSIONS: core::ops::RangeInclusive<i16> = 0..=1;
/// First flexible version, with ids, prefix and pages.
pub const PAGES: i16 = 1;

/// The request.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListTopicsRequest<'a> {
    /// Whether internal topics are listed.
    pub list_internal: bool,
    /// Prefix of the topic names to list (v1+).
    pub prefix: &'a str,
    /// The `next` of the previous page, or `None` to start at the first topic (v1+).
    pub after: Option<&'a str>,
    /// Maximum number of topics. 0 or less means the broker's maximum (v1+).
    pub limit: i32,
}

impl<'a> ListTopicsRequest<'a> {
    /// Decode a request body.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a request.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let mut reader = Reader::new(body);
        let mut request = ListTopicsRequest {
            list_internal: reader.bool()?,
            prefix: "",
            after: None,
            limit: 0,
        };
        if version >= PAGES {
            request.prefix = reader.string(true)?;
            request.after = reader.nullable_string(true)?;
            request.limit = reader.i32()?;
            reader.skip_tags(true)?;
        }
        reader.finish()?;
        Ok(request)
    }

    /// Append the request body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let mut writer = Writer::new(out, version >= PAGES);
        writer.bool(self.list_internal);
        if version >= PAGES {
            writer.string(self.prefix);
            writer.nullable_string(self.after);
            writer.i32(self.limit);
        }
        writer.no_tags();
    }
}

/// Maximum bytes of a topic in a response, without its name: length, id, flag and count of tags.
const TOPIC_BYTES_MAX: usize = 3 + 16 + 1 + 1;

/// The response.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct ListTopicsResponse<'a> {
    /// Error code; 0 means success.
    pub error_code: i16,
    /// The topics, ordered by name.
    pub topics: Vec<ListedTopic<'a>>,
    /// The `after` of the next page; `None` on the last page (v1+).
    pub next: Option<&'a str>,
    /// Throttle time in milliseconds (v1+).
    pub throttle_time_ms: i32,
}

/// One topic.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct ListedTopic<'a> {
    /// The topic's name.
    pub name: &'a str,
    /// The topic's id (v1+).
    pub topic_id: Uuid,
    /// Whether the topic is an internal topic of the broker.
    pub internal: bool,
}

impl<'a> ListTopicsResponse<'a> {
    /// Append the response body.
    pub fn encode(&self, version: i16, out: &mut Vec<u8>) {
        let paged = version >= PAGES;
        // Reserve the memory at once, because repeated growth would cost more than the encoding.
        let names = self.topics.iter().map(|topic| topic.name.len());
        out.reserve(TOPIC_BYTES_MAX * self.topics.len() + names.sum::<usize>());
        let mut writer = Writer::new(out, paged);
        writer.i16(self.error_code);
        writer.array_len(self.topics.len());
        for topic in &self.topics {
            writer.string(topic.name);
            if paged {
                writer.uuid(topic.topic_id);
            }
            writer.bool(topic.internal);
            writer.no_tags();
        }
        if !paged {
            return;
        }
        writer.nullable_string(self.next);
        if self.throttle_time_ms == 0 {
            return writer.no_tags();
        }
        writer.tag_count(1);
        writer.tag(0, |writer| writer.i32(self.throttle_time_ms));
    }

    /// Decode a response body.
    ///
    /// # Errors
    /// [`DecodeError`] if the bytes are not such a response.
    pub fn decode(body: &'a [u8], version: i16) -> Result<Self, DecodeError> {
        check_version(version, VERSIONS)?;
        let paged = version >= PAGES;
        let mut reader = Reader::new(body);
        let error_code = reader.i16()?;
        let count = reader.array_len(paged, if paged { 19 } else { 3 })?;
        let mut topics = Vec::with_capacity(count);
        for _ in 0..count {
            topics.push(ListedTopic {
                name: reader.string(paged)?,
                topic_id: if paged { reader.uuid()? } else { Uuid::ZERO },
                internal: reader.bool()?,
            });
            reader.skip_tags(paged)?;
        }
        let mut response = ListTopicsResponse {
            error_code,
            topics,
            next: None,
            throttle_time_ms: 0,
        };
        if paged {
            response.next = reader.nullable_string(true)?;
            reader.tags(|tag, value| {
                if tag == 0 {
                    response.throttle_time_ms = value.i32()?;
                }
                Ok(tag == 0)
            })?;
        }
        reader.finish()?;
        Ok(response)
    }
}
