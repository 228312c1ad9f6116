//! The two registries of messages. The listener determines which one applies; the bytes of a message do not.

use super::decode::ELEMENTS_MAX_TRUSTED;
use super::files::{CLIENT, INTER_BROKER};
use super::message::{Message, MessageKind};
use super::schema_file::SchemaFile;
use crate::primitives::ELEMENTS_MAX;

/// The set of message layouts that a listener uses.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Registry {
    /// The layouts of released Apache Kafka.
    Client,
    /// The layouts of the KIP-516 text where it defines its own, otherwise those of [`Registry::Client`].
    InterBroker,
}

/// Request or response.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[allow(missing_docs)]
pub enum Direction {
    Request,
    Response,
}

impl Registry {
    /// Return the maximum number of elements in all arrays of one request together.
    pub const fn elements_max(self) -> u32 {
        match self {
            Registry::Client => ELEMENTS_MAX,
            Registry::InterBroker => ELEMENTS_MAX_TRUSTED,
        }
    }

    /// Return the message of a key; `None` if the registry has no such key.
    pub fn message(self, api_key: i16, direction: Direction) -> Option<&'static Message> {
        let kind = match direction {
            Direction::Request => MessageKind::Request,
            Direction::Response => MessageKind::Response,
        };
        self.tables().find_map(|files| {
            let place = files
                .binary_search_by_key(&Some(api_key), |file| file.api_key)
                .ok()?;
            files[place]
                .messages()
                .iter()
                .find(|message| message.kind == kind)
        })
    }

    /// Return the message whose class has this name.
    pub fn named(self, name: &str) -> Option<&'static Message> {
        self.tables().find_map(|files| {
            let file = files.iter().find(|file| file.names.contains(&name))?;
            file.messages()
                .iter()
                .find(|message| message.name() == name)
        })
    }

    /// Return the names of the messages that the registry itself defines.
    pub fn names(self) -> impl Iterator<Item = &'static str> {
        self.tables()
            .next()
            .into_iter()
            .flatten()
            .flat_map(|file| file.names)
            .copied()
    }

    fn tables(self) -> impl Iterator<Item = &'static [SchemaFile]> {
        let own = match self {
            Registry::Client => None,
            Registry::InterBroker => Some(&INTER_BROKER[..]),
        };
        own.into_iter().chain([&CLIENT[..]])
    }
}
