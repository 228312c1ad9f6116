"""The protocol of deletion and reconciliation in a small cluster: every short history, and long random ones.

The product itself decides what happens to a directory (`replicas.stray_reconciliation`), and whether the store was set
back (`metadata.store_history`). The model has two controllers, three brokers, two incarnations of a name, reassignment,
undelete, a restored store, and a crash at any point, also between a controller's write and its first message.
"""

from __future__ import annotations

import itertools

import pytest

from pybroker.broker.replicas.stray_reconciliation import Claim, Evidence, FoundDirectory, ReconcileOutcome, decide
from tests.model.explore import explore, walk
from tests.model.state import Budget, Faults

EVERYTHING = Budget(
    creates=2, deletes=2, undeletes=1, reassignments=1, crashes=2, elections=3, restores=1, produces=2, others=1
)


@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(Budget(1, 1, 0, 0, 1, 1, 0, 0), id="a broker dies while a topic is deleted"),
        pytest.param(Budget(1, 0, 0, 1, 0, 1, 0, 1), id="reassignment"),
        pytest.param(Budget(1, 1, 0, 1, 0, 1, 0, 0), id="reassignment, then deletion"),
        pytest.param(Budget(2, 1, 0, 0, 0, 1, 0, 0), id="re-creation"),
        pytest.param(Budget(1, 1, 1, 0, 0, 1, 0, 1), id="undelete"),
        pytest.param(Budget(1, 1, 0, 0, 0, 2, 0, 0), id="two controllers"),
    ],
)
def test_no_history_within_a_budget_breaks_an_invariant(budget: Budget) -> None:
    found = explore(budget, states_max=200_000)
    assert found.broken == ""
    assert found.complete


def test_long_histories_at_random() -> None:
    assert walk(EVERYTHING, seed=1, walks=800, length=60).broken == ""


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(20))
def test_many_long_histories_at_random(seed: int) -> None:
    assert walk(EVERYTHING, seed=1000 + seed, walks=15_000, length=80).broken == ""


@pytest.mark.slow
@pytest.mark.timeout(3600)
@pytest.mark.parametrize(
    "budget",
    [
        pytest.param(Budget(1, 1, 1, 0, 0, 2, 0, 1), id="undelete, two controllers"),
        pytest.param(Budget(1, 0, 0, 0, 1, 2, 0, 1, 1), id="other topics, a crash, two controllers"),
        pytest.param(Budget(1, 1, 0, 0, 0, 2, 1, 0), id="a restored store"),
    ],
)
def test_larger_budgets(budget: Budget) -> None:
    assert explore(budget, states_max=1_500_000).broken == ""


@pytest.mark.parametrize(
    ("faults", "budget"),
    [
        (Faults(absence_deletes=True, purge_without_look=True), Budget(1, 0, 0, 0, 0, 2, 1, 1)),
        (Faults(incremental_deletes=True), Budget(1, 0, 0, 0, 0, 1, 0, 0, 1)),
        (Faults(purge_without_look=True), Budget(1, 1, 1, 1, 0, 1, 0, 0)),
        (Faults(purge_before_closed=True), Budget(1, 1, 1, 0, 0, 1, 0, 1)),
        (Faults(stale_controller_obeyed=True), Budget(2, 1, 0, 0, 0, 2, 0, 0)),
        (Faults(full_before_loaded=True), Budget(1, 0, 0, 0, 0, 2, 0, 0)),
        (Faults(stop_by_name=True), Budget(2, 1, 0, 0, 0, 2, 0, 0)),
        (Faults(departed_forgotten=True), Budget(1, 1, 0, 1, 0, 1, 0, 0)),
    ],
    ids=lambda value: ",".join(name for name, on in value._asdict().items() if on) if isinstance(value, Faults) else "",
)
def test_planted_faults_are_caught_by_a_short_history(faults: Faults, budget: Budget) -> None:
    assert explore(budget, faults, states_max=60_000).broken != ""


@pytest.mark.parametrize(
    ("faults", "budget"),
    [
        (Faults(restored_store_accepted=True), Budget(1, 1, 1, 0, 0, 3, 1, 1)),
        (Faults(any_replica_leads_after_undelete=True), Budget(1, 1, 1, 0, 1, 2, 0, 1)),
    ],
    ids=["restored store accepted", "any replica leads after undelete"],
)
def test_planted_faults_are_caught_by_a_long_history(faults: Faults, budget: Budget) -> None:
    assert walk(budget, seed=3, faults=faults, walks=40_000, length=40).broken != ""


def test_every_situation_of_a_directory_has_one_outcome() -> None:
    seen: dict[ReconcileOutcome, int] = {}
    ids = (None, "mine", "other")
    claims = [None, *(Claim("mine", 5, *flags) for flags in itertools.product((False, True), repeat=2))]
    for topic_id, epoch, first, claim, evidence, full in itertools.product(
        ids, (-1, 4, 5, 6), (True, False), claims, Evidence, (True, False)
    ):
        outcome = decide(FoundDirectory(topic_id, epoch, first), claim, evidence, full=full)
        seen[outcome] = seen.get(outcome, 0) + 1
        own = claim is not None and topic_id == "mine"
        if outcome is ReconcileOutcome.STAGED:
            # The broker stages data only with proof: its id is dead, the topic is on other brokers, or the successor's
            # epochs begin above its last epoch. Absence is no proof.
            assert not own
            undecided = evidence in (Evidence.NOTHING, Evidence.HERE)
            succeeded = claim is not None and epoch < claim.leader_epoch and undecided
            assert evidence in (Evidence.DEAD, Evidence.ELSEWHERE, Evidence.DEPARTED) or succeeded
        if outcome is ReconcileOutcome.SERVED:
            assert own
            assert first
        if outcome is ReconcileOutcome.UNKNOWN:
            assert claim is None
            assert full
            assert evidence is Evidence.NOTHING
        if claim is None and not full:
            assert outcome is ReconcileOutcome.KEPT
        if topic_id is None:
            assert outcome in (
                ReconcileOutcome.ASIDE,
                ReconcileOutcome.ADOPTED,
                ReconcileOutcome.REFUSED,
                ReconcileOutcome.KEPT,
            )
    assert set(seen) == set(ReconcileOutcome)
