//! Where readers of a segment are: what the last look-ups found, so that the next ones need no read.
//!
//! A look-up costs reads of the index and of batch headers. Consumers ask for the same offset again (a partition
//! whose first batch did not fit the answer), or for the one after the batch just given: both are remembered.

use parking_lot::Mutex;

/// Places of one segment that are remembered: a few readers, two each.
const PLACES: usize = 16;

/// Where the first batch that reaches an offset lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ReaderPlace {
    /// What a reader asked for.
    pub(super) relative_offset: u32,
    pub(super) position: u32,
    /// Size of the batch; `None` until its header was read.
    pub(super) bytes: Option<u32>,
}

/// How often the file was cut: what was found before a cut may not be noted after it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Default)]
pub(crate) struct Cut(u64);

/// See the module.
#[derive(Debug, Default)]
pub(super) struct ReaderPlaces(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    cut: Cut,
    /// Empty until the first look-up that had to read: most segments are never read.
    places: Vec<ReaderPlace>,
    /// Which one is replaced next.
    oldest: usize,
}

impl ReaderPlaces {
    /// What is known of an offset, and the state of the file that a note must refer to: taken before the end of the
    /// segment is looked at.
    pub(super) fn get(&self, relative_offset: u32) -> (Option<ReaderPlace>, Cut) {
        let known = self.0.lock();
        let place = known
            .places
            .iter()
            .find(|place| place.relative_offset == relative_offset);
        (place.copied(), known.cut)
    }

    /// Notes what was found, unless the file was cut since `cut` was taken.
    pub(super) fn note(&self, cut: Cut, found: ReaderPlace) {
        let mut known = self.0.lock();
        if known.cut != cut {
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

    /// The file was cut or replaced.
    pub(super) fn forget(&self) {
        let mut known = self.0.lock();
        known.cut.0 += 1;
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
        let (found, cut) = places.get(0);
        assert_eq!(found, None);
        for offset in 0..PLACES as u32 + 3 {
            places.note(cut, place(offset, None));
        }
        assert_eq!(places.get(2).0, None, "replaced");
        assert_eq!(places.get(3).0, Some(place(3, None)));
        places.note(cut, place(3, Some(7)));
        places.note(cut, place(3, None));
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
        assert_eq!(found, None, "the cut came between");
        places.note(after, place(1, Some(6)));
        assert_eq!(places.get(1).0, Some(place(1, Some(6))));
    }
}
