//! Links between nodes: delay, loss, duplicates, cuts in one or both directions.

use crate::random::Random;

/// Microseconds of simulated time.
pub(crate) type Micros = u64;

/// The state of all links.
#[derive(Debug)]
pub(crate) struct Network {
    nodes: usize,
    /// Number of faults that cut the link, by sender and receiver.
    cuts: Vec<u32>,
    /// Percentage of lost messages.
    pub(crate) loss_percent: u64,
    /// Percentage of messages that arrive twice.
    pub(crate) duplicate_percent: u64,
    /// The longest delay; messages may overtake each other within it.
    pub(crate) delay_max: Micros,
}

const DELAY_MIN: Micros = 100;
const DELAY_MAX: Micros = 1_000;

impl Network {
    /// Create undamaged links between `nodes` nodes.
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

    /// Cut a link once more.
    pub(crate) fn cut(&mut self, from: usize, to: usize) {
        self.cuts[from * self.nodes + to] += 1;
    }

    /// Undo one cut of a link.
    pub(crate) fn mend(&mut self, from: usize, to: usize) {
        let cuts = &mut self.cuts[from * self.nodes + to];
        *cuts = cuts.saturating_sub(1);
    }

    /// Repair all links.
    pub(crate) fn heal(&mut self) {
        self.cuts.fill(0);
        self.calm();
    }

    /// Use no loss, no duplicates, and short delays.
    pub(crate) fn calm(&mut self) {
        (self.loss_percent, self.duplicate_percent, self.delay_max) = (0, 0, DELAY_MAX);
    }

    /// Return whether messages arrive at all.
    #[must_use]
    pub(crate) fn connects(&self, from: usize, to: usize) -> bool {
        self.cuts[from * self.nodes + to] == 0
    }

    /// Return whether messages arrive in both directions.
    #[must_use]
    pub(crate) fn connects_both(&self, one: usize, other: usize) -> bool {
        self.connects(one, other) && self.connects(other, one)
    }

    /// Return the delays after which a message arrives: none, one or two.
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
