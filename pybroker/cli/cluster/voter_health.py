"""Problems of the metadata quorum's voters, as `pybroker cluster health` lists them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from pybroker.cli.cluster.cluster_report import Report

AWAY_MS = LAG_MS = 5_000
"""A voter whose last fetch, or whose last moment without a lag, is longer ago has a problem. A healthy voter fetches
several times a second, and has all records most of the time."""


def find_voter_problems(report: Report) -> Iterator[dict[str, Any]]:
    """Yield the problem of a missing majority, or one for each voter that does not fetch or that lags."""
    quorum = report.quorum
    if quorum.role != "Leader":
        yield _no_leader(report)
        return
    for voter in quorum.voters:
        if voter.voter_id == quorum.leader_id:
            continue
        who = f"voter {voter.voter_id} of the metadata quorum"
        about = {"voter": voter.voter_id}
        if voter.ms_since_fetch < 0:
            says = f"{who} is away: it has not fetched since broker {quorum.leader_id} leads"
            yield {"what": "voter_away", **about, "says": says}
        elif voter.ms_since_fetch > AWAY_MS:
            says = f"{who} is away: it has not fetched for {voter.ms_since_fetch / 1000:,.0f} s"
            yield {"what": "voter_away", **about, "says": says}
        elif voter.ms_since_caught_up < 0 or voter.ms_since_caught_up > LAG_MS:
            behind = max(0, quorum.log_end_offset - max(0, voter.log_end_offset))
            yield {"what": "voter_lags", **about, "says": f"{who} lags: it is {behind:,} records behind"}


def _no_leader(report: Report) -> dict[str, Any]:
    voters = sorted(voter.voter_id for voter in report.quorum.voters)
    running = {broker.broker for broker in report.brokers if broker.state in ("running", "leaving")}
    missing = [voter for voter in voters if voter not in running]
    if len(voters) - len(missing) > len(voters) // 2:
        says = "the metadata quorum has no leader although a majority of its voters responds: an election is under way"
        return {"what": "no_quorum_leader", "voters": voters, "says": says}
    names = ", ".join(map(str, missing))
    says = (
        f"the metadata quorum has no majority: {len(missing)} of {len(voters)} voters do not respond ({names}). "
        "Records are still served; metadata cannot change, and leaders cannot move, until a majority responds"
    )
    return {"what": "no_majority", "voters": voters, "missing": missing, "says": says}
