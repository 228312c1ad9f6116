//! One run: events in random order, the messages under way, and the checks.

use std::time::{Duration, Instant};

use pybroker_model::TopicId;
use pybroker_replica::{
    AppendInfo, EpochEnd, FetchFrom, FetchRead, Follower, Isolation, IsrProposal, PartitionError,
};

use super::brokers::{BROKERS, Broker};
use super::controller::Controller;
use super::history::{Content, History};
use super::{DataCoverage, PlantedFault};
use crate::random::{Random, mix};

const FETCH_BYTES: usize = 250;
/// `replica.lag.time.max.ms`, in simulated time.
const LAG_MAX: Duration = Duration::from_secs(10);
const STEP_MS_MAX: u64 = 60;
/// Rounds of fetches after which a healed cluster must be in sync.
const HEALED_ROUNDS: usize = 400;

/// A message under way.
#[derive(Debug)]
enum Message {
    Fetch {
        follower: i32,
        leader: i32,
        broker_epoch: i64,
        from: FetchFrom,
        number: u64,
    },
    Fetched {
        follower: i32,
        from: FetchFrom,
        number: u64,
        answer: FetchAnswer,
    },
    Propose {
        leader: i32,
        proposal: IsrProposal,
    },
    Proposed {
        leader: i32,
        proposal: IsrProposal,
        /// Version of the written ISR; `None`: refused.
        version: Option<i32>,
    },
}

#[derive(Debug)]
enum FetchAnswer {
    Records {
        bytes: Vec<u8>,
        high_watermark: i64,
        log_start: i64,
    },
    Diverging(EpochEnd),
    OutOfRange {
        start: i64,
        end: i64,
    },
    Refused,
}

/// An append with acks=all whose acknowledgement is awaited.
struct Waiting {
    broker: i32,
    appended: AppendInfo,
    value: String,
}

pub(super) struct World {
    random: Random,
    fault: Option<PlantedFault>,
    started: Instant,
    now_ms: u64,
    controller: Controller,
    brokers: Vec<Broker>,
    messages: Vec<Message>,
    /// Number of the fetch that each broker waits for; 0: none.
    asked: [u64; BROKERS],
    /// Proposals without an answer, by leader.
    proposed: [Option<IsrProposal>; BROKERS],
    waiting: Vec<Waiting>,
    history: History,
    numbers: u64,
    coverage: DataCoverage,
}

impl World {
    pub(super) fn new(seed: u64, fault: Option<PlantedFault>) -> Self {
        let topic_id = TopicId::random();
        let mut world = Self {
            random: Random::new(seed, 0),
            fault,
            started: Instant::now(),
            now_ms: 0,
            controller: Controller::new(fault),
            brokers: (1..=BROKERS as i32)
                .map(|id| Broker::new(id, topic_id))
                .collect(),
            messages: Vec::new(),
            asked: [0; BROKERS],
            proposed: [const { None }; BROKERS],
            waiting: Vec::new(),
            history: History::default(),
            numbers: 0,
            coverage: DataCoverage::default(),
        };
        for at in 0..BROKERS {
            world.start(at);
        }
        world
    }

    pub(super) fn run(mut self, steps: u64) -> Result<DataCoverage, String> {
        for _ in 0..steps {
            self.now_ms += self.random.between(0, STEP_MS_MAX);
            self.step()?;
        }
        self.heal()
    }

    fn now(&self) -> Instant {
        self.started + Duration::from_millis(self.now_ms)
    }

    fn note(&mut self, event: u64) {
        self.coverage.trace = mix(self.coverage.trace, event);
    }

    // --- events -----------------------------------------------------------------------------------------------------

    fn step(&mut self) -> Result<(), String> {
        let at = self.random.index(BROKERS);
        let event = self.random.below(200);
        self.note(event << 8 | at as u64);
        match event {
            0..10 => self.produce(at),
            10..30 => {
                self.produce(usize::try_from(self.controller.state().leader - 1).unwrap_or(at))
            }
            30..90 => self.fetch(at),
            90..160 => self.deliver()?,
            160..178 => self.tell_next(at)?,
            178..182 => self.brokers[at].flush(),
            182..188 => self.consume(at)?,
            188 => self.judge(at),
            189..191 => self.forget_fetch(at),
            191..193 => self.resend(at),
            193 => self.controller.rotate(),
            194 if self.random.percent(50) => self.controller.fence(at as i32 + 1),
            195 if self.random.percent(60) => self.die(at),
            _ => self.start(at),
        }
        self.acknowledge()
    }

    fn produce(&mut self, at: usize) {
        self.numbers += 1;
        let value = format!("v{}", self.numbers);
        let all = self.random.percent(80);
        let appended = self.brokers[at].append(&value, if all { -1 } else { 1 });
        if let (Some(appended), true) = (appended, all) {
            self.waiting.push(Waiting {
                broker: at as i32 + 1,
                appended,
                value,
            });
        }
        // Most appends are flushed at once.
        if self.random.percent(70) {
            self.brokers[at].flush();
        }
    }

    fn acknowledge(&mut self) -> Result<(), String> {
        for waiting in std::mem::take(&mut self.waiting) {
            let Some(partition) = self.brokers[waiting.broker as usize - 1].partition() else {
                continue;
            };
            match partition.committed(&waiting.appended).try_get() {
                None => self.waiting.push(waiting),
                Some(Ok(())) => {
                    self.coverage.acknowledged += 1;
                    let offset = waiting.appended.last_offset;
                    self.history.acknowledge(offset, waiting.value)?;
                }
                Some(Err(_)) => {}
            }
        }
        Ok(())
    }

    /// Read what consumers see at a broker, leader or not.
    fn consume(&mut self, at: usize) -> Result<(), String> {
        let Some(partition) = self.brokers[at].partition() else {
            return Ok(());
        };
        let wanted = FetchRead {
            offset: 0,
            max_bytes: 1 << 20,
            isolation: Isolation::ReadUncommitted,
            current_leader_epoch: -1,
            last_fetched_epoch: -1,
            at_least_one: true,
            any_replica: true,
        };
        let Ok(read) = partition.read(&wanted) else {
            return Ok(());
        };
        let end = read.bound;
        let content: Content = self.brokers[at].content();
        let visible = content.into_iter().filter(|(offset, _)| *offset < end);
        self.history.consume(&visible.collect())
    }

    // --- replication ------------------------------------------------------------------------------------------------

    /// Send a follower's next fetch, if it waits for none.
    fn fetch(&mut self, at: usize) {
        let Some(partition) = self.brokers[at].partition() else {
            return;
        };
        let leader = (1..=BROKERS as i32).find(|&leader| partition.fetch_from(leader).is_some());
        let (Some(leader), 0) = (leader, self.asked[at]) else {
            return;
        };
        let mut from = partition.fetch_from(leader).expect("follows");
        if self.fault == Some(PlantedFault::ClaimsTooMuch) {
            from.offset += 1;
        }
        self.numbers += 1;
        self.asked[at] = self.numbers;
        self.messages.push(Message::Fetch {
            follower: at as i32 + 1,
            leader,
            broker_epoch: self.brokers[at].broker_epoch,
            from,
            number: self.numbers,
        });
    }

    /// The follower's connection breaks: it will ask again, and the old request may still arrive.
    fn forget_fetch(&mut self, at: usize) {
        self.asked[at] = 0;
    }

    /// Deliver a message, or lose it.
    fn deliver(&mut self) -> Result<(), String> {
        if self.messages.is_empty() {
            return Ok(());
        }
        let message = self
            .messages
            .swap_remove(self.random.index(self.messages.len()));
        if self.random.percent(8) {
            return Ok(());
        }
        self.take(message)
    }

    fn take(&mut self, message: Message) -> Result<(), String> {
        match message {
            Message::Fetch {
                follower,
                leader,
                broker_epoch,
                from,
                number,
            } => {
                let answer = self.serve(leader, follower, broker_epoch, &from);
                self.take_proposals(leader as usize - 1);
                self.messages.push(Message::Fetched {
                    follower,
                    from,
                    number,
                    answer,
                });
            }
            Message::Fetched {
                follower,
                from,
                number,
                answer,
            } => {
                let at = follower as usize - 1;
                if self.asked[at] == number {
                    self.asked[at] = 0;
                    self.apply(at, &from, answer)?;
                }
            }
            Message::Propose { leader, proposal } => {
                let written = self.controller.propose(leader, &proposal);
                let version = self.controller.state().version;
                self.coverage.isr_changes += u64::from(written == Some(true));
                if let Some(written) = written {
                    let written =
                        written && self.fault != Some(PlantedFault::DeniesWrittenProposal);
                    self.messages.push(Message::Proposed {
                        leader,
                        proposal,
                        version: written.then_some(version),
                    });
                }
            }
            Message::Proposed {
                leader,
                proposal,
                version,
            } => self.hear_decision(leader, &proposal, version),
        }
        Ok(())
    }

    fn serve(
        &self,
        leader: i32,
        follower: i32,
        broker_epoch: i64,
        from: &FetchFrom,
    ) -> FetchAnswer {
        let Some(partition) = self.brokers[leader as usize - 1].partition() else {
            return FetchAnswer::Refused;
        };
        let who = Follower {
            broker: follower,
            broker_epoch,
            received: self.now(),
        };
        let wanted = FetchRead {
            offset: from.offset,
            max_bytes: FETCH_BYTES,
            isolation: Isolation::LogEnd,
            current_leader_epoch: from.leader_epoch,
            last_fetched_epoch: from.last_epoch,
            at_least_one: true,
            any_replica: false,
        };
        match partition.read_for_follower(who, &wanted, self.now()) {
            Ok(read) => match read.diverging {
                Some(common) => FetchAnswer::Diverging(common),
                None => FetchAnswer::Records {
                    bytes: read.records.to_vec().expect("reads"),
                    high_watermark: read.high_watermark,
                    log_start: read.log_start_offset,
                },
            },
            Err(PartitionError::OffsetOutOfRange { .. }) => FetchAnswer::OutOfRange {
                start: partition.log_start_offset(),
                end: partition.log_end_offset(),
            },
            Err(_) => FetchAnswer::Refused,
        }
    }

    fn apply(&mut self, at: usize, from: &FetchFrom, answer: FetchAnswer) -> Result<(), String> {
        let Some(partition) = self.brokers[at].partition() else {
            return Ok(());
        };
        match answer {
            FetchAnswer::Diverging(common) => {
                if partition.cut_diverging(from, common, 0).is_ok() {
                    self.coverage.truncations += 1;
                    self.brokers[at].note_synced();
                }
            }
            FetchAnswer::Refused => {}
            FetchAnswer::OutOfRange { start, end } => {
                if start > from.offset || end < from.offset {
                    drop(partition.start_over(from, start, 0));
                    self.brokers[at].note_synced();
                }
            }
            FetchAnswer::Records {
                bytes,
                high_watermark,
                log_start,
            } => {
                if !bytes.is_empty() {
                    if partition.append_fetched(from, &bytes, 0).is_err() {
                        return Ok(());
                    }
                    self.brokers[at].flush();
                }
                drop(partition.follow_bounds(from.leader_epoch, high_watermark, log_start));
            }
        }
        let (watermark, end) = (partition.high_watermark(), partition.log_end_offset());
        if watermark > end {
            return Err(format!(
                "broker {} shows {watermark} as committed, and its log ends at {end}",
                at + 1
            ));
        }
        Ok(())
    }

    // --- the controller ---------------------------------------------------------------------------------------------

    /// Give a broker a state that it does not know, not always the next one.
    fn tell_next(&mut self, at: usize) -> Result<(), String> {
        let seen = self.brokers[at].seen;
        let last = self.controller.state().version;
        if seen < last {
            let version = self.random.between((seen + 1) as u64, last as u64);
            self.tell(at, version as usize)?;
        }
        Ok(())
    }

    fn tell(&mut self, at: usize, version: usize) -> Result<(), String> {
        let state = self.controller.states[version].clone();
        let now_ms = self.now_ms as i64;
        let before = self.brokers[at].partition().map(|it| it.leader_epoch());
        let done = self.brokers[at].tell(&state, now_ms);
        self.proposed[at].take_if(|it| it.leader_epoch < state.leader_epoch);
        let elected = state.leader == at as i32 + 1 && before != Some(state.leader_epoch);
        if done.is_ok() && elected && self.brokers[at].is_running() {
            self.coverage.elections += 1;
            // A leader of an older epoch may lack what a later one has committed.
            if state.leader_epoch == self.controller.state().leader_epoch {
                self.history
                    .check(state.leader, &self.brokers[at].content())?;
            }
        }
        self.take_proposals(at);
        Ok(())
    }

    fn judge(&mut self, at: usize) {
        if let Some(replicas) = self.brokers[at].replicas() {
            replicas.judge_followers(self.now(), LAG_MAX);
        }
        self.take_proposals(at);
    }

    fn take_proposals(&mut self, at: usize) {
        let Some(replicas) = self.brokers[at].replicas() else {
            return;
        };
        for proposal in replicas.proposals().take() {
            self.proposed[at] = Some(proposal);
            self.resend(at);
        }
    }

    /// Send a proposal again that has no answer.
    fn resend(&mut self, at: usize) {
        if let Some(proposal) = &self.proposed[at] {
            self.messages.push(Message::Propose {
                leader: at as i32 + 1,
                proposal: proposal.clone(),
            });
        }
    }

    fn hear_decision(&mut self, leader: i32, proposal: &IsrProposal, version: Option<i32>) {
        let at = leader as usize - 1;
        self.proposed[at].take_if(|it| it == proposal);
        let Some(partition) = self.brokers[at].partition() else {
            return;
        };
        match version {
            Some(version) => {
                let isr = &self.controller.states[version as usize].isr;
                partition.set_isr(proposal.leader_epoch, isr, version);
            }
            None => partition.isr_refused(proposal.leader_epoch, proposal.proposal.version),
        }
    }

    // --- deaths -----------------------------------------------------------------------------------------------------

    fn die(&mut self, at: usize) {
        if !self.brokers[at].is_running() {
            return;
        }
        self.coverage.deaths += 1;
        self.asked[at] = 0;
        self.proposed[at] = None;
        self.waiting
            .retain(|waiting| waiting.broker != at as i32 + 1);
        if self.random.percent(60) {
            let flushed_too = self.fault == Some(PlantedFault::LosesFlushedRecords);
            self.brokers[at].cut_power(&mut self.random, flushed_too);
        } else {
            self.brokers[at].kill();
        }
    }

    /// Start a dead broker, or let a live one register again after its session has ended.
    fn start(&mut self, at: usize) {
        let broker = &mut self.brokers[at];
        let runs = broker.is_running();
        if !runs {
            broker.start(self.started + Duration::from_millis(self.now_ms));
        }
        if !runs || !self.controller.is_registered(broker.id) {
            broker.broker_epoch = self.controller.register(broker.id);
            // A broker serves from the state of its registration on.
            broker.seen = self.controller.state().version - 1;
        }
    }

    // --- the end ----------------------------------------------------------------------------------------------------

    /// End all faults; the brokers must get in sync.
    fn heal(&mut self) -> Result<DataCoverage, String> {
        self.messages.clear();
        self.asked = [0; BROKERS];
        for at in 0..BROKERS {
            self.start(at);
        }
        for _ in 0..HEALED_ROUNDS {
            self.now_ms += 100;
            for at in 0..BROKERS {
                let last = self.controller.state().version;
                if self.brokers[at].seen < last {
                    self.tell(at, last as usize)?;
                }
                self.brokers[at].flush();
                self.judge(at);
                self.resend(at);
                self.fetch(at);
            }
            while let Some(message) = self.messages.pop() {
                self.take(message)?;
            }
            self.asked = [0; BROKERS];
            self.acknowledge()?;
            if self.are_in_sync() {
                return self.compare();
            }
        }
        Err(format!(
            "healed, but not in sync: {:?}, log ends {:?}",
            self.controller.state(),
            self.ends()
        ))
    }

    fn ends(&self) -> Vec<Option<(i64, i64)>> {
        let partitions = self.brokers.iter().map(Broker::partition);
        partitions
            .map(|partition| partition.map(|it| (it.log_end_offset(), it.high_watermark())))
            .collect()
    }

    fn are_in_sync(&self) -> bool {
        let state = self.controller.state();
        let ends = self.ends();
        let told = self
            .brokers
            .iter()
            .all(|broker| broker.seen == state.version);
        let equal = ends
            .iter()
            .all(|end| *end == ends[0] && end.is_some_and(|(end, hw)| end == hw));
        state.isr.len() == BROKERS && told && equal
    }

    fn compare(&self) -> Result<DataCoverage, String> {
        let first = self.brokers[0].content();
        for broker in &self.brokers {
            let content = broker.content();
            self.history.check(broker.id, &content)?;
            if content != first {
                return Err(format!("the logs of brokers 1 and {} differ", broker.id));
            }
        }
        Ok(self.coverage)
    }
}
