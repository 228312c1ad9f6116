"""The evaluation of ACLs in native code gives the same results as the simplest one, over random entries and changes
(CVE-2024-27309: the order of changes must not lose entries that deny)."""

from __future__ import annotations

import random
from collections.abc import Iterable
from pathlib import Path

import pytest

from pybroker.broker.requests.context import RequestContext
from pybroker.broker.security.authorizer import (
    WILDCARD,
    AclBinding,
    AclOperation,
    Authorizer,
    PatternType,
    PermissionType,
    ResourceType,
    SecurityChange,
)
from pybroker.config import BrokerConfig
from pybroker.native import NativeBroker

NAMES = ("a", "ab", "abc", "b", "*", "\u00e4b")
PRINCIPALS = ("User:a", "User:b", "User:*", "User:root")
HOSTS = ("*", "10.0.0.1", "::ffff:10.0.0.1", "::1", "nowhere")
OPERATIONS = tuple(AclOperation)[2:]
IMPLIED = {
    AclOperation.DESCRIBE: {AclOperation.READ, AclOperation.WRITE, AclOperation.DELETE, AclOperation.ALTER},
    AclOperation.DESCRIBE_CONFIGS: {AclOperation.ALTER_CONFIGS},
}


def plainly(entries: Iterable[AclBinding], who: RequestContext, wanted: AclOperation, name: str) -> bool:
    """Evaluate Kafka's rules literally."""
    if who.principal == "User:root":
        return True
    allowed = False
    for one in entries:
        prefix = one.pattern_type == PatternType.PREFIXED
        if not (name.startswith(one.name) if prefix else one.name in (name, WILDCARD)):
            continue
        if one.principal not in (who.principal, "User:*"):
            continue
        if one.host.removeprefix("::ffff:") not in ("*", who.client_host):
            continue
        allows = one.permission == PermissionType.ALLOW
        covers = {wanted, AclOperation.ALL} | (IMPLIED.get(wanted, set()) if allows else set())
        if one.operation not in covers:
            continue
        if not allows:
            return False
        allowed = True
    return allowed


@pytest.mark.checklist("H1", "H5")
@pytest.mark.parametrize("seed", range(20))
def test_random_entries(tmp_path: Path, seed: int) -> None:
    chance = random.Random(seed)
    native = NativeBroker(broker_id=1, cluster_id="c", log_dirs=[str(tmp_path)], settings={})
    config = BrokerConfig(
        {"authorizer.class.name": "kafka.security.authorizer.AclAuthorizer", "super.users": "User:root"}
    )
    authorizer = Authorizer(native.authorizer, config)
    entries: set[AclBinding] = set()
    for _ in range(30):
        added = {
            AclBinding(
                ResourceType.TOPIC,
                chance.choice((PatternType.LITERAL, PatternType.PREFIXED)),
                chance.choice(NAMES),
                chance.choice(PRINCIPALS[:3]),
                chance.choice(HOSTS),
                chance.choice(OPERATIONS),
                chance.choice((PermissionType.ALLOW, PermissionType.ALLOW, PermissionType.DENY)),
            )
            for _ in range(chance.randrange(4))
        } - entries
        removed = set(chance.sample(sorted(entries), chance.randrange(min(4, len(entries) + 1))))
        entries = (entries - removed) | added
        if chance.random() < 0.2:
            authorizer.update(SecurityChange(tuple(entries), full=True))
        else:
            authorizer.update(SecurityChange(tuple(added), tuple(removed)))
        for _ in range(50):
            principal, host = chance.choice(("User:a", "User:b", "User:c", "User:root")), chance.choice(HOSTS[1:4])
            who = RequestContext(0, 0, None, principal, "L", host.removeprefix("::ffff:"), 1)
            wanted, name = chance.choice(OPERATIONS[1:]), chance.choice((*NAMES, "abcd", "c"))
            expected = plainly(entries, who, wanted, name)
            assert authorizer.permits(who, wanted, ResourceType.TOPIC, name) == expected, (entries, who, wanted, name)
