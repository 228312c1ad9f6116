"""Responses to a user without permissions, with one missing, and with all of them, for each kind of request."""

from __future__ import annotations

import time
from collections.abc import Callable

from pybroker.broker.security.authorizer import PatternType, PermissionType
from pybroker.native import Uuid
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import MOVING, Side, codes
from tests.groups.kit import WAIT_S
from tests.security.kit import call
from tests.security.rows import ROWS, Grant, Row
from tests.support.brokers import KafkaProcess

USER = "alice"
SHARE_FETCH = 78
OWN_KEYS = 32000
"""API keys from this number on are pybroker's own."""
BETWEEN_BROKERS = {4, 5, 6, 7, 27, 56, 58, 67, 73, 83, 84, 85, 86, 87}
"""Requests that pybroker answers on a listener for brokers only."""


def grant(row: Row, name: str, *grants: Grant) -> m.CreateAclsRequest:
    return m.CreateAclsRequest(
        creations=[
            m.CreateAclsRequest_AclCreation(
                resource_type=one.kind,
                resource_name=row.resource(one.kind, name),
                resource_pattern_type=PatternType.LITERAL,
                principal=f"User:{USER}",
                host="*",
                operation=one.operation,
                permission_type=PermissionType.ALLOW,
            )
            for one in grants
        ]
    )


ALL_ACLS = m.DeleteAclsRequest(
    filters=[
        m.DeleteAclsRequest_DeleteAclsFilter(
            resource_type_filter=1,
            resource_name_filter=None,
            pattern_type_filter=1,
            principal_filter=None,
            host_filter=None,
            operation=1,
            permission_type=1,
        )
    ]
)


def rights(side: Side, name: str) -> None:
    """Compare only error codes, and whether listings omit a name. SCRAM users are not compared, because Kafka does not
    respond to a user without permissions. Neither is Produce with a transactional id, which pybroker authorizes whether
    or not the records belong to a transaction."""
    for number, row in enumerate(ROWS):
        skipped = row.key == 50 or (row.key, row.label) == (0, "transactional id")
        if row.key < OWN_KEYS and row.key not in BETWEEN_BROKERS and not skipped:
            one(side, f"{name}-{number}", row)


def temporary(side: Side, row: Row) -> set[ErrorCode]:
    """Return the errors after which the request is repeated. Apache Kafka answers some first ShareFetches of a
    partition with UNKNOWN_SERVER_ERROR: 2 of 24 on a busy machine."""
    if row.key == SHARE_FETCH and isinstance(side.broker, KafkaProcess):
        return MOVING | {ErrorCode.UNKNOWN_SERVER_ERROR}
    return MOVING


def one(side: Side, name: str, row: Row) -> None:
    side.login("")
    topic_id = Uuid.ZERO
    if row.topic:
        made = [m.CreateTopicsRequest_CreatableTopic(name=name, num_partitions=1, replication_factor=1)]
        topic_id = side.quietly(m.CreateTopicsRequest(topics=made, timeout_ms=10_000), 7).topics[0].topic_id
    if row.before is not None:
        call(side.client, row.before(name, topic_id))
    side.settled(name)
    for label, grants in (("no right", ()), ("all but one", row.also), ("all", (*row.also, row.needs))):
        side.login("")
        if grants:
            side.quietly(grant(row, name, *grants), 3)
        side.settled(name)
        side.login(USER)
        title = f"{row.label} ({row.key}), {label}"
        give_up = time.monotonic() + WAIT_S
        while temporary(side, row) & set(codes(answer := call(side.client, row.make(name, topic_id), row.version))):
            assert time.monotonic() < give_up, answer
            time.sleep(0.02)
        if row.hidden is not None:
            side.note(title, str(row.hidden(answer, name)))
        else:
            side.note(title, sorted({ErrorCode(code).name for code in codes(answer)}))
    side.login("")
    side.quietly(ALL_ACLS, 3)


def test_as_kafka(compare_guarded: Callable[[Story], None]) -> None:
    compare_guarded(rights)
