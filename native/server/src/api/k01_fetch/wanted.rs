//! What a Fetch asks for.

use std::sync::Arc;
use std::time::Instant;

use pybroker_model::TopicId;
use pybroker_protocol::hot::WireVersion;
use pybroker_replica::{Follower, Isolation, Throttle};

use crate::fetch_sessions::{FetchTarget, Taken};
use crate::reply::ReplyHeader;
use crate::shared::ThreadState;

/// What a Fetch asks for, apart from its partitions.
pub(super) struct Wanted {
    pub(super) version: WireVersion,
    pub(super) reply: ReplyHeader,
    pub(super) isolation: Isolation,
    /// The broker that follows the partitions.
    pub(super) follower: Option<Follower>,
    /// How fast followers that are not in sync get records, of partitions that say so.
    pub(super) throttle: Arc<Throttle>,
    /// A consumer that may read from replicas that do not lead.
    pub(super) any_replica: bool,
    /// The rack in which a consumer wants to read, if it is to be told of a replica there.
    pub(super) rack: Option<Box<str>>,
    /// A follower hears of the high watermark as soon as it moves, so that consumers can read there.
    pub(super) tells_watermark: bool,
    /// Answered when this much is there.
    pub(super) min_bytes: usize,
    /// Bytes of records in the whole answer; at least one batch comes in any case.
    pub(super) max_bytes: usize,
    /// Answered at the latest.
    pub(super) deadline: Instant,
    /// The session that is told to the client (0 = none).
    pub(super) session_id: i32,
    /// Only news is told (an incremental fetch).
    pub(super) incremental: bool,
    /// The client's, for the addresses of other brokers.
    pub(super) listener: Arc<str>,
}

/// Where the partitions to read are listed.
pub(super) enum Source {
    /// A session, taken out of the thread's for the duration of the fetch.
    Session(Box<Taken>),
    /// The request itself.
    Request(Vec<FetchTarget>),
}

impl Source {
    /// The partitions in reading order, each with its place.
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

    /// Gives a session back.
    pub(super) fn release(self, thread: &mut ThreadState) {
        if let Source::Session(session) = self {
            thread.sessions.put_back(*session);
        }
    }

    /// The client is told nothing of the partitions: a session that was to begin does not.
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

    /// The target at a place that an outcome came from.
    pub(super) fn target(&self, place: u32) -> &FetchTarget {
        match self {
            Source::Session(session) => session.1.target(place),
            Source::Request(targets) => &targets[place as usize],
        }
    }
}
