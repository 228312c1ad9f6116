//! The time of the day, for the floors below that take it as an argument.

/// Milliseconds since the Unix epoch.
pub(crate) fn now_ms() -> i64 {
    let since = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    // A clock before 1970 is a clock that is not set.
    since.map_or(0, |since| since.as_millis() as i64)
}
