//! What can be wrong with a message that we are asked to write. (With bytes from outside: `primitives::DecodeError`.)

use std::fmt;

/// A message that cannot be written in the version asked for: our own bug, or a caller's.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Fields from the message down to the culprit, outermost last.
    path: Vec<String>,
    reason: String,
}

impl EncodeError {
    /// An error whose place is not known yet.
    pub fn new(reason: impl Into<String>) -> EncodeError {
        EncodeError {
            path: Vec::new(),
            reason: reason.into(),
        }
    }
}

impl fmt::Display for EncodeError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (depth, field) in self.path.iter().rev().enumerate() {
            write!(
                f,
                "{}{field}",
                if depth == 0 || field.starts_with('[') {
                    ""
                } else {
                    "."
                }
            )?;
        }
        write!(
            f,
            "{}{}",
            if self.path.is_empty() { "" } else { ": " },
            self.reason
        )
    }
}

impl std::error::Error for EncodeError {}

/// An error that learns on its way out which fields it passes.
pub trait Located {
    /// The error, met inside `field`.
    fn within(self, field: &str) -> Self;
}

impl Located for EncodeError {
    fn within(mut self, field: &str) -> EncodeError {
        self.path.push(field.to_owned());
        self
    }
}
