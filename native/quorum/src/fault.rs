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
    /// A vote is answered before it is on disk.
    VoteNotFlushed,
    /// A voter forgets its vote.
    VoteTwice,
    /// A voter grants a vote without comparing the logs.
    VoteForStaleLog,
    /// A voter compares the lengths of logs instead of their epochs.
    VoteForLongerLog,
    /// A voter with a new disk answers for the voter with the lost disk.
    VoterKeyNotChecked,
    /// A replica answers requests of other clusters.
    ClusterIdNotChecked,
    /// A replica answers requests for other topics.
    UnknownTopicIdAccepted,
    /// A replica accepts the sentinel even after the topic id's record.
    SentinelAlwaysAccepted,
    /// A replica remembers a truncated topic id.
    TruncatedTopicIdKept,
    /// A leader gives the topic a new id although the log has one.
    TopicIdWrittenAgain,
    /// A leader commits an entry of an older epoch by counting replicas.
    OlderEpochCommittedByCount,
    /// A leader counts observers for the high watermark.
    ObserverCounted,
    /// A follower claims records that it has not flushed.
    UnflushedFetch,
    /// A leader counts records that it has not flushed.
    UnflushedLeaderCounted,
    /// A leader counts a fetch of another epoch.
    FetchOfAnotherEpochCounted,
    /// A leader does not compare the epoch of a fetch offset.
    DivergenceIgnored,
    /// A follower truncates more than the diverging records.
    TruncationBelowCommitted,
    /// A follower truncates to the leader's end without comparing its own epochs.
    TruncationTooShort,
    /// A truncated voter set stays in effect.
    TruncatedVotersKept,
    /// A voter set takes effect only when it is committed.
    CommittedVotersOnly,
    /// A voter change does not wait for the previous one.
    VoterChangeNotWaitedFor,
    /// A voter change does not wait for a commit in the leader's own epoch.
    VoterChangeBeforeOwnCommit,
    /// A node that joins replaces another in one change.
    TwoVotersAtOnce,
    /// A leader that is not a voter any more continues to lead.
    RemovedLeaderStays,
    /// A voter whose removal is not committed starts no elections.
    RemovedVoterWaits,
    /// A leader ignores a higher epoch.
    StepDownForgotten,
    /// A leader without a majority continues to lead.
    NoCheckQuorum,
    /// Elections start without a pre-vote.
    PreVoteSkipped,
    /// A pre-vote is granted although the leader is alive.
    PreVoteAlwaysGranted,
    /// A replica ignores that the leader refuses connections.
    RefusalIgnored,
    /// A replica does not write a higher epoch to disk.
    EpochNotWritten,
    /// A follower commits its whole log.
    FollowerCommitsAll,
    /// A follower advances its high watermark although its log diverges from the leader's.
    DivergingLogCommitted,
    /// A follower accepts a high watermark below its own.
    HighWatermarkGoesBack,
    /// A follower appends the response to an older fetch.
    StaleResponseAppended,
    /// A leader does not begin its epoch with a record.
    NoLeaderChangeRecord,
    /// A deposed leader reports its undecided proposals as committed.
    DeposedLeaderConfirms,
    /// A leader confirms a proposal when it is appended.
    ConfirmedBeforeCommit,
    /// A snapshot contains the voters of its log start.
    SnapshotWithOldVoters,
    /// A leader does not offer a snapshot to a follower below the log start.
    SnapshotNotOffered,
    /// A candidate counts all voters that answered as granted votes.
    RefusedVoteCounted,
    /// Half of the voters is a majority.
    HalfIsMajority,
}
