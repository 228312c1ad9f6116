//! The plan of a run: all of its faults, drawn from the seed before the run begins. Leaving faults out does not change
//! the others.

use std::collections::BTreeSet;
use std::fmt;

use pybroker_quorum::Fault;

use crate::network::Micros;
use crate::random::Random;

/// A millisecond of simulated time.
pub(crate) const MILLISECOND: Micros = 1_000;
/// A second of simulated time.
pub(crate) const SECOND: Micros = 1_000 * MILLISECOND;
/// A minute of simulated time.
pub(crate) const MINUTE: Micros = 60 * SECOND;
/// Faults happen in the first part of each minute. In the rest all faults are healed, and the quorum must elect a
/// leader and commit.
pub(crate) const TROUBLE: Micros = 48 * SECOND;
/// Proposals in each minute.
pub(crate) const PROPOSALS: u64 = 110;

macro_rules! trouble_kinds {
    ($($(#[doc = $text:literal])+ $name:ident = $word:literal,)+) => {
        /// A kind of fault.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
        pub enum Trouble {
            $($(#[doc = $text])+ $name,)+
        }

        impl Trouble {
            /// Every kind of fault.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// Return the name on the command line.
            #[must_use]
            pub fn word(self) -> &'static str {
                match self {
                    $(Self::$name => $word,)+
                }
            }
        }
    };
}

trouble_kinds! {
    /// A node dies and starts again.
    Crash = "crash",
    /// A node dies at one of its next writes or flushes.
    CrashAtWrite = "crash-at-write",
    /// All nodes lose power at the same time.
    PowerCut = "power-cut",
    /// A node is paused.
    Pause = "pause",
    /// A node cannot reach any other, in either direction.
    CutOff = "cut-off",
    /// The leader cannot reach any other node, in either direction.
    CutLeader = "cut-leader",
    /// Messages from one node to another do not arrive.
    OneWay = "one-way",
    /// The nodes split into two groups.
    Partition = "partition",
    /// Messages are lost or arrive twice.
    Loss = "loss",
    /// Messages are slow and overtake each other.
    Delay = "delay",
    /// A disk is slow.
    SlowDisk = "slow-disk",
    /// A write fails.
    DiskError = "disk-error",
    /// A disk is full.
    DiskFull = "disk-full",
    /// A clock jumps ahead.
    ClockJump = "clock-jump",
    /// A clock runs faster or slower.
    ClockRate = "clock-rate",
    /// The administrator wants another number of voters.
    VoterCount = "voter-count",
    /// The leader transfers its leadership to another node.
    Transfer = "transfer",
    /// A node gets an empty disk.
    SwapDisk = "swap-disk",
    /// A connection is refused although the process runs.
    Refusal = "refusal",
    /// A node gets requests that it must refuse.
    Probe = "probe",
    /// A node writes a snapshot early and truncates its log.
    Snapshot = "snapshot",
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// Faults that interrupt the first elections.
const EARLY: &[Trouble] = &[
    Trouble::Delay,
    Trouble::SlowDisk,
    Trouble::Loss,
    Trouble::CutLeader,
    Trouble::Crash,
    Trouble::CrashAtWrite,
    Trouble::Partition,
    Trouble::Pause,
];

/// A fault and its time.
#[derive(Debug, Clone, Copy)]
pub struct PlannedTrouble {
    /// When it begins.
    pub at: Micros,
    /// How long it lasts.
    pub lasts: Micros,
    /// The kind of fault.
    pub kind: Trouble,
    /// Seed of the fault's details.
    pub seed: u64,
}

/// The plan of a run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Seed of all random numbers.
    pub seed: u64,
    /// Simulated minutes.
    pub minutes: u64,
    /// Kinds of faults to leave out.
    pub without: BTreeSet<Trouble>,
    /// Indexes of single faults to leave out.
    pub skipped: BTreeSet<usize>,
    /// The fault planted in the state machine.
    pub fault: Option<Fault>,
}

impl Plan {
    /// Create a run with all kinds of faults.
    #[must_use]
    pub fn new(seed: u64, minutes: u64) -> Self {
        Self {
            seed,
            minutes,
            without: BTreeSet::new(),
            skipped: BTreeSet::new(),
            fault: None,
        }
    }

    /// Return the number of nodes, 3 to 6.
    #[must_use]
    pub fn nodes(&self) -> usize {
        Random::new(self.seed, 1).between(3, 6) as usize
    }

    /// Return the number of voters in the formatted cluster: mostly the first node alone.
    #[must_use]
    pub fn first_voters(&self) -> usize {
        let mut random = Random::new(self.seed, 8);
        match random.percent(40) {
            true => random.between(2, 3) as usize,
            false => 1,
        }
    }

    /// Return the faults in order. The plan may leave some out.
    #[must_use]
    pub fn troubles(&self) -> Vec<(usize, PlannedTrouble)> {
        let mut random = Random::new(self.seed, 2);
        let mut troubles = Vec::new();
        for minute in 0..self.minutes {
            // In the first minute, a cluster with one voter grows to its full size. A cluster that starts with several
            // voters has faults during its first elections instead.
            let (first, early) = match (minute, self.first_voters()) {
                (0, 1) => (8 * SECOND, 0),
                (0, _) => (SECOND / 2, 8),
                _ => (0, 0),
            };
            for index in 0..random.between(8, 16) + early {
                let (last, kinds) = match index < early {
                    true => (6 * SECOND, EARLY),
                    false => (TROUBLE - SECOND, Trouble::ALL),
                };
                let at = minute * MINUTE + random.between(first, last);
                let left = (minute * MINUTE + TROUBLE).saturating_sub(at);
                troubles.push(PlannedTrouble {
                    at,
                    lasts: random.between(50 * MILLISECOND, 10 * SECOND).min(left),
                    kind: kinds[random.index(kinds.len())],
                    seed: random.bits(),
                });
            }
        }
        troubles.sort_by_key(|trouble| trouble.at);
        let numbered = troubles.into_iter().enumerate();
        numbered
            .filter(|(index, trouble)| {
                !self.skipped.contains(index) && !self.without.contains(&trouble.kind)
            })
            .collect()
    }
}
