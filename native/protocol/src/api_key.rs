//! The table of API keys: number, name, versions on client listeners, first flexible version, plane, and whether a
//! handler exists. All other code reads these facts from this table.
//!
//! The highest versions are those of Kafka 4.4.0. The lowest versions are those of Kafka 3.9.2, even if Kafka 4 no
//! longer serves them. Exceptions: Produce 0-2 are advertised but answered UNSUPPORTED_VERSION, because librdkafka
//! stops compressing without them; Fetch starts at 4, because 0-3 need message formats 0 and 1; OffsetCommit and
//! OffsetFetch start at 1, because version 0 keeps offsets in ZooKeeper; InitProducerId ends at 5, because Kafka 4.4.0
//! marks its version 6 unstable.

/// The plane that answers a request: the data plane, or a Python handler behind the bridge.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Plane {
    /// The connection's own thread answers, without the GIL.
    Native,
    /// The data plane forwards the request to the control plane.
    Python,
}

/// One row of the table.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Api {
    /// The key.
    pub key: ApiKey,
    /// Lowest version on client listeners.
    pub min_version: i16,
    /// Highest version on client listeners.
    pub max_version: i16,
    /// First version with compact lengths and tagged fields; `None` if no version has them.
    pub first_flexible: Option<i16>,
    /// The plane that answers.
    pub plane: Plane,
    /// Whether a handler exists. Only keys with a handler are advertised. A test compares the handlers with this flag.
    pub served: bool,
}

impl Api {
    /// Return the API's name in Kafka, for instance `CreateTopics`.
    pub const fn name(&self) -> &'static str {
        self.key.name()
    }

    /// Return whether client listeners serve `version` with a response other than UNSUPPORTED_VERSION.
    pub const fn supports(&self, version: i16) -> bool {
        let lowest = if matches!(self.key, ApiKey::Produce) {
            PRODUCE_LOWEST_IMPLEMENTED
        } else {
            self.min_version
        };
        self.served && version >= lowest && version <= self.max_version
    }

    /// Return the highest served version. If `topic_ids` is false (`inter.broker.protocol.version` below 2.8), return
    /// the last version without topic ids, or -1 if all versions use ids.
    pub const fn newest(&self, topic_ids: bool) -> i16 {
        if topic_ids {
            return self.max_version;
        }
        match self.key {
            ApiKey::Produce | ApiKey::Fetch => 12,
            ApiKey::Metadata | ApiKey::OffsetCommit | ApiKey::OffsetFetch => 9,
            ApiKey::TxnOffsetCommit => 5,
            ApiKey::CreateTopics => 6,
            ApiKey::DeleteTopics => 5,
            ApiKey::ListTopics => 0,
            ApiKey::ConsumerGroupHeartbeat
            | ApiKey::ConsumerGroupDescribe
            | ApiKey::ShareGroupHeartbeat
            | ApiKey::ShareGroupDescribe
            | ApiKey::ShareFetch
            | ApiKey::ShareAcknowledge
            | ApiKey::DescribeShareGroupOffsets
            | ApiKey::AlterShareGroupOffsets
            | ApiKey::DeleteShareGroupOffsets
            | ApiKey::StreamsGroupHeartbeat
            | ApiKey::StreamsGroupDescribe
            | ApiKey::StreamsGroupTopologyDescriptionUpdate
            | ApiKey::DescribeTopicPartitions
            | ApiKey::UndeleteTopics
            | ApiKey::TruncateTopics
            | ApiKey::DescribeTopicHistory
            | ApiKey::DescribeDeletions
            | ApiKey::DeleteOffsets
            | ApiKey::PurgeTopics
            | ApiKey::IngestBegin
            | ApiKey::IngestAppend
            | ApiKey::IngestCommit
            | ApiKey::IngestAbort
            | ApiKey::ListIngests => -1,
            _ => self.max_version,
        }
    }

    /// Return whether only a cluster with a metadata quorum serves the key.
    pub const fn needs_quorum(&self) -> bool {
        matches!(
            self.key,
            ApiKey::DescribeQuorum
                | ApiKey::AddRaftVoter
                | ApiKey::RemoveRaftVoter
                | ApiKey::UnregisterController
                | ApiKey::TransferQuorumLeader
        )
    }

    /// Return whether messages of `version` have compact lengths and tagged fields.
    pub const fn is_flexible(&self, version: i16) -> bool {
        matches!(self.first_flexible, Some(first) if version >= first)
    }

    /// Return the request header version of a request of `version`.
    pub const fn request_header_version(&self, version: i16) -> i16 {
        match self.key {
            ApiKey::ControlledShutdown if version == 0 => 0,
            _ if self.is_flexible(version) => 2,
            _ => 1,
        }
    }

    /// Return the response header version of a response of `version`. ApiVersions always has 0, because its sender does
    /// not know yet which versions the peer can read (KIP-511).
    pub const fn response_header_version(&self, version: i16) -> i16 {
        if self.is_flexible(version) && !matches!(self.key, ApiKey::ApiVersions) {
            1
        } else {
            0
        }
    }
}

/// Lowest implemented version of Produce. Version 0 is advertised too, but versions below this one carry message
/// formats 0 and 1.
pub const PRODUCE_LOWEST_IMPLEMENTED: i16 = 3;

macro_rules! flexible {
    (none) => {
        None
    };
    ($first:literal) => {
        Some($first)
    };
}

macro_rules! served {
    (served) => {
        true
    };
    (dormant) => {
        false
    };
}

macro_rules! apis {
    ($($key:literal $name:ident $min:literal..=$max:literal flexible $flexible:tt $plane:ident $served:ident;)*) => {
        /// The key of an API.
        #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
        #[repr(i16)]
        #[allow(missing_docs)] // the names are Kafka's
        pub enum ApiKey {
            $($name = $key,)*
        }

        impl ApiKey {
            /// Return the API's name in Kafka.
            pub const fn name(self) -> &'static str {
                match self {
                    $(ApiKey::$name => stringify!($name),)*
                }
            }
        }

        /// Every key, ascending.
        pub static APIS: &[Api] = &[
            $(Api {
                key: ApiKey::$name,
                min_version: $min,
                max_version: $max,
                first_flexible: flexible!($flexible),
                plane: Plane::$plane,
                served: served!($served),
            },)*
        ];
    };
}

// `dormant`: the codec knows the messages, but client listeners neither serve nor advertise the key.
apis! {
    0 Produce 0..=13 flexible 9 Native served;
    1 Fetch 4..=18 flexible 12 Native served;
    2 ListOffsets 0..=11 flexible 6 Native served;
    3 Metadata 0..=13 flexible 9 Native served;
    4 LeaderAndIsr 0..=7 flexible 4 Python dormant;
    5 StopReplica 0..=4 flexible 2 Python dormant;
    6 UpdateMetadata 0..=8 flexible 6 Python dormant;
    7 ControlledShutdown 0..=3 flexible 3 Python dormant;
    8 OffsetCommit 1..=10 flexible 8 Python served;
    9 OffsetFetch 1..=10 flexible 6 Python served;
    10 FindCoordinator 0..=6 flexible 3 Python served;
    11 JoinGroup 0..=9 flexible 6 Python served;
    12 Heartbeat 0..=4 flexible 4 Python served;
    13 LeaveGroup 0..=5 flexible 4 Python served;
    14 SyncGroup 0..=5 flexible 4 Python served;
    15 DescribeGroups 0..=6 flexible 5 Python served;
    16 ListGroups 0..=5 flexible 3 Python served;
    17 SaslHandshake 0..=1 flexible none Python served;
    18 ApiVersions 0..=5 flexible 3 Native served;
    19 CreateTopics 0..=7 flexible 5 Python served;
    20 DeleteTopics 0..=6 flexible 4 Python served;
    21 DeleteRecords 0..=2 flexible 2 Python served;
    22 InitProducerId 0..=5 flexible 2 Python served;
    23 OffsetForLeaderEpoch 0..=4 flexible 4 Native served;
    24 AddPartitionsToTxn 0..=5 flexible 3 Python served;
    25 AddOffsetsToTxn 0..=4 flexible 3 Python served;
    26 EndTxn 0..=5 flexible 3 Python served;
    27 WriteTxnMarkers 0..=2 flexible 1 Python served;
    28 TxnOffsetCommit 0..=6 flexible 3 Python served;
    29 DescribeAcls 0..=3 flexible 2 Python served;
    30 CreateAcls 0..=3 flexible 2 Python served;
    31 DeleteAcls 0..=3 flexible 2 Python served;
    32 DescribeConfigs 0..=4 flexible 4 Python served;
    33 AlterConfigs 0..=2 flexible 2 Python served;
    34 AlterReplicaLogDirs 0..=2 flexible 2 Python served;
    35 DescribeLogDirs 0..=5 flexible 2 Python served;
    36 SaslAuthenticate 0..=2 flexible 2 Python served;
    37 CreatePartitions 0..=3 flexible 2 Python served;
    38 CreateDelegationToken 0..=3 flexible 2 Python served;
    39 RenewDelegationToken 0..=2 flexible 2 Python served;
    40 ExpireDelegationToken 0..=2 flexible 2 Python served;
    41 DescribeDelegationToken 0..=3 flexible 2 Python served;
    42 DeleteGroups 0..=3 flexible 2 Python served;
    43 ElectLeaders 0..=2 flexible 2 Python served;
    44 IncrementalAlterConfigs 0..=1 flexible 1 Python served;
    45 AlterPartitionReassignments 0..=1 flexible 0 Python served;
    46 ListPartitionReassignments 0..=0 flexible 0 Python served;
    47 OffsetDelete 0..=0 flexible none Python served;
    48 DescribeClientQuotas 0..=1 flexible 1 Python served;
    49 AlterClientQuotas 0..=1 flexible 1 Python served;
    50 DescribeUserScramCredentials 0..=0 flexible 0 Python served;
    51 AlterUserScramCredentials 0..=0 flexible 0 Python served;
    52 Vote 0..=2 flexible 0 Python dormant;
    53 BeginQuorumEpoch 0..=1 flexible 1 Python dormant;
    54 EndQuorumEpoch 0..=1 flexible 1 Python dormant;
    55 DescribeQuorum 0..=2 flexible 0 Python served;
    56 AlterPartition 0..=3 flexible 0 Python dormant;
    57 UpdateFeatures 0..=2 flexible 0 Python served;
    58 Envelope 0..=0 flexible 0 Python dormant;
    59 FetchSnapshot 0..=1 flexible 0 Python dormant;
    60 DescribeCluster 0..=2 flexible 0 Python served;
    61 DescribeProducers 0..=0 flexible 0 Python served;
    62 BrokerRegistration 0..=4 flexible 0 Python dormant;
    63 BrokerHeartbeat 0..=2 flexible 0 Python dormant;
    64 UnregisterBroker 0..=0 flexible 0 Python served;
    65 DescribeTransactions 0..=0 flexible 0 Python served;
    66 ListTransactions 0..=2 flexible 0 Python served;
    67 AllocateProducerIds 0..=0 flexible 0 Python dormant;
    68 ConsumerGroupHeartbeat 0..=1 flexible 0 Python served;
    69 ConsumerGroupDescribe 0..=1 flexible 0 Python served;
    70 ControllerRegistration 0..=0 flexible 0 Python dormant;
    71 GetTelemetrySubscriptions 0..=0 flexible 0 Python served;
    72 PushTelemetry 0..=0 flexible 0 Python served;
    73 AssignReplicasToDirs 0..=0 flexible 0 Python dormant;
    74 ListConfigResources 0..=1 flexible 0 Python served;
    75 DescribeTopicPartitions 0..=0 flexible 0 Python served;
    76 ShareGroupHeartbeat 1..=1 flexible 0 Python served;
    77 ShareGroupDescribe 1..=1 flexible 0 Python served;
    78 ShareFetch 1..=2 flexible 0 Python served;
    79 ShareAcknowledge 1..=2 flexible 0 Python served;
    80 AddRaftVoter 0..=1 flexible 0 Python served;
    81 RemoveRaftVoter 0..=0 flexible 0 Python served;
    82 UpdateRaftVoter 0..=0 flexible 0 Python dormant;
    83 InitializeShareGroupState 0..=0 flexible 0 Python dormant;
    84 ReadShareGroupState 0..=0 flexible 0 Python dormant;
    85 WriteShareGroupState 0..=1 flexible 0 Python dormant;
    86 DeleteShareGroupState 0..=0 flexible 0 Python dormant;
    87 ReadShareGroupStateSummary 0..=1 flexible 0 Python dormant;
    88 StreamsGroupHeartbeat 0..=1 flexible 0 Python served;
    89 StreamsGroupDescribe 0..=1 flexible 0 Python served;
    90 DescribeShareGroupOffsets 0..=1 flexible 0 Python served;
    91 AlterShareGroupOffsets 0..=0 flexible 0 Python served;
    92 DeleteShareGroupOffsets 0..=0 flexible 0 Python served;
    93 StreamsGroupTopologyDescriptionUpdate 0..=0 flexible 0 Python served;
    94 UnregisterController 0..=0 flexible 0 Python served;
    32142 ListTopics 0..=1 flexible 1 Native served;
    32143 UndeleteTopics 0..=0 flexible 0 Python served;
    32144 TruncateTopics 0..=0 flexible 0 Python served;
    32145 DescribeTopicHistory 0..=0 flexible 0 Python served;
    32146 DescribeDeletions 0..=1 flexible 0 Python served;
    32147 DescribeClusterState 0..=0 flexible 0 Python served;
    32148 DeleteOffsets 0..=0 flexible 0 Python served;
    32149 PurgeTopics 0..=0 flexible 0 Python served;
    32150 IngestBegin 0..=0 flexible 0 Python served;
    32151 IngestAppend 0..=0 flexible 0 Native served;
    32152 IngestCommit 0..=0 flexible 0 Python served;
    32153 IngestAbort 0..=0 flexible 0 Python served;
    32154 ListIngests 0..=0 flexible 0 Python served;
    32155 TransferQuorumLeader 0..=0 flexible 0 Python served;
    32160 UpdateCluster 0..=0 flexible 0 Python dormant;
    32161 RestoreReplicas 0..=0 flexible 0 Python dormant;
    32162 CloseTopics 0..=0 flexible 0 Python dormant;
    32163 ReopenTopics 0..=0 flexible 0 Python dormant;
    32164 SubmitEvent 0..=0 flexible 0 Python dormant;
    32165 IngestOrder 0..=0 flexible 0 Python dormant;
    32166 VerifyTransaction 0..=0 flexible 0 Python dormant;
    32167 EndTransaction 0..=0 flexible 0 Python dormant;
    32168 AppendDeadLetters 0..=0 flexible 0 Python dormant;
    32170 ProbeBroker 0..=0 flexible 0 Python dormant;
    32171 StagedReplicas 0..=0 flexible 0 Python dormant;
}

impl ApiKey {
    /// Return the number on the wire.
    pub const fn code(self) -> i16 {
        self as i16
    }

    /// Return the key with number `code`; `None` if there is no such key.
    pub fn from_code(code: i16) -> Option<ApiKey> {
        Api::find(code).map(|api| api.key)
    }

    /// Return the key's row.
    pub fn api(self) -> &'static Api {
        Api::find(self.code()).expect("every key has a row")
    }
}

impl Api {
    /// Return the row of key number `code`, or `None` if there is no such key. Kafka's own keys need only one
    /// comparison, because their index is their number.
    pub fn find(code: i16) -> Option<&'static Api> {
        usize::try_from(code)
            .ok()
            .and_then(|row| APIS.get(row))
            .filter(|api| api.key.code() == code)
            .or_else(|| {
                APIS.iter()
                    .rev()
                    .take_while(|api| api.key.code() >= code)
                    .find(|api| api.key.code() == code)
            })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_stands_at_its_key_so_that_lookup_is_an_index() {
        for (row, api) in APIS.iter().enumerate().take(95) {
            assert_eq!(api.key.code() as usize, row);
        }
        assert!(APIS.is_sorted_by_key(|api| api.key));
    }

    #[test]
    fn lookup_finds_each_key_and_nothing_else() {
        for api in APIS {
            assert_eq!(Api::find(api.key.code()), Some(api));
        }
        for absent in [-1, 95, 32141, 32156, i16::MIN, i16::MAX] {
            assert_eq!(Api::find(absent), None, "{absent}");
        }
        assert_eq!(
            ApiKey::from_code(32142).map(ApiKey::name),
            Some("ListTopics")
        );
    }
}
