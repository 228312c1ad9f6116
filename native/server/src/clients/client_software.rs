//! Number of connections by client library, as reported by clients (KIP-511).

use std::sync::Arc;

use hashbrown::HashMap;
use parking_lot::Mutex;

use crate::control_plane::{Peer, Software};

/// Listener, name of the client library, version.
type Key = (Arc<str>, Box<str>, Box<str>);

/// Open connections by software, without clients that reported none. Changed when a client reports its software and
/// when it disconnects; bounded by the number of connections.
#[derive(Debug, Default)]
pub(crate) struct ClientSoftware(Mutex<HashMap<Key, u64>>);

impl ClientSoftware {
    /// Count a client's software, once per connection.
    pub(crate) fn told(&self, peer: &Peer, software: &Software) {
        *self.0.lock().entry(key(peer, software)).or_default() += 1;
    }

    /// Uncount the software when the connection closes.
    pub(crate) fn left(&self, peer: &Peer) {
        let Some(software) = peer.software.get() else {
            return;
        };
        let (mut counts, key) = (self.0.lock(), key(peer, software));
        if let Some(count) = counts.get_mut(&key) {
            *count -= 1;
            if *count == 0 {
                counts.remove(&key);
            }
        }
    }

    /// Return the `max` entries with most connections, the sum of the other entries, and their number.
    pub(crate) fn most(&self, max: usize) -> (Vec<(Key, u64)>, u64, usize) {
        let mut all: Vec<(Key, u64)> = {
            let counts = self.0.lock();
            counts
                .iter()
                .map(|(key, count)| (key.clone(), *count))
                .collect()
        };
        all.sort_by(|(one, more), (other, less)| less.cmp(more).then_with(|| one.cmp(other)));
        let others = all.split_off(max.min(all.len()));
        let sum = others.iter().map(|(_, count)| count).sum();
        (all, sum, others.len())
    }
}

fn key(peer: &Peer, software: &Software) -> Key {
    (
        Arc::clone(&peer.listener),
        software.name.clone(),
        software.version.clone(),
    )
}
