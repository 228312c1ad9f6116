//! Faults that the simulator plants to prove that it detects them. Builds without the feature `planted` contain no
//! faults: [`planted!`] is `false`.

/// Return whether a fault is planted in this replica.
macro_rules! planted {
    ($quorum:expr, $fault:ident) => {{
        #[cfg(feature = "planted")]
        let planted = $quorum.settings.fault == Some($crate::fault::Fault::$fault);
        #[cfg(not(feature = "planted"))]
        let planted = false;
        planted
    }};
}
pub(crate) use planted;

#[cfg(feature = "planted")]
macro_rules! faults {
    ($($(#[doc = $text:literal])+ $name:ident,)+) => {
        /// A fault in the state machine.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Fault {
            $($(#[doc = $text])+ $name,)+
        }

        impl Fault {
            /// Every fault.
            pub const ALL: &[Self] = &[$(Self::$name),+];
        }
    };
}

#[cfg(feature = "planted")]
faults! {
    /// Fault: a vote is answered before it is on disk.
    VoteNotFlushed,
    /// Fault: a voter forgets its vote.
    VoteTwice,
    /// Fault: a voter grants a vote without comparing the logs.
    VoteForStaleLog,
    /// Fault: a voter compares the lengths of logs instead of their epochs.
    VoteForLongerLog,
    /// Fault: a voter with a new disk answers for the voter with the lost disk.
    VoterKeyNotChecked,
    /// Fault: a replica answers requests of other clusters.
    ClusterIdNotChecked,
    /// Fault: a replica answers requests that name another topic.
    UnknownTopicIdAccepted,
    /// Fault: a replica accepts [`Uuid::METADATA`] as topic id from a sender whose log contains the topic id's record.
    SentinelAlwaysAccepted,
    /// Fault: a replica keeps a topic id after truncating its record.
    TruncatedTopicIdKept,
    /// Fault: a leader gives the topic a new id although the log has one.
    TopicIdWrittenAgain,
    /// Fault: a leader commits an entry of an older epoch by counting replicas.
    OlderEpochCommittedByCount,
    /// Fault: a leader counts observers for the high watermark.
    ObserverCounted,
    /// Fault: a follower sends a fetch offset above the records that it has flushed.
    UnflushedFetch,
    /// Fault: a leader counts records that it has not flushed.
    UnflushedLeaderCounted,
    /// Fault: a leader counts a fetch of another epoch.
    FetchOfAnotherEpochCounted,
    /// Fault: a leader does not check that the epoch of a fetch offset matches its own log.
    DivergenceIgnored,
    /// Fault: a follower truncates more than the diverging records.
    TruncationBelowCommitted,
    /// Fault: a follower truncates to the leader's end without comparing its own epochs.
    TruncationTooShort,
    /// Fault: a voter set stays in effect after its record is truncated.
    TruncatedVotersKept,
    /// Fault: a voter set takes effect only when it is committed.
    CommittedVotersOnly,
    /// Fault: a voter change does not wait for the previous one.
    VoterChangeNotWaitedFor,
    /// Fault: a voter change does not wait for a commit in the leader's own epoch.
    VoterChangeBeforeOwnCommit,
    /// Fault: when a node joins, the same change removes another voter.
    TwoVotersAtOnce,
    /// Fault: a leader that is not a voter any more continues to lead.
    RemovedLeaderStays,
    /// Fault: a voter whose removal is not committed starts no elections.
    RemovedVoterWaits,
    /// Fault: a leader ignores a higher epoch.
    StepDownForgotten,
    /// Fault: a leader without a majority continues to lead.
    NoCheckQuorum,
    /// Fault: elections start without a pre-vote.
    PreVoteSkipped,
    /// Fault: a pre-vote is granted although the leader is alive.
    PreVoteAlwaysGranted,
    /// Fault: a follower ignores that the leader's port refuses connections.
    RefusalIgnored,
    /// Fault: a replica does not write a higher epoch to disk.
    EpochNotWritten,
    /// Fault: a follower commits its whole log.
    FollowerCommitsAll,
    /// Fault: a follower advances its high watermark although its log diverges from the leader's.
    DivergingLogCommitted,
    /// Fault: a follower accepts a high watermark below its own.
    HighWatermarkGoesBack,
    /// Fault: a follower appends batches from the response to an older fetch.
    StaleResponseAppended,
    /// Fault: a leader does not begin its epoch with a record.
    NoLeaderChangeRecord,
    /// Fault: a deposed leader reports its undecided proposals as committed.
    DeposedLeaderConfirms,
    /// Fault: a leader confirms a proposal when it is appended.
    ConfirmedBeforeCommit,
    /// Fault: a snapshot contains the voters of its log start.
    SnapshotWithOldVoters,
    /// Fault: the leader offers no snapshot to a follower whose next offset is below the log start.
    SnapshotNotOffered,
    /// Fault: a candidate counts refused votes as granted.
    RefusedVoteCounted,
    /// Fault: half of the voters count as a majority.
    HalfIsMajority,
}
