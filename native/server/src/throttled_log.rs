//! Lines for the log that clients cause: about single connections, and about topics that they cannot write to.

use std::collections::HashMap;
use std::time::{Duration, Instant};

use parking_lot::Mutex;
use pybroker_model::TopicId;

use crate::config::{LogLevel, LogSink};

/// Lines about single connections, at most so many a second: strangers must not fill the log. About one topic, at most
/// one a minute.
pub(crate) struct ThrottledLog {
    sink: LogSink,
    window: Mutex<(Option<Instant>, u32, u64)>,
    /// When each topic was last written about; older entries go when there is a new one.
    topics: Mutex<HashMap<TopicId, Instant>>,
}

const LINES_PER_SECOND_MAX: u32 = 20;
const ABOUT_ONE_TOPIC: Duration = Duration::from_secs(60);

impl ThrottledLog {
    pub(crate) fn new(sink: LogSink) -> Self {
        ThrottledLog {
            sink,
            window: Mutex::new((None, 0, 0)),
            topics: Mutex::default(),
        }
    }

    /// Writes a warning about a topic, unless there was one within the last minute.
    pub(crate) fn about_topic(&self, topic: TopicId, text: impl FnOnce() -> String) {
        {
            let mut topics = self.topics.lock();
            let now = Instant::now();
            let recent = |last: &Instant| now - *last < ABOUT_ONE_TOPIC;
            if topics.get(&topic).is_some_and(recent) {
                return;
            }
            topics.retain(|_, last| recent(last));
            topics.insert(topic, now);
        }
        (self.sink)(LogLevel::Warning, &text());
    }

    /// Writes a line, or counts it as left out.
    pub(crate) fn line(&self, level: LogLevel, text: &str) {
        let left_out = {
            let mut window = self.window.lock();
            let now = Instant::now();
            let (start, lines, left_out) = &mut *window;
            if start.is_none_or(|start| now - start >= Duration::from_secs(1)) {
                *start = Some(now);
                *lines = 0;
            }
            if *lines >= LINES_PER_SECOND_MAX {
                *left_out += 1;
                return;
            }
            *lines += 1;
            core::mem::take(left_out)
        };
        if left_out > 0 {
            (self.sink)(
                LogLevel::Warning,
                &format!("{left_out} lines about connections were left out"),
            );
        }
        (self.sink)(level, text);
    }
}
