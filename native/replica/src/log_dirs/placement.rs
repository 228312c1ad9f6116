//! Placement of new partitions on log directories (JBOD). No I/O.

/// Chooses the directory with the fewest partitions, or the first of several such directories. Each choice is counted
/// for the next one. `counts` has the number of partitions of each directory, or `None` if it is offline.
#[derive(Debug, Clone)]
pub(crate) struct Placement {
    counts: Vec<Option<usize>>,
}

impl Placement {
    pub(crate) fn new(counts: Vec<Option<usize>>) -> Self {
        Self { counts }
    }

    /// Choose a directory; `None` if all are offline.
    pub(crate) fn choose(&mut self) -> Option<usize> {
        let online = self
            .counts
            .iter_mut()
            .enumerate()
            .filter_map(|(at, count)| Some((at, count.as_mut()?)));
        let (at, count) = online.min_by_key(|(at, count)| (**count, *at))?;
        *count += 1;
        Some(at)
    }
}

#[cfg(test)]
mod tests {
    use super::Placement;

    #[test]
    fn the_emptiest_directory_first_and_offline_ones_never() {
        let mut placement = Placement::new(vec![Some(2), None, Some(0)]);
        let chosen: Vec<_> = (0..5).map(|_| placement.choose()).collect();
        assert_eq!(chosen, [Some(2), Some(2), Some(0), Some(2), Some(0)]);
        assert_eq!(Placement::new(vec![None]).choose(), None);
    }
}
