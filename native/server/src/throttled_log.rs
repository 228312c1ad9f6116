//! Lines about single connections for the log.

use std::time::{Duration, Instant};

use parking_lot::Mutex;

use crate::config::{LogLevel, LogSink};

/// Lines about single connections, at most so many a second: strangers must not fill the log.
pub(crate) struct ThrottledLog {
    sink: LogSink,
    window: Mutex<(Option<Instant>, u32, u64)>,
}

const LINES_PER_SECOND_MAX: u32 = 20;

impl ThrottledLog {
    pub(crate) fn new(sink: LogSink) -> Self {
        ThrottledLog {
            sink,
            window: Mutex::new((None, 0, 0)),
        }
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
