//! Log lines of fetchers.

use std::sync::Arc;

/// Level of a log line.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Normal operation.
    Info,
    /// An operator should investigate.
    Warning,
}

/// Receives a log line. Called on the fetcher threads; must not block.
pub type Report = Arc<dyn Fn(Level, &str) + Send + Sync>;
