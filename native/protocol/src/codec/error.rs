//! Errors of encoding a message. Errors of decoding are `primitives::DecodeError`.

use std::fmt;

/// A message that cannot be encoded in the requested version, which is a bug of the broker or of a caller.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct EncodeError {
    /// Fields on the path from the message to the wrong value, outermost last.
    path: Vec<String>,
    reason: String,
}

impl EncodeError {
    /// Create an error without a path.
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

/// An error that collects the path of the fields around it.
pub trait ErrorPath {
    /// Return the error with `field`, in which it occurred, added to its path.
    fn within(self, field: &str) -> Self;
}

impl ErrorPath for EncodeError {
    fn within(mut self, field: &str) -> EncodeError {
        self.path.push(field.to_owned());
        self
    }
}
