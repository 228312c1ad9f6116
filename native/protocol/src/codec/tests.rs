//! Tests of the schema files, and of the rules for bytes from outside.

mod hostile;
mod hot;
mod mutation;
pub(crate) mod random;
mod schemas;

use super::*;

/// Return the client registry's message with this name.
fn client(name: &str) -> &'static Message {
    Registry::Client.named(name).expect(name)
}
