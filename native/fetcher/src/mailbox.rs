//! The way to a running fetcher: what it is to follow, that it is to stop, that a flush is done. Whoever writes never
//! waits; a fetcher that waits at its leader is called back by closing its connection.

use std::sync::Arc;
use std::task::Wake;
use std::time::{Duration, Instant};

use parking_lot::{Condvar, Mutex};
use pybroker_client::Closer;
use pybroker_model::TopicIdPartition;

/// A connection that is younger is not closed for the sake of new partitions, since each new one tells the leader about
/// all of them. A young connection's fetches do not wait longer at the leader than until it may be closed.
pub(crate) const YOUNG: Duration = Duration::from_millis(250);

/// A change of what is followed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Change {
    /// In this leader epoch, from now on.
    Follow(TopicIdPartition, i32),
    /// Not any more.
    Leave(TopicIdPartition),
}

/// What is in the box.
#[derive(Debug, Default)]
pub(crate) struct Mail {
    pub(crate) changes: Vec<Change>,
    /// Host and port of the leader, if that is new.
    pub(crate) address: Option<String>,
    pub(crate) stop: bool,
}

/// See the module.
#[derive(Debug, Default)]
pub(crate) struct Mailbox {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    mail: Mail,
    /// A flush that somebody waited for is done.
    flushed: bool,
    /// While the fetcher waits at its leader: how to end that, and since when there is the connection.
    waiting: Option<(Arc<Closer>, Instant)>,
    /// The connection was closed from here.
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
    /// Changes what is followed.
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

    /// The leader is there from now on.
    pub(crate) fn move_to(&self, address: &str) {
        let mut state = self.state.lock();
        state.mail.address = Some(address.to_owned());
        state.call_back();
        self.changed.notify_all();
    }

    /// The fetcher is to end.
    pub(crate) fn stop(&self) {
        let mut state = self.state.lock();
        state.mail.stop = true;
        state.call_back();
        self.changed.notify_all();
    }

    /// What has come since.
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

    /// Waits for mail, a flush that was waited for, or `until`.
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

    /// Waits for a flush that was waited for; false if `until` comes first, or the order to stop.
    pub(crate) fn wait_for_flush(&self, until: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.flushed && !state.mail.stop {
            if self.changed.wait_until(&mut state, until).timed_out() {
                break;
            }
        }
        std::mem::take(&mut state.flushed) && !state.mail.stop
    }

    /// Waits until `until` or for mail, whatever is flushed meanwhile.
    pub(crate) fn rest(&self, until: Instant) {
        let mut state = self.state.lock();
        while !state.has_news() && !self.changed.wait_until(&mut state, until).timed_out() {}
    }

    /// From now on the fetcher waits at its leader. False: there is mail, which it is to read first.
    pub(crate) fn waits(&self, closer: &Arc<Closer>, opened: Instant) -> bool {
        let mut state = self.state.lock();
        if state.has_news() {
            return false;
        }
        state.waiting = Some((Arc::clone(closer), opened));
        true
    }

    /// It waits no more. Whether the connection was closed from here.
    pub(crate) fn is_back(&self) -> bool {
        let mut state = self.state.lock();
        state.waiting = None;
        std::mem::take(&mut state.closed)
    }

    /// The fetcher has ended.
    pub(crate) fn finish(&self) {
        self.state.lock().finished = true;
        self.changed.notify_all();
    }

    /// Waits until it has, or until `deadline`; whether it has.
    pub(crate) fn wait_for_end(&self, deadline: Instant) -> bool {
        let mut state = self.state.lock();
        while !state.finished && !self.changed.wait_until(&mut state, deadline).timed_out() {}
        state.finished
    }
}

/// A flush is done.
impl Wake for Mailbox {
    fn wake(self: Arc<Self>) {
        self.state.lock().flushed = true;
        self.changed.notify_all();
    }
}
