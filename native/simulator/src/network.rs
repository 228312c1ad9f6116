//! Links between nodes: delay, loss, duplicates, cuts in one or both directions.

use crate::random::Random;

/// Microseconds of simulated time.
pub(crate) type Micros = u64;

/// The state of all links.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: usize,
    /// By sender and receiver: how many faults cut the link.
    cuts: Vec<u32>,
    /// Percent of messages that get lost, and that come twice.
    pub(crate) loss_percent: u64,
    /// See `loss_percent`.
    pub(crate) duplicate_percent: u64,
    /// The longest delay; messages overtake one another within it.
    pub(crate) delay_max: Micros,
}

const DELAY_MIN: Micros = 100;
const DELAY_MAX: Micros = 1_000;

impl Network {
    /// Links of so many nodes, all good.
    #[must_use]
    pub(crate) fn new(nodes: usize) -> Self {
        Self {
            nodes,
            cuts: vec![0; nodes * nodes],
            loss_percent: 0,
            duplicate_percent: 0,
            delay_max: DELAY_MAX,
        }
    }

    /// Cuts a link once more.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts[from * self.nodes + to] += 1;
    }

    /// Takes one cut of a link back.
    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        let cuts = &mut self.cuts[from * self.nodes + to];
        *cuts = cuts.saturating_sub(1);
    }

    /// All links are good.
    pub(crate) fn heal(&mut self) {
        self.cuts.fill(0);
        self.calm();
    }

    /// No loss, no duplicates, short delays.
    pub(crate) fn calm(&mut self) {
        (self.loss_percent, self.duplicate_percent, self.delay_max) = (0, 0, DELAY_MAX);
    }

    /// Whether messages arrive at all.
    #[must_use]
    pub(crate) fn connects(&self, from: usize, to: usize) -> bool {
        self.cuts[from * self.nodes + to] == 0
    }

    /// Whether messages arrive in both directions.
    #[must_use]
    pub(crate) fn connects_both(&self, one: usize, other: usize) -> bool {
        self.connects(one, other) && self.connects(other, one)
    }

    /// After which delays a message arrives: never, once or twice.
    pub(crate) fn delays(
        &self,
        random: &mut Random,
        from: usize,
        to: usize,
    ) -> (Option<Micros>, Option<Micros>) {
        if !self.connects(from, to) || random.percent(self.loss_percent) {
            return (None, None);
        }
        let first = random.between(DELAY_MIN, self.delay_max);
        let again = random.percent(self.duplicate_percent);
        let second = again.then(|| random.between(DELAY_MIN, self.delay_max));
        (Some(first), second)
    }
}
