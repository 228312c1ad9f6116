//! A message as its schema defines it, and its layout in each version.

use std::sync::OnceLock;

use super::layout::Layout;
use super::schema::{Class, VersionRange};

/// Type of a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[allow(missing_docs)]
pub enum MessageKind {
    Request,
    Response,
    Header,
    Data,
}

/// One message over all its versions.
#[derive(Debug)]
pub struct Message {
    /// Request, response, header or a record's content.
    pub kind: MessageKind,
    /// The API key; `None` for headers and data.
    pub api_key: Option<i16>,
    /// The versions that exist.
    pub versions: VersionRange,
    /// First version with compact lengths and tagged fields.
    pub first_flexible: Option<i16>,
    /// The message's own class, then the classes of its structs.
    pub classes: Vec<Class>,
    /// The layout of each version, computed when the version is first used.
    pub(super) layouts: Vec<OnceLock<Layout>>,
}

impl Message {
    /// Return the name of the message's class.
    pub fn name(&self) -> &str {
        &self.classes[0].name
    }

    /// Return whether `version` has compact lengths and tagged fields.
    pub fn is_flexible(&self, version: i16) -> bool {
        self.first_flexible.is_some_and(|first| version >= first)
    }

    /// Return the layout of `version`; `None` if there is no such version.
    pub fn layout(&self, version: i16) -> Option<&Layout> {
        if !self.versions.contains(version) {
            return None;
        }
        let cell = self
            .layouts
            .get(usize::from(version.abs_diff(self.versions.first)))?;
        Some(cell.get_or_init(|| Layout::of(&self.classes, 0, version, self.is_flexible(version))))
    }
}
