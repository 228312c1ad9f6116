"""Requests for ACLs, SCRAM users and delegation tokens: odd names, unknown numbers, duplicates, filters."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

import pytest

from pybroker.protocol import messages as m
from tests.against_kafka.conftest import Story
from tests.against_kafka.sides import Side
from tests.security.kit import ROOT

UNKNOWN, ANY = 0, 1
NUMBERS = (-128, -1, 0, 1, 2, 3, 4, 5, 6, 7, 8, 12, 13, 14, 15, 16, 99, 127)
TOPIC, GROUP, CLUSTER = 2, 3, 4
MATCH, LITERAL, PREFIXED = 2, 3, 4
READ, ALLOW, DENY = 3, 3, 2
HOSTS = (
    "",
    "*",
    "**",
    "127.0.0.1",
    " 127.0.0.1",
    "127.0.0.0/8",
    "127.0.0.1/8",
    "127.0.0.1/0",
    "127.0.0.1/32",
    "127.0.0.1/33",
    "127.0.0.1/-1",
    "127.0.0.1/+8",
    "127.0.0.1/08",
    "127.0.0.1/",
    "/8",
    "127.0.0/8",
    "127.1/8",
    "010.0.0.0/8",
    "300.0.0.1",
    "localhost",
    "localhost/8",
    "no.such.host.invalid",
    "a b",
    "::1",
    "::1/128",
    "::1/129",
    "::/0",
    "[::1]",
    "[::1]/128",
    "fe80::1%lo",
    "fe80::1%lo/64",
    "::ffff:127.0.0.1",
    "::ffff:127.0.0.1/104",
    "127.0.0.1/8/8",
    "127.0.0.1/255.0.0.0",
)
PRINCIPALS = (
    "",
    ":",
    "User:",
    ":alice",
    "alice",
    "User:*",
    "User:alice",
    "user:alice",
    "User: alice",
    " User:alice",
    "User:a:b",
    "Group:g",
    "User:CN=a,O=b",
    "User:äöü",
    "User:*x",
)


def entry(
    name: str,
    *,
    kind: int = TOPIC,
    pattern: int = LITERAL,
    principal: str = "User:alice",
    host: str = "*",
    operation: int = READ,
    permission: int = ALLOW,
) -> m.CreateAclsRequest_AclCreation:
    return m.CreateAclsRequest_AclCreation(
        resource_type=kind,
        resource_name=name,
        resource_pattern_type=pattern,
        principal=principal,
        host=host,
        operation=operation,
        permission_type=permission,
    )


def filtered(
    name: str | None = None,
    *,
    kind: int = ANY,
    pattern: int = ANY,
    principal: str | None = None,
    host: str | None = None,
    operation: int = ANY,
    permission: int = ANY,
) -> m.DescribeAclsRequest:
    return m.DescribeAclsRequest(
        resource_type_filter=kind,
        resource_name_filter=name,
        pattern_type_filter=pattern,
        principal_filter=principal,
        host_filter=host,
        operation=operation,
        permission_type=permission,
    )


def as_deletion(found: m.DescribeAclsRequest) -> m.DeleteAclsRequest_DeleteAclsFilter:
    return m.DeleteAclsRequest_DeleteAclsFilter(
        **{name: getattr(found, name) for name in m.DeleteAclsRequest_DeleteAclsFilter.__struct_fields__}
    )


def create(side: Side, *entries: m.CreateAclsRequest_AclCreation, version: int = 3) -> None:
    side.ask(m.CreateAclsRequest(creations=list(entries)), version)


def delete(side: Side, *filters: m.DescribeAclsRequest, version: int = 3) -> None:
    side.ask(m.DeleteAclsRequest(filters=[as_deletion(one) for one in filters]), version)


def acl_creations(side: Side, name: str) -> None:
    create(side)
    for kind in NUMBERS:
        create(side, entry("kafka-cluster" if kind == CLUSTER else name, kind=kind))
        create(side, entry(name, pattern=kind))
        create(side, entry(name, operation=kind))
        create(side, entry(name, permission=kind))
        # Try every operation on every kind of resource.
        for operation in range(17):
            create(side, entry("kafka-cluster" if kind == CLUSTER else name, kind=kind, operation=operation))
    for wrong in ("", "*", ".", "..", "a b", "a/b", "x" * 250, "x" * 5000, "kafka-cluster", "ä"):
        for kind in (TOPIC, GROUP, CLUSTER, 5, 6, 7):
            for pattern in (LITERAL, PREFIXED):
                create(side, entry(wrong, kind=kind, pattern=pattern))
    for host in HOSTS:
        create(side, entry(name, host=host))
    for principal in PRINCIPALS:
        create(side, entry(name, principal=principal))
    create(side, entry(name), entry(name), entry(""), entry(name, host="10.0.0.0/99"), entry(f"{name}-2"))
    for version in (1, 2, 3):
        create(side, entry(name, pattern=PREFIXED), entry("", pattern=PREFIXED), version=version)
    side.settled(name)
    side.ask(filtered(), 3)
    delete(side, filtered())
    side.settled(name)
    side.ask(filtered(), 3)


def acl_filters(side: Side, name: str) -> None:
    create(
        side,
        entry(name),
        entry(name, permission=DENY, principal="User:bob"),
        entry(name, host="127.0.0.0/8"),
        entry(name[:-1], pattern=PREFIXED),
        entry(name[:-2], pattern=PREFIXED, principal="User:*"),
        entry("*"),
        entry("*", pattern=PREFIXED),
        entry(name, kind=GROUP, host="::1"),
        entry("kafka-cluster", kind=CLUSTER, operation=8),
    )
    side.settled(name)

    def describe(*filters: m.DescribeAclsRequest, versions: tuple[int, ...] = (3,)) -> None:
        for one in filters:
            for version in versions:
                side.ask(one, version)

    for number in NUMBERS:
        describe(filtered(kind=number), filtered(operation=number), filtered(permission=number))
        describe(filtered(pattern=number), filtered(name, pattern=number))
        if number not in (ANY, MATCH, LITERAL, PREFIXED, 5, 6, 7, 8, 12):
            delete(side, filtered(kind=number))
            delete(side, filtered(pattern=number))
            delete(side, filtered(operation=number))
            delete(side, filtered(permission=number))
    for wanted_name in (None, "", "*", name, name[:-1], name + "x", "kafka-cluster", "x" * 5000):
        for pattern in (ANY, MATCH, LITERAL, PREFIXED):
            describe(filtered(wanted_name, pattern=pattern), filtered(wanted_name, pattern=pattern, kind=TOPIC))
    for principal in (None, *PRINCIPALS):
        describe(filtered(principal=principal))
    for host in (None, *HOSTS):
        describe(filtered(host=host))
    describe(filtered(name), filtered(name, pattern=LITERAL), versions=(1, 2, 3))
    delete(side)
    delete(side, filtered(name, pattern=LITERAL, permission=DENY), filtered(name, pattern=LITERAL, operation=99))
    delete(side, filtered(principal=""), filtered(host=""), filtered(""))
    delete(side, filtered("*", pattern=LITERAL), filtered("*", pattern=LITERAL), version=3)
    delete(side, filtered(name, pattern=MATCH), filtered(kind=GROUP))
    side.settled(name)
    describe(filtered())
    delete(side, filtered())
    side.settled(name)


def acls_of_users(side: Side, name: str) -> None:
    """The operations on ACLs that an entry allows its user."""
    everything = filtered()
    for operation in (0, 8, 7):
        if operation:
            create(side, entry("kafka-cluster", kind=CLUSTER, operation=operation))
            side.settled(name)
        side.login("alice")
        side.ask(everything, 3)
        create(side)
        create(side, entry(name, principal="User:bob"))
        delete(side)
        delete(side, filtered(name))
        side.login("")
    delete(side, everything)
    side.settled(name)


SHA_256, SHA_512 = 1, 2


def scram(side: Side, name: str) -> None:
    """A request for all users by a user without permission is not compared, because Kafka does not respond. Neither are
    long names, long salts and empty salts, which pybroker refuses, nor both mechanisms of a user in one request, which
    Kafka refuses."""

    def of(user: str, mechanism: int = SHA_256) -> m.AlterUserScramCredentialsRequest_ScramCredentialDeletion:
        return m.AlterUserScramCredentialsRequest_ScramCredentialDeletion(name=user, mechanism=mechanism)

    def to(
        user: str, mechanism: int = SHA_256, iterations: int = 4096, salt: bytes = b"salt", password: bytes = b"x" * 32
    ) -> m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion:
        return m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion(
            name=user, mechanism=mechanism, iterations=iterations, salt=salt, salted_password=password
        )

    def alter(*changes: Any) -> None:
        deletion = m.AlterUserScramCredentialsRequest_ScramCredentialDeletion
        removed = [one for one in changes if isinstance(one, deletion)]
        side.ask(
            m.AlterUserScramCredentialsRequest(
                deletions=removed, upsertions=[one for one in changes if one not in removed]
            ),
            0,
        )

    def describe(*users: str) -> None:
        rows = [m.DescribeUserScramCredentialsRequest_UserName(name=user) for user in users]
        side.ask(m.DescribeUserScramCredentialsRequest(users=rows), 0)

    describe("no-such")
    describe("")
    describe("no-such", "no-such")
    alter()
    for iterations in (-1, 0, 1, 4095, 4096, 16384, 16385, 2**31 - 1):
        alter(to(f"{name}-{iterations}", iterations=iterations))
        alter(to(f"{name}-{iterations}", SHA_512, iterations=iterations))
    for mechanism in (-1, 0, 3, 99):
        alter(to(name, mechanism))
        alter(of(name, mechanism))
    alter(of(name))
    for user in ("", " ", "x" * 255, "a/b", "a,b=c", "ä", "*", "User:a"):
        alter(to(user))
        side.settled(name)
        describe(user)
        alter(of(user))
        side.settled(name)
    for salt, password in ((b"s", b""), (b"s", b"x")):
        alter(to(f"{name}-odd", salt=salt, password=password))
        side.settled(name)
        alter(of(f"{name}-odd"))
        side.settled(name)
    both = f"{name}-both"
    alter(to(both))
    alter(to(both, SHA_512))
    side.settled(name)
    alter(to(both), to(both))
    alter(to(both), of(both))
    alter(of(both), of(both))
    alter(to(both), to(both), to(f"{both}-2"), of("no-such"))
    side.settled(name)
    describe(both, f"{both}-2")
    describe(both, both)
    describe(both, "no-such", "")
    side.ask(m.DescribeUserScramCredentialsRequest(users=None), 0)
    side.ask(m.DescribeUserScramCredentialsRequest(users=[]), 0)
    alter(of(both), of("no-such"))
    alter(of(both, SHA_512))
    side.settled(name)
    describe(both)
    side.login("alice")
    describe(both)
    alter(to(both), of(both), of("no-such"), to(""))
    alter()
    side.login("")


def tokens(side: Side, name: str) -> None:
    """Users of the SASL port send the requests. An owner of a type other than User is not compared: pybroker refuses
    it, because all users that log in have this type."""
    now_fields = ("issue_timestamp_ms", "issue_timestamp", "expiry_timestamp", "max_timestamp")
    times = (*now_fields, "expiry_timestamp_ms", "max_timestamp_ms", "hmac", "token_id")

    def new(
        *renewers: tuple[str, str], owner: tuple[str | None, str | None] = (None, None), life_ms: int = -1
    ) -> m.CreateDelegationTokenRequest:
        rows = [
            m.CreateDelegationTokenRequest_CreatableRenewers(principal_type=kind, principal_name=user)
            for kind, user in renewers
        ]
        return m.CreateDelegationTokenRequest(
            owner_principal_type=owner[0], owner_principal_name=owner[1], renewers=rows, max_lifetime_ms=life_ms
        )

    def made(request: m.CreateDelegationTokenRequest, version: int = 3) -> bytes:
        answer = side.ask(request, version, but=times)
        known = answer.max_timestamp_ms - answer.issue_timestamp_ms
        until = answer.expiry_timestamp_ms - answer.issue_timestamp_ms
        has = (bool(answer.token_id), bool(answer.hmac), known, until)
        side.note("a new token", [str(part) for part in has])
        if not answer.error_code:
            side.settled(name)
        return bytes(answer.hmac)

    def listed(*owners: tuple[str, str], everything: bool = False) -> None:
        rows = [
            m.DescribeDelegationTokenRequest_DescribeDelegationTokenOwner(principal_type=kind, principal_name=user)
            for kind, user in owners
        ]
        side.ask(m.DescribeDelegationTokenRequest(owners=None if everything else rows), 3, but=times)

    def note(answer: Any) -> None:
        """Compare the expiry time of the token, to the minute."""
        left_ms = answer.expiry_timestamp_ms - time.time() * 1000
        side.note("it ends", str(round(left_ms / 60_000)) if answer.expiry_timestamp_ms > 0 else "never")
        if not answer.error_code:
            side.settled(name)

    def renew(hmac: bytes, period_ms: int) -> None:
        note(side.ask(m.RenewDelegationTokenRequest(hmac=hmac, renew_period_ms=period_ms), 2, but=times))

    def expire(hmac: bytes, period_ms: int) -> None:
        note(side.ask(m.ExpireDelegationTokenRequest(hmac=hmac, expiry_time_period_ms=period_ms), 2, but=times))

    # The client is not authenticated.
    made(new())
    renew(b"", 1)
    expire(b"", 1)
    listed(everything=True)
    for user in (ROOT, "alice"):
        side.login(user)
        for life_ms in (-2, -1, 0, 1, 3_600_000, 2**62, 2**63 - 1, -(2**63)):
            made(new(life_ms=life_ms))
        for renewers in (
            [("User", "bob")],
            [("User", "bob"), ("User", "bob")],
            [("", "bob")],
            [("User", "")],
            [("Group", "g")],
            [("user", "bob")],
            [("User", "*")],
            [("User", "a:b,c")],
        ):
            made(new(*renewers))
        for owner in (
            ("User", "bob"),
            ("User", user),
            ("", ""),
            ("User", ""),
            ("User", None),
        ):
            made(new(owner=owner))
        made(new(), version=1)
        made(new(("User", "bob")), version=2)
        listed(everything=True)
        listed()
        listed(("User", user))
        listed(("User", user), ("User", user))
        listed(("User", "bob"))
        listed(("User", "no-such"))
        listed(("", ""))
        listed(("Group", "g"))
        hmac = made(new(("User", "bob"), life_ms=3_600_000))
        for wrong in (b"", b"x", hmac[:-1], hmac + b"x"):
            renew(wrong, 1)
            expire(wrong, 1)
        for period_ms in (1_000_000, 0, -1, -2, -(2**63), 2**40, 2**63 - 1):
            renew(hmac, period_ms)
        side.login("bob")
        listed(everything=True)
        listed(("User", user))
        renew(hmac, 1_000_000)
        side.login(user)
        for period_ms in (1_000_000, 0):
            expire(hmac, period_ms)
        expire(hmac, -1)
        hmac = made(new())
        side.login("bob")
        renew(hmac, 5)
        expire(hmac, 5)
        expire(hmac, -1)
        side.login(user)
        for period_ms in (2**40, 2**63 - 1, -2):
            expire(hmac, period_ms)
    side.login("")


@pytest.mark.parametrize("story", [acl_creations, acl_filters, acls_of_users, scram, tokens])
def test_as_kafka(compare_guarded: Callable[[Story], None], story: Story) -> None:
    compare_guarded(story)
