//! Validation of message bytes without creating values, and without Python.

use std::vec::Drain;

use pybroker_model::Uuid;

use super::decode::{Sink, decode, structure};
use super::layout::Layout;
use super::registry::{Direction, Registry};
use super::schema::ClassIndex;
use crate::primitives::{DecodeError, Reader};

/// Reject `body` if, and only if, decoding would fail. Data threads use this, because it needs no lock and almost no
/// memory.
///
/// # Errors
///
/// The fault in the bytes. The caller must close the connection.
pub fn check(layout: &Layout, body: &[u8], elements_max: u32) -> Result<(), DecodeError> {
    decode(layout, body, elements_max, &mut Check)
}

/// Run [`check`] on a request of a client or, on the inter-broker listener, of a broker.
///
/// # Errors
///
/// `UnsupportedVersion` if the registry has no such key and version; otherwise like [`check`].
pub fn check_request(
    registry: Registry,
    api_key: i16,
    version: i16,
    body: &[u8],
) -> Result<(), DecodeError> {
    let layout = registry
        .message(api_key, Direction::Request)
        .and_then(|message| message.layout(version))
        .ok_or(DecodeError::UnsupportedVersion)?;
    check(layout, body, registry.elements_max())
}

/// Return the number of elements in all arrays of a message, without creating values.
///
/// # Errors
///
/// Like [`check`].
pub fn count_elements(layout: &Layout, body: &[u8], elements_max: u32) -> Result<u32, DecodeError> {
    let mut reader = Reader::with_budget(body, elements_max);
    structure(layout, &mut reader, &mut Check)?;
    Ok(elements_max - reader.elements_left())
}

struct Check;

impl Sink for Check {
    type Value = ();
    type Error = DecodeError;

    fn null(&mut self) -> Result<(), DecodeError> {
        Ok(())
    }
    fn boolean(&mut self, _: bool) -> Result<(), DecodeError> {
        Ok(())
    }
    fn integer(&mut self, _: i64) -> Result<(), DecodeError> {
        Ok(())
    }
    fn float(&mut self, _: f64) -> Result<(), DecodeError> {
        Ok(())
    }
    fn uuid(&mut self, _: Uuid) -> Result<(), DecodeError> {
        Ok(())
    }
    fn string(&mut self, _: &str) -> Result<(), DecodeError> {
        Ok(())
    }
    fn bytes(&mut self, _: &[u8]) -> Result<(), DecodeError> {
        Ok(())
    }
    fn array(&mut self, _: Drain<'_, ()>) -> Result<(), DecodeError> {
        Ok(())
    }
    fn absent(&mut self, _: ClassIndex, _: usize) -> Result<(), DecodeError> {
        Ok(())
    }
    fn structure(&mut self, _: ClassIndex, _: Drain<'_, ()>) -> Result<(), DecodeError> {
        Ok(())
    }
}
