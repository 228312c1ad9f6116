//! Parameters of a Fetch.

use std::sync::Arc;
use std::time::Instant;

use pybroker_model::TopicId;
use pybroker_protocol::hot::WireVersion;
use pybroker_replica::{Follower, Isolation, Throttle};

use crate::fetch_sessions::{CheckedOutSession, FetchTarget};
use crate::net::reply::ReplyHeader;
use crate::shared::ThreadState;

/// Parameters of a Fetch, except for its partitions.
pub(super) struct FetchParameters {
    pub(super) version: WireVersion,
    pub(super) reply: ReplyHeader,
    pub(super) isolation: Isolation,
    /// The follower that replicates the partitions.
    pub(super) follower: Option<Follower>,
    /// Throttle for followers that are not in sync, for partitions configured to be throttled.
    pub(super) throttle: Arc<Throttle>,
    /// Whether the consumer may read from followers.
    pub(super) any_replica: bool,
    /// Rack of the consumer, if the response may name a preferred read replica.
    pub(super) rack: Option<Box<str>>,
    /// Whether the follower gets a response as soon as the high watermark advances, because its own consumers need it.
    pub(super) tells_watermark: bool,
    /// Number of record bytes from which the fetch is answered.
    pub(super) min_bytes: usize,
    /// Maximum bytes of records in the response. The response has at least one batch in any case.
    pub(super) max_bytes: usize,
    /// Latest time at which the fetch is answered.
    pub(super) deadline: Instant,
    /// Session id of the response (0 = none).
    pub(super) session_id: i32,
    /// Whether the response lists only changes (an incremental fetch).
    pub(super) incremental: bool,
    /// The client's listener, for the addresses of other brokers.
    pub(super) listener: Arc<str>,
}

/// The list of partitions to read.
pub(super) enum Source {
    /// A session, taken out of the thread's sessions for the duration of the fetch.
    Session(Box<CheckedOutSession>),
    /// The request itself.
    Request(Vec<FetchTarget>),
}

impl Source {
    /// Return the partitions in reading order, each with its index.
    pub(super) fn targets(&self) -> Box<dyn Iterator<Item = (u32, &FetchTarget)> + '_> {
        match self {
            Source::Session(session) => Box::new(session.1.targets()),
            Source::Request(targets) => Box::new((0u32..).zip(targets)),
        }
    }

    pub(super) fn len(&self) -> usize {
        match self {
            Source::Session(session) => session.1.len(),
            Source::Request(targets) => targets.len(),
        }
    }

    pub(super) fn set_resolved(&mut self, place: u32, id: TopicId) {
        match self {
            Source::Session(session) => session.1.set_resolved(place, id),
            Source::Request(targets) => {
                if let Some(target) = targets.get_mut(place as usize) {
                    target.resolved = Some(id);
                }
            }
        }
    }

    /// Return the session to the thread.
    pub(super) fn release(self, thread: &mut ThreadState) {
        if let Source::Session(session) = self {
            thread.sessions.put_back(*session);
        }
    }

    /// Release the source after a response without partitions. A session that is new is dropped.
    pub(super) fn give_up(self, incremental: bool, thread: &mut ThreadState) {
        let begun = match &self {
            Source::Session(session) if !incremental => Some(session.0),
            _ => None,
        };
        self.release(thread);
        if let Some(id) = begun {
            thread.sessions.remove(id);
        }
    }

    /// Return the target at the index of an outcome.
    pub(super) fn target(&self, place: u32) -> &FetchTarget {
        match self {
            Source::Session(session) => session.1.target(place),
            Source::Request(targets) => &targets[place as usize],
        }
    }
}
