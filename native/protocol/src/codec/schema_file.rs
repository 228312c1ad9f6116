//! A schema file of the crate, parsed on the first use of one of its messages: the broker starts without parsing any.

use std::sync::OnceLock;

use super::message::Message;
use super::notation;

/// A schema file.
pub(super) struct SchemaFile {
    /// Path below `schema/`.
    pub(super) path: &'static str,
    /// The key of its messages.
    pub(super) api_key: Option<i16>,
    /// The classes of its messages.
    pub(super) names: &'static [&'static str],
    pub(super) text: &'static str,
    messages: OnceLock<Vec<Message>>,
}

impl SchemaFile {
    pub(super) const fn new(
        path: &'static str,
        api_key: Option<i16>,
        names: &'static [&'static str],
        text: &'static str,
    ) -> SchemaFile {
        SchemaFile {
            path,
            api_key,
            names,
            text,
            messages: OnceLock::new(),
        }
    }

    pub(super) fn messages(&'static self) -> &'static [Message] {
        self.messages
            .get_or_init(|| match notation::parse(self.text) {
                Ok(messages) => messages,
                // The files are part of the crate; a test parses each of them.
                Err(error) => unreachable!("{}: {error}", self.path),
            })
    }
}
