//! One partition that is followed: what was asked of its leader, what the answer means, when to ask again. Pure: answers
//! and times come in, orders go out.

use std::time::{Duration, Instant};

use pybroker_protocol::ErrorCode;
use pybroker_protocol::hot::fetch_response::{FetchPartitionHead, StagedAttach};
use pybroker_replica::{EpochEnd, FetchFrom};

/// The first pause after an error; it doubles up to `replica.fetch.backoff.ms`.
const FIRST_PAUSE: Duration = Duration::from_millis(20);

/// What is to be done with an answer.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Order {
    /// Append the records, which follow upon what was asked from.
    Append(FetchFrom),
    /// Cut off what the leader does not have.
    Cut(FetchFrom, EpochEnd),
    /// Begin anew there.
    StartOver(FetchFrom, i64),
    /// Attach what is staged here as well.
    Attach(FetchFrom, Box<StagedAttach>),
    /// Take over the leader's bounds: nothing else is new.
    Follow,
    /// Ask where the leader's log begins and ends.
    AskBounds,
    /// It is not asked for, for a while or until the next assignment.
    HoldBack(Trouble),
    /// An answer that nobody waits for.
    Ignore,
}

/// Why a partition is held back.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct Trouble {
    /// What the leader said.
    pub(crate) error: ErrorCode,
    /// Until the next assignment.
    pub(crate) for_good: bool,
    /// It was not in trouble before.
    pub(crate) new: bool,
}

/// Where a partition stands.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum State {
    /// The next request names it.
    Ready,
    /// The leader has been asked, and answers when there is something.
    Asked(FetchFrom),
    /// What is below that offset is not on disk yet, and must not be claimed.
    Flushing(i64),
    /// What is staged here is being attached.
    Attaching,
    /// The leader does not have what would follow; where its log begins is asked next.
    OutOfRange(FetchFrom),
    /// After an error.
    Paused(Instant),
    /// The leader of this epoch leads no more.
    Stopped,
}

/// One partition that is followed.
#[derive(Debug)]
pub(crate) struct Following {
    leader_epoch: i32,
    state: State,
    high_watermark: i64,
    log_start: i64,
    /// Since the last answer without error.
    failures: u32,
    /// Where it was asked from when it was cut last: the same question would get the same answer.
    cut: Option<FetchFrom>,
    lag: i64,
}

impl Following {
    /// Follows the leader of this epoch, from the next request on.
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

    /// The same leader in another epoch.
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

    /// High watermark and log start as the leader told them last.
    pub(crate) const fn bounds(&self) -> (i64, i64) {
        (self.high_watermark, self.log_start)
    }

    /// Offsets behind the leader's high watermark, as of the last answer.
    pub(crate) const fn lag(&self) -> i64 {
        self.lag
    }

    /// Whether the next request is to name it.
    pub(crate) fn is_ready(&self) -> bool {
        self.state == State::Ready
    }

    /// Whether the leader may go on answering what it was asked.
    pub(crate) const fn is_asked_for(&self) -> bool {
        matches!(self.state, State::Ready | State::Asked(_))
    }

    /// The offset up to which it waits for its flush.
    pub(crate) const fn flushing(&self) -> Option<i64> {
        match self.state {
            State::Flushing(end) => Some(end),
            _ => None,
        }
    }

    /// What lies outside of the leader's log, if its bounds are to be asked.
    pub(crate) const fn out_of_range(&self) -> Option<FetchFrom> {
        match self.state {
            State::OutOfRange(from) => Some(from),
            _ => None,
        }
    }

    /// Until when it pauses.
    pub(crate) const fn paused(&self) -> Option<Instant> {
        match self.state {
            State::Paused(until) => Some(until),
            _ => None,
        }
    }

    /// Whether it is known to have all that was committed, as of the last answer.
    pub(crate) const fn has_caught_up(&self) -> bool {
        self.high_watermark >= 0 && self.lag == 0
    }

    /// It waits until then, though nothing is wrong.
    pub(crate) fn pause_until(&mut self, until: Instant) {
        self.state = State::Paused(until);
    }

    /// The next request names it from there; `None`: it cannot be followed now. False: it is held back after all.
    pub(crate) fn ask(&mut self, from: Option<FetchFrom>, now: Instant, backoff: Duration) -> bool {
        let follows = from.filter(|from| from.leader_epoch == self.leader_epoch);
        match follows {
            // The cut has changed nothing: the leader would say the same for ever.
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

    /// Its log up to `end` is not on disk yet.
    pub(crate) fn wait_for_flush(&mut self, end: i64) {
        self.state = State::Flushing(end);
    }

    /// Whether something is being attached, which began in the epoch that is followed now.
    pub(crate) fn is_attaching(&self) -> bool {
        self.state == State::Attaching
    }

    /// It can be asked for again: its attach or flush is done, its pause is over, or the leader has forgotten the question.
    pub(crate) fn resume(&mut self) {
        if self.state != State::Stopped {
            self.state = State::Ready;
        }
    }

    /// The leader has forgotten what it was asked; whether it is to be asked again.
    pub(crate) fn ask_again(&mut self) -> bool {
        if let State::Asked(_) | State::OutOfRange(_) = self.state {
            self.state = State::Ready;
            return true;
        }
        false
    }

    /// The leader's answer. After an order it is neither ready nor asked for, until its outcome is told; with
    /// [`Order::Follow`] it stays asked for.
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
        // The leader knows a newer epoch: the next assignment will name it. Without one it may not have heard yet that
        // it leads, or that the topic exists.
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

    /// Where the leader's log begins and ends, asked because what would follow here is not in it.
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
            // Above the leader's end without an epoch that tells how far both agree: nothing here can be trusted.
            self.state = State::Ready;
            return Order::StartOver(from, start);
        }
        // It has moved since; if not, the pauses get longer.
        self.pause(now, backoff);
        Order::Ignore
    }

    /// The records of the last answer are appended, up to `end`.
    pub(crate) fn appended(&mut self, end: i64) {
        self.lag = (self.high_watermark - end).max(0);
    }

    /// An order could not be carried out, or the bounds were not told. Gives whether that is new.
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
