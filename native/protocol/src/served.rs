//! Keys and versions that a listener serves, depending on its registry.

use crate::api_key::{APIS, Api, ApiKey};
use crate::codec::Registry;

/// A message of the KIP-516 text, or one of pybroker's own that brokers use among themselves. Layouts:
/// `schema/interbroker`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InterBrokerApi {
    /// The key.
    pub key: ApiKey,
    /// The version before, with topic names, for brokers whose `inter.broker.protocol.version` is below 2.8. `None` if
    /// brokers have no such version.
    pub by_name: Option<i16>,
    /// Lowest version with topic ids.
    pub lowest: i16,
    /// Version of the KIP-516 text. That text defines the quorum's messages in version 0; for them this is the newest
    /// version instead.
    pub version: i16,
}

const fn own(key: ApiKey, version: i16) -> InterBrokerApi {
    InterBrokerApi {
        key,
        by_name: None,
        lowest: version,
        version,
    }
}

/// Return an API of the metadata quorum.
const fn of_quorum(key: ApiKey, lowest: i16) -> InterBrokerApi {
    InterBrokerApi {
        lowest,
        ..own(key, 1)
    }
}

/// Return an API whose version before `version` uses topic names.
const fn by_name(key: ApiKey, version: i16) -> InterBrokerApi {
    InterBrokerApi {
        key,
        by_name: Some(version - 1),
        lowest: version,
        version,
    }
}

/// The APIs of inter-broker listeners, ascending. They have their own layouts, except the messages about the state of
/// share groups, which have Kafka's.
pub static INTER_BROKER_APIS: &[InterBrokerApi] = &[
    own(ApiKey::Produce, 9),
    by_name(ApiKey::Fetch, 13),
    by_name(ApiKey::ListOffsets, 6),
    by_name(ApiKey::LeaderAndIsr, 5),
    by_name(ApiKey::StopReplica, 4),
    by_name(ApiKey::UpdateMetadata, 7),
    own(ApiKey::ControlledShutdown, 3),
    by_name(ApiKey::OffsetForLeaderEpoch, 4),
    of_quorum(ApiKey::Vote, 0),
    of_quorum(ApiKey::BeginQuorumEpoch, 0),
    of_quorum(ApiKey::EndQuorumEpoch, 0),
    own(ApiKey::AlterPartition, 3),
    own(ApiKey::Envelope, 0),
    of_quorum(ApiKey::FetchSnapshot, 1),
    own(ApiKey::InitializeShareGroupState, 0),
    own(ApiKey::ReadShareGroupState, 0),
    own(ApiKey::WriteShareGroupState, 1),
    own(ApiKey::DeleteShareGroupState, 0),
    own(ApiKey::ReadShareGroupStateSummary, 1),
    own(ApiKey::IngestAppend, 0),
    own(ApiKey::UpdateCluster, 0),
    own(ApiKey::RestoreReplicas, 0),
    own(ApiKey::CloseTopics, 0),
    own(ApiKey::ReopenTopics, 0),
    own(ApiKey::SubmitEvent, 0),
    own(ApiKey::IngestOrder, 0),
    own(ApiKey::VerifyTransaction, 0),
    own(ApiKey::EndTransaction, 0),
    own(ApiKey::AppendDeadLetters, 0),
    own(ApiKey::ProbeBroker, 0),
    own(ApiKey::StagedReplicas, 0),
];

/// Properties of the cluster on which the served versions depend.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClusterKind {
    /// Whether `inter.broker.protocol.version` is 2.8 or later. Otherwise listeners serve only versions with topic
    /// names.
    pub topic_ids: bool,
    /// Whether the cluster has a metadata quorum.
    pub quorum: bool,
}

impl Api {
    /// Return the lowest and highest version that listeners of `registry` serve, or `None` if they do not serve the
    /// key. Brokers use the versions of the KIP-516 text, after authenticating like clients.
    #[inline]
    pub fn versions_on(&self, registry: Registry, cluster: ClusterKind) -> Option<(i16, i16)> {
        match registry {
            Registry::Client => (self.served && (cluster.quorum || !self.needs_quorum()))
                .then(|| (self.min_version, self.newest(cluster.topic_ids))),
            Registry::InterBroker => self.versions_among_brokers(cluster.topic_ids),
        }
    }

    fn versions_among_brokers(&self, topic_ids: bool) -> Option<(i16, i16)> {
        if matches!(
            self.key,
            ApiKey::ApiVersions | ApiKey::SaslHandshake | ApiKey::SaslAuthenticate
        ) {
            return Some((self.min_version, self.max_version));
        }
        let own = INTER_BROKER_APIS.iter().find(|own| own.key == self.key)?;
        match (own.by_name, topic_ids) {
            (Some(by_name), false) => Some((by_name, by_name)),
            // Brokers have no version of Produce without topic ids: the only version among brokers is the one of the
            // KIP-516 text.
            (None, false) if own.key == ApiKey::Produce => None,
            (by_name, _) => Some((by_name.unwrap_or(own.lowest), own.version)),
        }
    }

    /// Return the rows that ApiVersions advertises on listeners of `registry`, ascending: row, lowest version, highest
    /// version.
    pub fn advertised(
        registry: Registry,
        cluster: ClusterKind,
    ) -> impl Iterator<Item = (&'static Api, i16, i16)> {
        APIS.iter()
            .filter_map(move |api| {
                let (lowest, highest) = api.versions_on(registry, cluster)?;
                Some((api, lowest, highest))
            })
            .filter(|(_, lowest, highest)| lowest <= highest)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const fn cluster(topic_ids: bool) -> ClusterKind {
        ClusterKind {
            topic_ids,
            quorum: false,
        }
    }

    #[test]
    fn without_topic_ids_only_versions_by_name_are_left() {
        let rows: Vec<_> = Api::advertised(Registry::Client, cluster(false))
            .filter(|(api, _, highest)| *highest < api.max_version)
            .map(|(api, lowest, highest)| (api.key, lowest, highest))
            .collect();
        assert_eq!(
            rows,
            [
                (ApiKey::Produce, 0, 12),
                (ApiKey::Fetch, 4, 12),
                (ApiKey::Metadata, 0, 9),
                (ApiKey::OffsetCommit, 1, 9),
                (ApiKey::OffsetFetch, 1, 9),
                (ApiKey::CreateTopics, 0, 6),
                (ApiKey::DeleteTopics, 0, 5),
                (ApiKey::TxnOffsetCommit, 0, 5),
                (ApiKey::ListTopics, 0, 0),
            ]
        );
        let gone = Api::advertised(Registry::Client, cluster(true)).count()
            - Api::advertised(Registry::Client, cluster(false)).count();
        assert_eq!(gone, 24);
    }

    #[test]
    fn keys_of_the_quorum_are_served_to_clients_of_a_quorum() {
        let quorum = ClusterKind {
            topic_ids: true,
            quorum: true,
        };
        let without: Vec<_> = Api::advertised(Registry::Client, cluster(true)).collect();
        let added: Vec<_> = Api::advertised(Registry::Client, quorum)
            .filter(|row| !without.contains(row))
            .map(|(api, lowest, highest)| (api.key, lowest, highest))
            .collect();
        assert_eq!(
            added,
            [
                (ApiKey::DescribeQuorum, 0, 2),
                (ApiKey::AddRaftVoter, 0, 1),
                (ApiKey::RemoveRaftVoter, 0, 0),
                (ApiKey::UnregisterController, 0, 0),
                (ApiKey::TransferQuorumLeader, 0, 0),
            ]
        );
    }

    #[test]
    fn produce_below_3_is_advertised_but_not_supported() {
        let produce = ApiKey::Produce.api();
        assert_eq!((produce.min_version, produce.max_version), (0, 13));
        assert!(!produce.supports(2));
        assert!(produce.supports(3));
    }

    #[test]
    fn header_versions_follow_the_first_flexible_version() {
        assert_eq!(ApiKey::Metadata.api().request_header_version(8), 1);
        assert_eq!(ApiKey::Metadata.api().request_header_version(9), 2);
        assert_eq!(ApiKey::Metadata.api().response_header_version(9), 1);
        assert_eq!(ApiKey::ApiVersions.api().request_header_version(3), 2);
        assert_eq!(ApiKey::ApiVersions.api().response_header_version(3), 0);
        assert_eq!(
            ApiKey::ControlledShutdown.api().request_header_version(0),
            0
        );
        assert_eq!(ApiKey::SaslHandshake.api().request_header_version(1), 1);
    }

    // checklist: 67
    #[test]
    fn below_2_8_brokers_are_served_the_versions_by_name() {
        let of = |topic_ids| {
            Api::advertised(Registry::InterBroker, cluster(topic_ids))
                .map(|(api, lowest, highest)| (api.key, (lowest, highest)))
                .collect::<std::collections::BTreeMap<_, _>>()
        };
        let (without, with) = (of(false), of(true));
        let other: Vec<_> = with
            .iter()
            .filter(|(key, versions)| without.get(*key) != Some(*versions))
            .map(|(key, _)| (*key, without.get(key).copied()))
            .collect();
        assert_eq!(
            other,
            [
                (ApiKey::Produce, None),
                (ApiKey::Fetch, Some((12, 12))),
                (ApiKey::ListOffsets, Some((5, 5))),
                (ApiKey::LeaderAndIsr, Some((4, 4))),
                (ApiKey::StopReplica, Some((3, 3))),
                (ApiKey::UpdateMetadata, Some((6, 6))),
                (ApiKey::OffsetForLeaderEpoch, Some((3, 3))),
            ]
        );
    }

    #[test]
    fn brokers_are_served_what_has_a_handler_in_the_texts_version() {
        let rows: Vec<_> = Api::advertised(Registry::InterBroker, cluster(true))
            .map(|(api, lowest, highest)| (api.key, lowest, highest))
            .collect();
        assert_eq!(
            rows,
            [
                (ApiKey::Produce, 9, 9),
                (ApiKey::Fetch, 12, 13),
                (ApiKey::ListOffsets, 5, 6),
                (ApiKey::LeaderAndIsr, 4, 5),
                (ApiKey::StopReplica, 3, 4),
                (ApiKey::UpdateMetadata, 6, 7),
                (ApiKey::ControlledShutdown, 3, 3),
                (ApiKey::SaslHandshake, 0, 1),
                (ApiKey::ApiVersions, 0, 5),
                (ApiKey::OffsetForLeaderEpoch, 3, 4),
                (ApiKey::SaslAuthenticate, 0, 2),
                (ApiKey::Vote, 0, 1),
                (ApiKey::BeginQuorumEpoch, 0, 1),
                (ApiKey::EndQuorumEpoch, 0, 1),
                (ApiKey::AlterPartition, 3, 3),
                (ApiKey::Envelope, 0, 0),
                (ApiKey::FetchSnapshot, 1, 1),
                (ApiKey::InitializeShareGroupState, 0, 0),
                (ApiKey::ReadShareGroupState, 0, 0),
                (ApiKey::WriteShareGroupState, 1, 1),
                (ApiKey::DeleteShareGroupState, 0, 0),
                (ApiKey::ReadShareGroupStateSummary, 1, 1),
                (ApiKey::IngestAppend, 0, 0),
                (ApiKey::UpdateCluster, 0, 0),
                (ApiKey::RestoreReplicas, 0, 0),
                (ApiKey::CloseTopics, 0, 0),
                (ApiKey::ReopenTopics, 0, 0),
                (ApiKey::SubmitEvent, 0, 0),
                (ApiKey::IngestOrder, 0, 0),
                (ApiKey::VerifyTransaction, 0, 0),
                (ApiKey::EndTransaction, 0, 0),
                (ApiKey::AppendDeadLetters, 0, 0),
                (ApiKey::ProbeBroker, 0, 0),
                (ApiKey::StagedReplicas, 0, 0),
            ]
        );
    }
}
