//! Lines for the log.

use std::sync::Arc;

/// How loud a line is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Level {
    /// Normal life.
    Info,
    /// Somebody should look.
    Warning,
}

/// Takes a line. Called on the threads that fetch; must not block.
pub type Report = Arc<dyn Fn(Level, &str) + Send + Sync>;
