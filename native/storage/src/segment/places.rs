//! Recent lookups of a segment's readers, so that the next ones need no read.
//!
//! A lookup reads the index and batch headers. Consumers fetch the same offset again (if the first batch did not fit
//! the response), or the offset after the last batch. The segment remembers the positions of both.

use parking_lot::Mutex;

/// Number of remembered positions of a segment: two for each of a few readers.
const PLACES: usize = 16;

/// Position of the first batch that reaches an offset.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderPlace {
    /// The offset of the lookup.
    pub(super) relative_offset: u32,
    pub(super) position: u32,
    /// Size of the batch; `None` until its header was read.
    pub(super) bytes: Option<u32>,
}

/// Number of truncations of the file. A position that was looked up before a truncation must not be remembered after
/// it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct TruncationCount(u64);

/// Recent lookups of a segment.
#[derive(Debug, Default)]
pub(super) struct ReaderPlaces(Mutex<RecentLookups>);

#[derive(Debug, Default)]
struct RecentLookups {
    truncations: TruncationCount,
    /// Empty until the first lookup that had to read, because most segments are never read.
    places: Vec<ReaderPlace>,
    /// Index of the next entry to replace.
    oldest: usize,
}

impl ReaderPlaces {
    /// Return the remembered position of an offset, and the truncation count for [`Self::note`]. Call this before
    /// reading the end of the segment.
    pub(super) fn get(&self, relative_offset: u32) -> (Option<ReaderPlace>, TruncationCount) {
        let known = self.0.lock();
        let place = known
            .places
            .iter()
            .find(|place| place.relative_offset == relative_offset);
        (place.copied(), known.truncations)
    }

    /// Remember a result, unless the file was truncated since `truncations` was taken.
    pub(super) fn note(&self, truncations: TruncationCount, found: ReaderPlace) {
        let mut known = self.0.lock();
        if known.truncations != truncations {
            return;
        }
        let same = |place: &&mut ReaderPlace| place.relative_offset == found.relative_offset;
        if let Some(place) = known.places.iter_mut().find(same) {
            if found.bytes.is_some() {
                *place = found;
            }
        } else if known.places.len() < PLACES {
            known.places.push(found);
        } else {
            let oldest = known.oldest;
            known.places[oldest] = found;
            known.oldest = (oldest + 1) % PLACES;
        }
    }

    /// Forget everything: the file was truncated or replaced.
    pub(super) fn forget(&self) {
        let mut known = self.0.lock();
        known.truncations.0 += 1;
        known.places.clear();
        known.oldest = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::{PLACES, ReaderPlace, ReaderPlaces};

    const fn place(relative_offset: u32, bytes: Option<u32>) -> ReaderPlace {
        ReaderPlace {
            relative_offset,
            position: relative_offset * 100,
            bytes,
        }
    }

    #[test]
    fn the_latest_places_are_known() {
        let places = ReaderPlaces::default();
        let (found, truncations) = places.get(0);
        assert_eq!(found, None);
        for offset in 0..PLACES as u32 + 3 {
            places.note(truncations, place(offset, None));
        }
        assert_eq!(places.get(2).0, None, "replaced");
        assert_eq!(places.get(3).0, Some(place(3, None)));
        places.note(truncations, place(3, Some(7)));
        places.note(truncations, place(3, None));
        assert_eq!(places.get(3).0, Some(place(3, Some(7))), "size kept");
    }

    #[test]
    fn what_was_found_before_a_cut_is_not_noted_after_it() {
        let places = ReaderPlaces::default();
        let (_, before) = places.get(1);
        places.note(before, place(1, Some(5)));
        places.forget();
        assert_eq!(places.get(1).0, None);
        places.note(before, place(1, Some(5)));
        let (found, after) = places.get(1);
        assert_eq!(found, None, "the truncation came between");
        places.note(after, place(1, Some(6)));
        assert_eq!(places.get(1).0, Some(place(1, Some(6))));
    }
}
