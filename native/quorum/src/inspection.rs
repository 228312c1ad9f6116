//! Whether a request is for this cluster, this topic and this voter. Checked before its epoch is believed: the epochs of
//! another cluster mean nothing here.

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
            // The leader compares with its log, committed or not.
            Ask::Fetch { .. } | Ask::FetchSnapshot { .. } => Error::None,
        }
    }

    /// Once the topic's id is committed here, requests name it, except for a Vote of a log that ends before its record.
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
