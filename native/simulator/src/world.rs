//! The simulated world: nodes, links, time, and the queue of scheduled events.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, HashMap};

use pybroker_model::Uuid;
use pybroker_quorum::{ReplicaKey, Request, Response, VoterSet};

use crate::clock::Clock;
use crate::coverage::Coverage;
use crate::disk::SimulatedDisk;
use crate::network::{Micros, Network};
use crate::node::Node;
use crate::oracle::{Oracle, Violation, require};
use crate::plan::{MILLISECOND, MINUTE, PROPOSALS, Plan, PlannedTrouble, SECOND, TROUBLE};
use crate::random::Random;

/// A scheduled event.
#[derive(Debug)]
pub(crate) enum SimulatedEvent {
    Request {
        to: usize,
        from: usize,
        life: u32,
        correlation: u64,
        request: Box<Request>,
    },
    Response {
        to: usize,
        life: u32,
        peer: i32,
        correlation: u64,
        response: Box<Response<u64>>,
    },
    Refused {
        to: usize,
        life: u32,
        peer: i32,
    },
    Timer {
        node: usize,
        life: u32,
        number: u64,
    },
    Flushed {
        node: usize,
        life: u32,
        ticket: u64,
    },
    StateWritten {
        node: usize,
        life: u32,
        ticket: u64,
    },
    Start {
        node: usize,
        life: u32,
    },
    Propose,
    Trouble(PlannedTrouble),
    TroubleOver(PlannedTrouble),
    Check,
    Administer,
    Minute(u64),
    Calm(CalmStep),
}

/// The steps of the fault-free end of a minute.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum CalmStep {
    Heal,
    LeaderExpected,
    CaughtUpExpected,
    KillLeader,
    SuccessorExpected,
}

#[derive(Debug)]
struct ScheduledEvent {
    at: Micros,
    number: u64,
    what: SimulatedEvent,
}

impl PartialEq for ScheduledEvent {
    fn eq(&self, other: &Self) -> bool {
        self.number == other.number
    }
}
impl Eq for ScheduledEvent {}
impl PartialOrd for ScheduledEvent {
    fn partial_cmp(&self, other: &Self) -> Option<std::cmp::Ordering> {
        Some(self.cmp(other))
    }
}
impl Ord for ScheduledEvent {
    fn cmp(&self, other: &Self) -> std::cmp::Ordering {
        (self.at, self.number).cmp(&(other.at, other.number))
    }
}

/// The origin of a request whose response is pending.
#[derive(Debug)]
pub(crate) struct Waiter {
    pub(crate) node: usize,
    pub(crate) life: u32,
    pub(crate) correlation: u64,
    /// For a Vote: the candidate, the requested voter, and whether it was a pre-vote.
    pub(crate) vote: Option<(ReplicaKey, ReplicaKey, bool)>,
    /// Whether the replica led, or had contact with its leader, when the request arrived. The response may come later,
    /// because it waits for the disk.
    pub(crate) hears_leader: bool,
}

/// What must happen in the fault-free end of a minute.
#[derive(Debug, Default)]
pub(crate) struct Calm {
    pub(crate) is_on: bool,
    /// The first proposal made in the fault-free end.
    pub(crate) first_proposal: u64,
    pub(crate) committed: bool,
    pub(crate) committed_end: i64,
    pub(crate) killed: Option<usize>,
}

/// The state of a run.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) plan: Plan,
    pub(crate) now: Micros,
    queue: BinaryHeap<Reverse<ScheduledEvent>>,
    scheduled: u64,
    pub(crate) nodes: Vec<Node>,
    pub(crate) network: Network,
    /// Random numbers for the delays of messages and disks, and for the unflushed writes that a crash keeps.
    pub(crate) random: Random,
    /// Random numbers for ids.
    pub(crate) ids: Random,
    pub(crate) oracle: Oracle,
    pub(crate) coverage: Coverage,
    pub(crate) cluster_id: Uuid,
    pub(crate) waiters: HashMap<u64, Waiter>,
    pub(crate) last_handle: u64,
    pub(crate) last_proposal: u64,
    /// The number of voters that the administrator wants.
    pub(crate) voters_wanted: usize,
    pub(crate) calm: Calm,
    troubles_this_minute: u64,
    proposals_this_minute: u64,
    pub(crate) trace: bool,
}

/// Maximum number of events in a simulated minute. More events mean that replicas exchange messages in an endless loop.
const EVENTS_MAX: u64 = 400_000;

impl World {
    /// Create the world at the start of a plan.
    #[must_use]
    pub(crate) fn new(plan: &Plan, trace: bool) -> Self {
        let mut ids = Random::new(plan.seed, 3);
        let mut shape = Random::new(plan.seed, 4);
        let count = plan.nodes();
        let keys: Vec<ReplicaKey> = (0..count).map(|index| new_key(index, &mut ids)).collect();
        let first = plan.first_voters();
        let nodes = keys.iter().enumerate().map(|(index, &key)| {
            let voters = match index < first {
                true => VoterSet::new(keys[..first].iter().copied()),
                false => VoterSet::empty(),
            };
            let clock = Clock::new(shape.between(1_000, 1_000_000));
            let disk = SimulatedDisk::new(key, voters);
            Node::new(disk, clock, shape.between(30, 200) as i64)
        });
        let mut world = Self {
            nodes: nodes.collect(),
            now: 0,
            queue: BinaryHeap::new(),
            scheduled: 0,
            network: Network::new(count),
            random: Random::new(plan.seed, 5),
            oracle: Oracle::default(),
            coverage: Coverage::default(),
            cluster_id: new_uuid(&mut ids),
            ids,
            waiters: HashMap::new(),
            last_handle: 0,
            last_proposal: 0,
            voters_wanted: [1, 2, 3, 3, 4, 5][shape.index(6)].min(count),
            calm: Calm::default(),
            troubles_this_minute: 0,
            proposals_this_minute: 0,
            plan: plan.clone(),
            trace,
        };
        world.schedule_plan();
        world
    }

    fn schedule_plan(&mut self) {
        for node in 0..self.nodes.len() {
            let at = node as Micros * 300 * MILLISECOND;
            self.at(at, SimulatedEvent::Start { node, life: 0 });
        }
        for (_, trouble) in self.plan.troubles() {
            self.at(trouble.at, SimulatedEvent::Trouble(trouble));
        }
        let mut random = Random::new(self.plan.seed, 6);
        for minute in 0..self.plan.minutes {
            let begin = minute * MINUTE;
            self.at(begin, SimulatedEvent::Minute(minute));
            for _ in 0..PROPOSALS {
                let at = begin + random.between(SECOND, TROUBLE);
                self.at(at, SimulatedEvent::Propose);
            }
            let calm = begin + TROUBLE;
            self.at(calm, SimulatedEvent::Calm(CalmStep::Heal));
            for step in 0..80 {
                self.at(calm + step * 100 * MILLISECOND, SimulatedEvent::Propose);
            }
            self.at(
                calm + 5_500 * MILLISECOND,
                SimulatedEvent::Calm(CalmStep::LeaderExpected),
            );
            self.at(
                calm + 7_500 * MILLISECOND,
                SimulatedEvent::Calm(CalmStep::CaughtUpExpected),
            );
            self.at(
                calm + 8_000 * MILLISECOND,
                SimulatedEvent::Calm(CalmStep::KillLeader),
            );
            self.at(
                calm + 8_900 * MILLISECOND,
                SimulatedEvent::Calm(CalmStep::SuccessorExpected),
            );
        }
        self.at(250 * MILLISECOND, SimulatedEvent::Check);
        self.at(3 * SECOND, SimulatedEvent::Administer);
    }

    /// Run to the end of the plan.
    ///
    /// # Errors
    /// The first broken invariant.
    pub(crate) fn run(&mut self) -> Result<(), Violation> {
        let end = self.plan.minutes * MINUTE;
        while let Some(Reverse(scheduled)) = self.queue.pop() {
            if scheduled.at >= end {
                break;
            }
            self.now = scheduled.at;
            self.coverage.events += 1;
            self.happen(scheduled.what)?;
        }
        self.count_minute();
        self.coverage.minutes = self.plan.minutes;
        Ok(())
    }

    /// Return the simulated time.
    #[must_use]
    pub(crate) fn now(&self) -> Micros {
        self.now
    }

    /// Return the counters of the run.
    #[must_use]
    pub(crate) fn coverage(&self) -> &Coverage {
        &self.coverage
    }

    fn happen(&mut self, what: SimulatedEvent) -> Result<(), Violation> {
        if let Some((node, life)) = what.addressee() {
            let paused_until = self.nodes[node].paused_until;
            if paused_until > self.now {
                self.at(paused_until, what);
                return Ok(());
            }
            if life != self.nodes[node].life {
                return Ok(());
            }
        }
        match what {
            SimulatedEvent::Minute(minute) => {
                if minute > 0 {
                    self.count_minute();
                }
                self.calm.is_on = false;
                let spins = self.coverage.events > EVENTS_MAX * (minute + 1);
                require!(
                    !spins,
                    "replicas do not talk in circles",
                    "{} events",
                    self.coverage.events
                );
                Ok(())
            }
            SimulatedEvent::Trouble(trouble) => {
                self.troubles_this_minute += 1;
                *self.coverage.troubles.entry(trouble.kind).or_default() += 1;
                self.trouble(trouble)
            }
            SimulatedEvent::TroubleOver(trouble) => {
                self.trouble_over(trouble);
                Ok(())
            }
            SimulatedEvent::Propose => {
                self.proposals_this_minute += 1;
                self.propose()
            }
            SimulatedEvent::Check => {
                self.at(self.now + 250 * MILLISECOND, SimulatedEvent::Check);
                self.check_leaders()
            }
            SimulatedEvent::Administer => {
                self.at(self.now + 500 * MILLISECOND, SimulatedEvent::Administer);
                self.administer()
            }
            SimulatedEvent::Calm(step) => self.calm_step(step),
            addressed => self.process(addressed),
        }
    }

    fn count_minute(&mut self) {
        let (troubles, proposals) = (self.troubles_this_minute, self.proposals_this_minute);
        let coverage = &mut self.coverage;
        coverage.troubles_min = Some(
            coverage
                .troubles_min
                .map_or(troubles, |min| min.min(troubles)),
        );
        coverage.proposals_min = Some(
            coverage
                .proposals_min
                .map_or(proposals, |min| min.min(proposals)),
        );
        coverage.proposals += proposals;
        (self.troubles_this_minute, self.proposals_this_minute) = (0, 0);
    }

    /// Schedule an event.
    pub(crate) fn at(&mut self, at: Micros, what: SimulatedEvent) {
        self.scheduled += 1;
        let number = self.scheduled;
        self.queue
            .push(Reverse(ScheduledEvent { at, number, what }));
    }

    /// Print a line of the trace.
    pub(crate) fn tell(&self, line: impl FnOnce() -> String) {
        if self.trace {
            println!("{:>12.3} ms  {}", self.now as f64 / 1000.0, line());
        }
    }

    /// Return the running leader of the highest epoch.
    pub(crate) fn leader(&self) -> Option<usize> {
        let epoch = |node: &Node| node.quorum.as_ref().map(|quorum| quorum.state().epoch);
        let leaders = self
            .nodes
            .iter()
            .enumerate()
            .filter(|(_, node)| node.leads());
        leaders
            .max_by_key(|(_, node)| epoch(node))
            .map(|(index, _)| index)
    }

    /// Return the node that is this replica: its id matches, and its present disk has the directory id.
    pub(crate) fn node_of(&self, key: ReplicaKey) -> Option<usize> {
        let index = usize::try_from(key.id).ok()?;
        (self.nodes.get(index)?.key() == key).then_some(index)
    }
}

impl SimulatedEvent {
    /// Return the process that the event concerns, if any.
    fn addressee(&self) -> Option<(usize, u32)> {
        match *self {
            Self::Response { to, life, .. } | Self::Refused { to, life, .. } => Some((to, life)),
            Self::Timer { node, life, .. }
            | Self::Flushed { node, life, .. }
            | Self::StateWritten { node, life, .. }
            | Self::Start { node, life } => Some((node, life)),
            _ => None,
        }
    }
}

/// Return a random id.
pub(crate) fn new_uuid(random: &mut Random) -> Uuid {
    Uuid::from_parts(random.bits(), random.bits())
}

/// Return the replica of a node with a new disk.
pub(crate) fn new_key(node: usize, random: &mut Random) -> ReplicaKey {
    ReplicaKey {
        id: node as i32,
        directory: new_uuid(random),
    }
}
