//! Faults that the simulator plants to prove that it would find them. Without the feature `planted` there is nothing of
//! this in a build: [`planted!`] is `false`.

/// Whether a fault is planted in this replica.
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
    /// A voter forgets whom it voted for.
    VoteTwice,
    /// A voter does not compare logs.
    VoteForStaleLog,
    /// A voter compares the lengths of logs and not their epochs.
    VoteForLongerLog,
    /// A voter on another disk answers for the lost one.
    VoterKeyNotChecked,
    /// Requests of other clusters are answered.
    ClusterIdNotChecked,
    /// Requests for other topics are answered.
    UnknownTopicIdAccepted,
    /// The sentinel is accepted behind the topic id's record.
    SentinelAlwaysAccepted,
    /// A truncated topic id stays known.
    TruncatedTopicIdKept,
    /// A leader gives the topic a new id although the log has one.
    TopicIdWrittenAgain,
    /// An entry of an older epoch is committed by counting replicas.
    OlderEpochCommittedByCount,
    /// Observers count for the high watermark.
    ObserverCounted,
    /// A follower claims records that it has not flushed.
    UnflushedFetch,
    /// A leader counts records that it has not flushed.
    UnflushedLeaderCounted,
    /// A fetch of another epoch counts.
    FetchOfAnotherEpochCounted,
    /// The epoch of a fetch offset is not compared.
    DivergenceIgnored,
    /// A follower cuts off more than diverges.
    TruncationBelowCommitted,
    /// A follower cuts off to the leader's end without looking at its own epochs.
    TruncationTooShort,
    /// A truncated voter set stays in force.
    TruncatedVotersKept,
    /// A voter set is in force only when it is committed.
    CommittedVotersOnly,
    /// A voter change does not wait for the one before.
    VoterChangeNotWaitedFor,
    /// A voter change does not wait for a commit in the leader's own epoch.
    VoterChangeBeforeOwnCommit,
    /// A node that joins replaces another in one change.
    TwoVotersAtOnce,
    /// A leader that is no voter any more goes on leading.
    RemovedLeaderStays,
    /// A voter whose removal is not committed starts no elections.
    RemovedVoterWaits,
    /// A leader ignores a higher epoch.
    StepDownForgotten,
    /// A leader without a majority goes on leading.
    NoCheckQuorum,
    /// Elections start without a pre-vote.
    PreVoteSkipped,
    /// A pre-vote is granted although the leader is alive.
    PreVoteAlwaysGranted,
    /// A refused connection to the leader is ignored.
    RefusalIgnored,
    /// A higher epoch is not written to disk.
    EpochNotWritten,
    /// A follower commits its whole log.
    FollowerCommitsAll,
    /// A follower moves its high watermark although its log does not agree with the leader's.
    DivergingLogCommitted,
    /// A follower takes over a high watermark that went back.
    HighWatermarkGoesBack,
    /// A response to an older fetch is appended.
    StaleResponseAppended,
    /// A leader does not begin its epoch with a record.
    NoLeaderChangeRecord,
    /// A deposed leader reports its undecided proposals as committed.
    DeposedLeaderConfirms,
    /// A proposal is confirmed when it is appended.
    ConfirmedBeforeCommit,
    /// A snapshot names the voters as of its log start.
    SnapshotWithOldVoters,
    /// A snapshot is not offered to a follower below the log start.
    SnapshotNotOffered,
    /// A candidate counts the voters that answered, whatever they answered.
    RefusedVoteCounted,
    /// Half of the voters is a majority.
    HalfIsMajority,
}
