"""Every API × every resource × none, allow, deny, prefix, literal, wildcard, host, super user."""

from __future__ import annotations

import itertools
from collections.abc import Iterator
from typing import Any

import pytest

from pybroker import Broker, native
from pybroker.broker.security.authorizer import AclOperation
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from tests.security.kit import ROOT, call, codes, create_acls, create_topics, entry, login, secure_broker
from tests.security.rows import DENIED, EXEMPT, ROWS, THIS_CLUSTER, C, G, Row, U, X

REFUSED_CASES = ("none", "other", "host", "deny", "deny_prefix")
PERMITTED_CASES = ("literal", "prefix", "wildcard", "all", "super")
CASES = (*REFUSED_CASES, *PERMITTED_CASES)
"""Refusals come first: some requests, once permitted, remove objects that other requests need."""


def user_of(number: int, case: str) -> str:
    return f"r{number}-{case}"


def name_of(number: int) -> str:
    return f"row.{number}.of.the.table"


@pytest.fixture(scope="module")
def broker() -> Iterator[Broker]:
    users = [user_of(number, case) for number, case in itertools.product(range(len(ROWS)), CASES)]
    supers = ";".join(f"User:{user}" for user in [ROOT, *users] if user == ROOT or user.endswith("-super"))
    with secure_broker(users, {"super.users": supers, "delegation.token.secret.key": "matrix"}) as broker:
        yield broker


@pytest.fixture(scope="module")
def ids(broker: Broker) -> dict[str, Uuid]:
    """Return the names of topics, groups and entries of all rows."""
    root = login(broker, ROOT)
    ids = create_topics(root, *(name_of(number) for number, row in enumerate(ROWS) if row.topic))
    for key_type in (0, 1):
        call(root, m.FindCoordinatorRequest(key_type=key_type, coordinator_keys=["any"]))
    for number, row in enumerate(ROWS):
        if G in (row.needs.kind, *(grant.kind for grant in row.also)):
            name = name_of(number)
            partition = m.OffsetCommitRequest_OffsetCommitRequestPartition(partition_index=0, committed_offset=0)
            topic = m.OffsetCommitRequest_OffsetCommitRequestTopic(topic_id=ids[name], partitions=[partition])
            answer = call(root, m.OffsetCommitRequest(group_id=name, topics=[topic]))
            assert set(codes(answer)) == {0}
        if row.before is not None:
            answer = call(root, here(broker, row.before(name_of(number), ids[name_of(number)])))
            assert set(codes(answer)) == {0}, answer
        create_acls(root, *(one for case in CASES for one in entries(number, row, case)))
    return ids


def here(broker: Broker, request: Any) -> Any:
    """Insert the cluster's id into a request."""
    if getattr(request, "cluster_id", None) == THIS_CLUSTER:
        request.cluster_id = broker.cluster_id
    return request


def entries(number: int, row: Row, case: str) -> Iterator[m.CreateAclsRequest_AclCreation]:
    """Return the user's permissions in a case: all others that the row needs, and the case's entries for the tested
    one."""
    user, name = user_of(number, case), name_of(number)
    kind, operation = row.needs
    resource = row.resource(kind, name)
    for grant in row.also:
        yield entry(user, grant.operation, grant.kind, row.resource(grant.kind, name))
    if case == "other":
        other = AclOperation.DESCRIBE if operation != AclOperation.DESCRIBE else AclOperation.DESCRIBE_CONFIGS
        if kind == U:
            other = AclOperation.CREATE_TOKENS
            if operation == other:
                other = AclOperation.DESCRIBE_TOKENS
        if (kind, operation) == (X, AclOperation.DESCRIBE):
            other = AclOperation.TWO_PHASE_COMMIT
        yield entry(user, other, kind, resource)
    elif case == "host":
        yield entry(user, operation, kind, resource, host="10.9.9.9")
    elif case in ("deny", "deny_prefix"):
        yield entry(user, AclOperation.ALL, kind, resource if kind == C else "*")
        if row.instead is not None:
            yield entry(user, row.instead.operation, kind, resource, allow=False)
        if case == "deny" or kind == C:
            yield entry(user, operation, kind, resource, allow=False)
        else:
            yield entry(user, operation, kind, resource[:-3], allow=False, prefixed=True)
    elif case == "prefix" and kind != C:
        yield entry(user, operation, kind, resource[:-3], prefixed=True)
    elif case == "wildcard" and kind != C:
        yield entry(user, operation, kind, "*")
    elif case == "all":
        yield entry(user, AclOperation.ALL, kind, resource)
    elif case in ("literal", "prefix", "wildcard"):
        yield entry(user, operation, kind, resource)


@pytest.mark.checklist("H1", "H6")
def test_every_served_key_has_a_row() -> None:
    served = {row.key for row in native.api_table() if row.served}
    assert served == {row.key for row in ROWS} | set(EXEMPT)


@pytest.mark.checklist("H1")
@pytest.mark.parametrize("number", range(len(ROWS)), ids=[f"{row.key}-{row.label.replace(' ', '-')}" for row in ROWS])
def test_the_right_is_needed_and_enough(broker: Broker, ids: dict[str, Uuid], number: int) -> None:
    row, name = ROWS[number], name_of(number)
    expected = {case: case in PERMITTED_CASES for case in CASES}
    found = {}
    for case in CASES:
        client = login(broker, user_of(number, case))
        answer = call(client, here(broker, row.make(name, ids.get(name, Uuid.ZERO))), row.version)
        if row.hidden is not None:
            found[case] = not row.hidden(answer, name)
        else:
            found[case] = DENIED[row.needs.kind] not in set(codes(answer))
        client.close()
    assert found == expected
