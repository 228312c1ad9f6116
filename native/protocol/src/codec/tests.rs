//! Tests of the schema files, and of the rules for bytes from outside.

mod hostile;
mod hot;
mod mutation;
pub(crate) mod random;
mod schemas;

use super::*;

/// The client registry's message of that name.
fn client(name: &str) -> &'static Message {
    Registry::Client.named(name).expect(name)
}
