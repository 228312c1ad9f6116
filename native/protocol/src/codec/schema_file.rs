//! A schema file of the crate. It is parsed on the first use of one of its messages, so that the broker starts without
//! parsing any file.

use std::sync::OnceLock;

use super::message::Message;
use super::notation;

/// A schema file.
pub(super) struct SchemaFile {
    /// Path below `schema/`.
    pub(super) path: &'static str,
    /// The API key of the file's messages.
    pub(super) api_key: Option<i16>,
    /// The class names of the file's messages.
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
                // The files are part of the crate, and a test parses each of them, so this cannot fail.
                Err(error) => unreachable!("{}: {error}", self.path),
            })
    }
}
