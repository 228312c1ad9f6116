//! Checks whether a request is for this cluster, this topic and this voter. They run before the replica accepts the
//! request's epoch, because epochs of another cluster mean nothing here.

use pybroker_model::Uuid;

use crate::fault::planted;
use crate::message::{Ask, Error, Request};
use crate::quorum::Quorum;

impl<D> Quorum<D> {
    pub(crate) fn inspect(&self, request: &Request) -> Error {
        if request.cluster_id != self.settings.cluster_id && !planted!(self, ClusterIdNotChecked) {
            return Error::InconsistentClusterId;
        }
        let key = self.settings.key;
        match request.ask {
            Ask::Vote { voter, .. }
                if voter.is_some_and(|voter| voter != key)
                    && !planted!(self, VoterKeyNotChecked) =>
            {
                Error::InvalidVoterKey
            }
            Ask::Vote { .. } | Ask::BeginQuorumEpoch | Ask::EndQuorumEpoch { .. } => {
                self.inspect_topic_id(request)
            }
            // The leader compares the id with the id in its log, even if that is uncommitted.
            Ask::Fetch { .. } | Ask::FetchSnapshot { .. } => Error::None,
        }
    }

    /// Return the error for a request with a wrong topic id. After the topic's id is committed here, every request must
    /// name it, except a Vote from a candidate whose log ends before the id's record.
    fn inspect_topic_id(&self, request: &Request) -> Error {
        let Some(id) = self.state.topic_id else {
            return Error::None;
        };
        let before_record = match request.ask {
            Ask::Vote { last, .. } => {
                let offset = self.log.topic_id().map_or(0, |(offset, _)| offset);
                last.offset <= offset || planted!(self, SentinelAlwaysAccepted)
            }
            _ => false,
        };
        let known = request.topic_id == id || (request.topic_id == Uuid::METADATA && before_record);
        match known || planted!(self, UnknownTopicIdAccepted) {
            true => Error::None,
            false => Error::UnknownTopicId,
        }
    }
}
