//! State of one followed partition: the last request, the reaction to its response, and the time of the next request.
//! Without I/O: the caller passes responses and times and carries out the returned orders.

use std::time::{Duration, Instant};

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_response::{FetchPartitionHead, StagedAttach};
use pybroker_replica::{EpochEnd, FetchFrom};

/// First pause after an error; it doubles up to `replica.fetch.backoff.ms`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// Action after a response.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Append the records, which continue the log at the fetch position.
    Append(FetchFrom),
    /// Truncate records that the leader does not have.
    Cut(FetchFrom, EpochEnd),
    /// Truncate the whole log and start at this offset.
    StartOver(FetchFrom, i64),
    /// Attach the staged segments at the same offsets as the leader.
    Attach(FetchFrom, Box<StagedAttach>),
    /// Apply the leader's high watermark and log start; the response has no records.
    Follow,
    /// Fetch the start and end offsets of the leader's log.
    AskBounds,
    /// Leave the partition out of requests, for a while or until the next assignment.
    HoldBack(Trouble),
    /// Ignore an unexpected response.
    Ignore,
}

/// Why a partition is left out of requests.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// Error code of the leader.
    pub(crate) error: ErrorCode,
    /// Whether the partition is left out until its next assignment.
    pub(crate) for_good: bool,
    /// Whether the partition had no error before.
    pub(crate) new: bool,
}

/// State of a partition.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request includes it.
    Ready,
    /// The leader has the request, and responds when there is data.
    Asked(FetchFrom),
    /// Records below that offset are not on disk yet, so a fetch must not claim them.
    Flushing(i64),
    /// Staged segments are being attached.
    Attaching,
    /// The leader does not have the next offset. The thread fetches the bounds of the leader's log next.
    OutOfRange(FetchFrom),
    /// Paused after an error, until this time.
    Paused(Instant),
    /// The leader of this epoch no longer leads.
    Stopped,
}

/// A followed partition.
#[derive(Debug)]
pub(crate) struct FollowerState {
    leader_epoch: i32,
    state: State,
    high_watermark: i64,
    log_start: i64,
    /// Number of errors since the last good response.
    failures: u32,
    /// Fetch position of the last truncation. A fetch from the same position would get the same response.
    cut: Option<FetchFrom>,
    lag: i64,
}

impl FollowerState {
    /// Follow the leader of this epoch, starting with the next request.
    pub(crate) const fn new(leader_epoch: i32) -> Self {
        Self {
            leader_epoch,
            state: State::Ready,
            high_watermark: -1,
            log_start: -1,
            failures: 0,
            cut: None,
            lag: 0,
        }
    }

    /// Follow the same leader in another epoch.
    pub(crate) const fn in_epoch(&self, leader_epoch: i32) -> Self {
        Self {
            high_watermark: self.high_watermark,
            log_start: self.log_start,
            lag: self.lag,
            ..Self::new(leader_epoch)
        }
    }

    pub(crate) const fn leader_epoch(&self) -> i32 {
        self.leader_epoch
    }

    /// Return the leader's last known high watermark and log start.
    pub(crate) const fn bounds(&self) -> (i64, i64) {
        (self.high_watermark, self.log_start)
    }

    /// Return the lag behind the leader's high watermark at the last response, in offsets.
    pub(crate) const fn lag(&self) -> i64 {
        self.lag
    }

    /// Return whether the next request should include it.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Return whether the leader may keep the partition in its fetch session.
    pub(crate) const fn is_asked_for(&self) -> bool {
        matches!(self.state, State::Ready | State::Asked(_))
    }

    /// Return the log end whose flush the partition waits for, if it does.
    pub(crate) const fn flushing(&self) -> Option<i64> {
        match self.state {
            State::Flushing(end) => Some(end),
            _ => None,
        }
    }

    /// Return the fetch position outside the leader's log, if the bounds must be fetched.
    pub(crate) const fn out_of_range(&self) -> Option<FetchFrom> {
        match self.state {
            State::OutOfRange(from) => Some(from),
            _ => None,
        }
    }

    /// Return the end of the partition's pause, if it is paused.
    pub(crate) const fn paused(&self) -> Option<Instant> {
        match self.state {
            State::Paused(until) => Some(until),
            _ => None,
        }
    }

    /// Return whether the partition had all committed records when the last response was processed.
    pub(crate) const fn has_caught_up(&self) -> bool {
        self.high_watermark >= 0 && self.lag == 0
    }

    /// Pause until `until`, without counting an error.
    pub(crate) fn pause_until(&mut self, until: Instant) {
        self.state = State::Paused(until);
    }

    /// Include the partition in the next request, with the fetch position `from`. `None` means that it cannot be
    /// followed now. Return false if the partition is paused instead.
    pub(crate) fn ask(&mut self, from: Option<FetchFrom>, now: Instant, backoff: Duration) -> bool {
        let follows = from.filter(|from| from.leader_epoch == self.leader_epoch);
        match follows {
            // Do not fetch again from the position of the last truncation: it changed nothing, so the leader would
            // repeat its response forever.
            Some(from) if self.cut != Some(from) => {
                self.state = State::Asked(from);
                true
            }
            _ => {
                self.cut = None;
                self.pause(now, backoff);
                false
            }
        }
    }

    /// Wait until the log up to `end` is on disk.
    pub(crate) fn wait_for_flush(&mut self, end: i64) {
        self.state = State::Flushing(end);
    }

    /// Return whether an attach is running that began in the current epoch.
    pub(crate) fn is_attaching(&self) -> bool {
        self.state == State::Attaching
    }

    /// Make the partition ready again, because its attach, flush or pause is over, or the session has ended.
    pub(crate) fn resume(&mut self) {
        if self.state != State::Stopped {
            self.state = State::Ready;
        }
    }

    /// Make the partition ready again after the session has ended. Return whether the next request must include it.
    pub(crate) fn ask_again(&mut self) -> bool {
        if let State::Asked(_) | State::OutOfRange(_) = self.state {
            self.state = State::Ready;
            return true;
        }
        false
    }

    /// Apply the leader's response. After most orders the partition waits for their outcome; after [`Order::Follow`] it
    /// stays in the session.
    pub(crate) fn answered(
        &mut self,
        head: &FetchPartitionHead,
        has_records: bool,
        now: Instant,
        backoff: Duration,
    ) -> Order {
        let State::Asked(from) = self.state else {
            return Order::Ignore;
        };
        let error = ErrorCode(head.error_code);
        if error == ErrorCode::OFFSET_OUT_OF_RANGE {
            self.state = State::OutOfRange(from);
            return Order::AskBounds;
        }
        if error != ErrorCode::NONE {
            return Order::HoldBack(self.refused(error, head, now, backoff));
        }
        self.failures = 0;
        if let Some(common) = head.diverging_epoch {
            self.state = State::Ready;
            self.cut = Some(from);
            let common = EpochEnd {
                leader_epoch: common.epoch,
                end_offset: common.end_offset,
            };
            return Order::Cut(from, common);
        }
        self.cut = None;
        self.high_watermark = head.high_watermark;
        self.log_start = head.log_start_offset;
        self.lag = (head.high_watermark - from.offset).max(0);
        if let Some(told) = &head.attach {
            self.state = State::Attaching;
            return Order::Attach(from, told.clone());
        }
        if has_records {
            self.state = State::Ready;
            return Order::Append(from);
        }
        Order::Follow
    }

    fn refused(
        &mut self,
        error: ErrorCode,
        head: &FetchPartitionHead,
        now: Instant,
        backoff: Duration,
    ) -> Trouble {
        let new = self.failures == 0;
        // If the leader knows a newer epoch, stop, because the next assignment will have that epoch. Otherwise retry:
        // the leader may not know yet that it leads or that the topic exists.
        let newer = head
            .current_leader
            .is_some_and(|leader| leader.leader_epoch > self.leader_epoch);
        let for_good = error == ErrorCode::FENCED_LEADER_EPOCH || newer;
        if for_good {
            self.state = State::Stopped;
        } else {
            self.pause(now, backoff);
        }
        Trouble {
            error,
            for_good,
            new,
        }
    }

    /// Apply the bounds of the leader's log, which were fetched because the leader does not have the next offset.
    pub(crate) fn told_bounds(
        &mut self,
        (start, end): (i64, i64),
        now: Instant,
        backoff: Duration,
    ) -> Order {
        let State::OutOfRange(from) = self.state else {
            return Order::Ignore;
        };
        if start > from.offset || end < from.offset {
            // The leader's log has no record at this log's end and no common epoch with it, so no record of this log
            // can be trusted.
            self.state = State::Ready;
            return Order::StartOver(from, start);
        }
        // The leader's log has changed since the failed fetch, so the next fetch may succeed. If it fails again, the
        // pause grows.
        self.pause(now, backoff);
        Order::Ignore
    }

    /// Update the lag after the records of the last response were appended up to `end`.
    pub(crate) fn appended(&mut self, end: i64) {
        self.lag = (self.high_watermark - end).max(0);
    }

    /// Record that an order failed or the bounds are unknown. Return whether this is the first error.
    pub(crate) fn failed(&mut self, now: Instant, backoff: Duration) -> bool {
        self.pause(now, backoff);
        self.failures == 1
    }

    fn pause(&mut self, now: Instant, backoff: Duration) {
        let pause = FIRST_PAUSE
            .saturating_mul(1 << self.failures.min(16))
            .min(backoff);
        self.failures = self.failures.saturating_add(1);
        self.state = State::Paused(now + pause);
    }
}

#[cfg(test)]
mod tests;
