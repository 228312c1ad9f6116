//! Rate-limited log lines that clients cause: about connections, and about topics that they cannot write to.

use std::collections::HashMap;
use std::net::IpAddr;
use std::sync::Arc;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_model::TopicId;

use crate::config::{LogLevel, LogSink};

/// Limits the log lines per second that clients cause, so that unauthenticated clients cannot fill the log. At most one
/// line a minute is about the same topic, or about the same mistake of one client.
pub(crate) struct ThrottledLog {
    sink: LogSink,
    window: Mutex<(Option<Instant>, u32, u64)>,
    /// Time of the last line about each subject. Adding an entry removes old ones.
    told: Mutex<HashMap<LogSubject, Instant>>,
}

#[derive(PartialEq, Eq, Hash)]
enum LogSubject {
    Topic(TopicId),
    /// Listener, client address, and the client's mistake.
    Client(Arc<str>, IpAddr, &'static str),
}

const LINES_PER_SECOND_MAX: u32 = 20;
/// Maximum bytes of a line, because clients choose the length of names. With the rate limit this is below 1 MB a
/// minute.
const LINE_BYTES_MAX: usize = 400;
const ONCE_IN: Duration = Duration::from_secs(60);
/// Maximum number of remembered entries. Above it all are dropped.
const TOLD_MAX: usize = 10_000;

impl ThrottledLog {
    pub(crate) fn new(sink: LogSink) -> Self {
        ThrottledLog {
            sink,
            window: Mutex::new((None, 0, 0)),
            told: Mutex::default(),
        }
    }

    /// Write a warning about a topic, unless there was one within the last minute.
    pub(crate) fn about_topic(&self, topic: TopicId, text: impl FnOnce() -> String) {
        if self.is_news(LogSubject::Topic(topic)) {
            (self.sink)(LogLevel::Warning, &text());
        }
    }

    /// Write a line about a mistake of the client at this address, unless there was one within the last minute.
    pub(crate) fn about_client(
        &self,
        listener: &Arc<str>,
        address: IpAddr,
        mistake: &'static str,
        (level, text): (LogLevel, &str),
    ) {
        if self.is_news(LogSubject::Client(Arc::clone(listener), address, mistake)) {
            self.line(level, text);
        }
    }

    fn is_news(&self, subject: LogSubject) -> bool {
        let mut told = self.told.lock();
        let now = Instant::now();
        let recent = |last: &Instant| now - *last < ONCE_IN;
        if told.get(&subject).is_some_and(recent) {
            return false;
        }
        told.retain(|_, last| recent(last));
        if told.len() >= TOLD_MAX {
            told.clear();
        }
        told.insert(subject, now);
        true
    }

    /// Write a line, truncated to [`LINE_BYTES_MAX`], or count it as dropped.
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        let Some(left_out) = self.admit() else {
            return;
        };
        if left_out > 0 {
            (self.sink)(
                LogLevel::Warning,
                &format!("{left_out} lines about connections were left out"),
            );
        }
        if text.len() <= LINE_BYTES_MAX {
            return (self.sink)(level, text);
        }
        let mut end = LINE_BYTES_MAX;
        while !text.is_char_boundary(end) {
            end -= 1;
        }
        (self.sink)(level, &format!("{}…", &text[..end]));
    }

    /// Ask whether the caller may write a line. Return the number of lines dropped since the last permitted one; `None`
    /// if this line must be dropped.
    pub(crate) fn admit(&self) -> Option<u64> {
        let mut window = self.window.lock();
        let now = Instant::now();
        let (start, lines, left_out) = &mut *window;
        if start.is_none_or(|start| now - start >= Duration::from_secs(1)) {
            *start = Some(now);
            *lines = 0;
        }
        if *lines >= LINES_PER_SECOND_MAX {
            *left_out += 1;
            return None;
        }
        *lines += 1;
        Some(core::mem::take(left_out))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_a_rate_and_a_length() {
        let lines: Arc<Mutex<Vec<String>>> = Arc::default();
        let written = Arc::clone(&lines);
        let log = ThrottledLog::new(Arc::new(move |_, text: &str| {
            written.lock().push(text.to_owned());
        }));
        for _ in 0..10_000 {
            log.line(LogLevel::Info, &"é".repeat(5_000));
        }
        let lines = lines.lock();
        assert!(lines.len() < 100, "{} lines at once", lines.len());
        assert!(lines.iter().all(|line| line.len() <= LINE_BYTES_MAX + 3));
    }
}
