//! What happens in a run, drawn from its seed before it begins. A plan can be thinned out without changing the rest.

use std::collections::BTreeSet;
use std::fmt;

use pybroker_quorum::Fault;

use crate::network::Micros;
use crate::random::Random;

/// A millisecond and a second of simulated time.
pub(crate) const MILLISECOND: Micros = 1_000;
/// See [`MILLISECOND`].
pub(crate) const SECOND: Micros = 1_000 * MILLISECOND;
/// A minute of simulated time.
pub(crate) const MINUTE: Micros = 60 * SECOND;
/// Faults happen in the first part of each minute; then all is healed and the quorum must lead and commit.
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
            /// Every kind.
            pub const ALL: &[Self] = &[$(Self::$name),+];

            /// The name on the command line.
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
    /// All nodes lose power at once.
    PowerCut = "power-cut",
    /// A node stands still.
    Pause = "pause",
    /// A node is cut off in both directions.
    CutOff = "cut-off",
    /// The leader is cut off in both directions.
    CutLeader = "cut-leader",
    /// Messages from one node to another do not arrive.
    OneWay = "one-way",
    /// The nodes fall into two groups.
    Partition = "partition",
    /// Messages get lost and come twice.
    Loss = "loss",
    /// Messages take long and overtake one another.
    Delay = "delay",
    /// A disk takes long.
    SlowDisk = "slow-disk",
    /// A write fails.
    DiskError = "disk-error",
    /// A disk is full.
    DiskFull = "disk-full",
    /// A clock jumps ahead.
    ClockJump = "clock-jump",
    /// A clock runs faster or slower.
    ClockRate = "clock-rate",
    /// Another number of voters is wanted.
    VoterCount = "voter-count",
    /// The leader hands over to another.
    Transfer = "transfer",
    /// A node gets an empty disk.
    SwapDisk = "swap-disk",
    /// A connection is refused although the process lives.
    Refusal = "refusal",
    /// Requests that must be refused.
    Probe = "probe",
    /// A log is cut by a snapshot early.
    Snapshot = "snapshot",
}

impl fmt::Display for Trouble {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.word())
    }
}

/// What interrupts the first elections.
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

/// A fault at a time.
#[derive(Debug, Clone, Copy)]
pub struct PlannedTrouble {
    /// When it begins.
    pub at: Micros,
    /// How long it lasts.
    pub lasts: Micros,
    /// What it is.
    pub kind: Trouble,
    /// Where the details are drawn from.
    pub seed: u64,
}

/// A run.
#[derive(Debug, Clone)]
pub struct Plan {
    /// Everything random comes from it.
    pub seed: u64,
    /// Simulated minutes.
    pub minutes: u64,
    /// Kinds of faults that are left out.
    pub without: BTreeSet<Trouble>,
    /// Single faults that are left out, by their index.
    pub skipped: BTreeSet<usize>,
    /// What is planted in the state machine.
    pub fault: Option<Fault>,
}

impl Plan {
    /// A run with all kinds of faults.
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

    /// Number of nodes, 3 to 6.
    #[must_use]
    pub fn nodes(&self) -> usize {
        Random::new(self.seed, 1).between(3, 6) as usize
    }

    /// Voters that the cluster is formatted with: mostly the first node alone.
    #[must_use]
    pub fn first_voters(&self) -> usize {
        let mut random = Random::new(self.seed, 8);
        match random.percent(40) {
            true => random.between(2, 3) as usize,
            false => 1,
        }
    }

    /// The faults in their order. Leaving some out does not change the others.
    #[must_use]
    pub fn troubles(&self) -> Vec<(usize, PlannedTrouble)> {
        let mut random = Random::new(self.seed, 2);
        let mut troubles = Vec::new();
        for minute in 0..self.minutes {
            // The first minute begins with the cluster's growth, unless it has several voters at once: then the first
            // elections meet faults.
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
