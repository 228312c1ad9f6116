//! The known addresses of nodes.

use pybroker_metadata_log::Endpoint;
use pybroker_quorum::VoterSet;

/// The addresses of this node and of other nodes that messages or the log have named.
#[derive(Debug)]
pub(crate) struct Addresses {
    own: i32,
    known: Vec<Endpoint>,
}

impl Addresses {
    /// `endpoints` are the addresses of the node `own`, from its settings.
    pub(crate) fn new(own: i32, endpoints: Vec<Endpoint>) -> Self {
        Self {
            own,
            known: endpoints,
        }
    }

    /// Remember addresses of nodes. New addresses of a node replace its old ones. Addresses of this node are ignored,
    /// because its settings have them.
    pub(crate) fn learn(&mut self, endpoints: Vec<Endpoint>) {
        for endpoint in endpoints {
            if endpoint.node == self.own {
                continue;
            }
            match self
                .known
                .iter_mut()
                .find(|known| known.node == endpoint.node)
            {
                Some(known) => *known = endpoint,
                None => self.known.push(endpoint),
            }
        }
    }

    pub(crate) fn all(&self) -> &[Endpoint] {
        &self.known
    }

    /// Return the first address of a node.
    pub(crate) fn of(&self, node: i32) -> Option<Endpoint> {
        self.known.iter().find(|known| known.node == node).cloned()
    }

    /// Return all addresses of a node.
    pub(crate) fn all_of(&self, node: i32) -> Vec<Endpoint> {
        self.those(|known| known.node == node)
    }

    pub(crate) fn of_voters(&self, voters: &VoterSet) -> Vec<Endpoint> {
        self.those(|known| voters.has_id(known.node))
    }

    fn those(&self, wanted: impl Fn(&Endpoint) -> bool) -> Vec<Endpoint> {
        self.known
            .iter()
            .filter(|known| wanted(known))
            .cloned()
            .collect()
    }
}
