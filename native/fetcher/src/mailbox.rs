//! Messages to a running fetcher thread: changes of its partitions, a stop, a finished flush. Senders never block. If
//! the thread waits for its leader's response, the mailbox closes the thread's connection to interrupt the wait.

use std::sync::Arc;
use std::task::Wake;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pybroker_client::Closer;
use pybroker_model::TopicIdPartition;

/// Age below which a connection is not closed for new partitions, because the first request of each new connection
/// lists all partitions. Over such a young connection, the leader may hold a fetch only until the connection may be
/// closed.
pub(crate) const YOUNG: Duration = Duration::from_millis(250);

/// A change of the followed partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// Follow in this leader epoch.
    Follow(TopicIdPartition, i32),
    /// Stop following.
    Leave(TopicIdPartition),
}

/// Content of the mailbox.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) changes: Vec<Change>,
    /// New host and port of the leader, if changed.
    pub(crate) address: Option<String>,
    pub(crate) stop: bool,
}

/// Messages to a running fetcher.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    /// Whether an awaited flush is done.
    flushed: bool,
    /// Set while the thread waits for its leader's response: the handle that closes the connection, and when the
    /// connection was opened.
    waiting: Option<(Arc<Closer>, Instant)>,
    /// Whether the mailbox has closed the connection.
    closed: bool,
    finished: bool,
}

impl State {
    fn has_news(&self) -> bool {
        self.mail.stop || self.mail.address.is_some() || !self.mail.changes.is_empty()
    }

    fn call_back(&mut self) {
        if let Some((closer, _)) = self.waiting.take() {
            closer.close();
            self.closed = true;
        }
    }
}

impl Mailbox {
    /// Send changes of the followed partitions.
    pub(crate) fn change(&self, changes: Vec<Change>, now: Instant) {
        let mut state = self.state.lock();
        let follows = changes
            .iter()
            .any(|change| matches!(change, Change::Follow(..)));
        state.mail.changes.extend(changes);
        let grown_up = state
            .waiting
            .as_ref()
            .is_some_and(|(_, opened)| now.saturating_duration_since(*opened) >= YOUNG);
        if follows && grown_up {
            state.call_back();
        }
        self.changed.notify_all();
    }

    /// Send a new address of the leader.
    pub(crate) fn move_to(&self, address: &str) {
        let mut state = self.state.lock();
        state.mail.address = Some(address.to_owned());
        state.call_back();
        self.changed.notify_all();
    }

    /// Send the stop.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.mail.stop = true;
        state.call_back();
        self.changed.notify_all();
    }

    /// Take all messages.
    pub(crate) fn take(&self) -> Mail {
        let mut state = self.state.lock();
        let stop = state.mail.stop;
        Mail {
            stop,
            ..std::mem::replace(
                &mut state.mail,
                Mail {
                    stop,
                    ..Mail::default()
                },
            )
        }
    }

    /// Wait for a message, an awaited flush, or the time `until`.
    pub(crate) fn wait(&self, until: Option<Instant>) {
        let mut state = self.state.lock();
        while !state.has_news() && !state.flushed {
            let timed_out = match until {
                Some(until) => self.changed.wait_until(&mut state, until).timed_out(),
                None => {
                    self.changed.wait(&mut state);
                    false
                }
            };
            if timed_out {
                break;
            }
        }
        state.flushed = false;
    }

    /// Wait for an awaited flush. Return false at the time `until`, or on a stop.
    pub(crate) fn wait_for_flush(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.flushed && !state.mail.stop {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        std::mem::take(&mut state.flushed) && !state.mail.stop
    }

    /// Wait for a message or the time `until`, ignoring flushes.
    pub(crate) fn rest(&self, until: Instant) {
        let mut state = self.state.lock();
        while !state.has_news() && !self.changed.wait_until(&mut state, until).timed_out() {}
    }

    /// Record that the thread waits for its leader's response. Return false if it must read messages first.
    pub(crate) fn waits(&self, closer: &Arc<Closer>, opened: Instant) -> bool {
        let mut state = self.state.lock();
        if state.has_news() {
            return false;
        }
        state.waiting = Some((Arc::clone(closer), opened));
        true
    }

    /// Record that the thread no longer waits. Return whether the mailbox closed the connection.
    pub(crate) fn is_back(&self) -> bool {
        let mut state = self.state.lock();
        state.waiting = None;
        std::mem::take(&mut state.closed)
    }

    /// Record that the fetcher has ended.
    pub(crate) fn finish(&self) {
        self.state.lock().finished = true;
        self.changed.notify_all();
    }

    /// Wait until the thread has ended, or until `deadline`. Return whether it has ended.
    pub(crate) fn wait_for_end(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.finished && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.finished
    }
}

/// The mailbox is the waker for flushes: a wake-up means that a flush is done.
impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.state.lock().flushed = true;
        self.changed.notify_all();
    }
}
