"""Checks effects of a broker's settings on durability and access. Pure: takes texts by name, from a file or a running
broker."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from pybroker.cli.doctor.finding import Finding, bad, ok, warn
from pybroker.config.listeners import Listener, host_port, parse_listeners, protocol_map
from pybroker.config.values import InvalidValue

DURABILITY = "durability"
REPLICATION = "replication"
ELECTION = "unclean election"
LISTENERS = "listeners"
ACCESS = "access control"
DELETION = "deletion"

UNCLEAN = "unclean.leader.election.enable"
MIN_ISR = "min.insync.replicas"
FACTOR = "default.replication.factor"
ENDURING = (
    ("offsets.topic.replication.factor", "committed offsets"),
    ("transaction.state.log.replication.factor", "the state of transactions"),
)


def check(settings: Mapping[str, str], *, brokers: int) -> Iterator[Finding]:
    """Run all checks of this module. `brokers` is their number; with 1, replication cannot help."""
    yield from durability(settings, brokers=brokers)
    yield from listeners(settings)
    yield from access(settings)


def durability(settings: Mapping[str, str], *, brokers: int) -> Iterator[Finding]:
    """Check which data a power cut, a lost disk or a lost broker destroys."""
    factor = _number(settings, FACTOR, 1)
    mode = settings.get("log.flush.mode")
    if mode == "os" and (brokers == 1 or factor == 1):
        says = "log.flush.mode=os with one replica: a power cut takes back what was acknowledged"
        yield bad(DURABILITY, says, "log.flush.mode=commit")
    elif mode is not None:
        yield ok(DURABILITY, f"log.flush.mode={mode}" + (" with replicas" if mode == "os" else ""))
    if brokers > 1:
        yield from _replication(settings, factor, brokers)
    if settings.get(UNCLEAN) == "true":
        says = f"{UNCLEAN}=true: a replica that is behind may lead, and what it lacks is lost"
        yield bad(ELECTION, says, f"{UNCLEAN}=false; `kafka-leader-election --election-type unclean` for one partition")
    if settings.get("delete.topic.delay.ms") == "0":
        yield warn(DELETION, "delete.topic.delay.ms=0: a deleted topic cannot come back", "leave it some hours")


def _replication(settings: Mapping[str, str], factor: int, brokers: int) -> Iterator[Finding]:
    found = [*_of_topics(settings, factor, brokers), *_of_internal_topics(settings, brokers)]
    yield from found or [ok(REPLICATION, f"{FACTOR}={factor}, {MIN_ISR}={_number(settings, MIN_ISR, 1)}")]


def _of_topics(settings: Mapping[str, str], factor: int, brokers: int) -> Iterator[Finding]:
    least = _number(settings, MIN_ISR, 1)
    if factor == 1:
        says = f"{FACTOR}=1: topics whose creator does not say are lost with one disk"
        yield warn(REPLICATION, says, f"{FACTOR}={min(3, brokers)} and {MIN_ISR}=2")
    elif least == 1:
        says = f"{MIN_ISR}=1 with {FACTOR}={factor}: acks=all may mean one disk, and that broker's loss loses records"
        yield bad(REPLICATION, says, f"{MIN_ISR}=2")
    elif least >= factor:
        says = f"{MIN_ISR}={least} with {FACTOR}={factor}: nothing can be written while one broker is away"
        yield warn(REPLICATION, says, f"{MIN_ISR}={factor - 1}" if factor > 2 else f"{FACTOR}=3")
    if factor > brokers:
        says = f"{FACTOR}={factor}, and there are {brokers} brokers: topics cannot be created"
        yield bad(REPLICATION, says, f"{FACTOR}={brokers}, or more brokers")


def _of_internal_topics(settings: Mapping[str, str], brokers: int) -> Iterator[Finding]:
    for name, what in ENDURING:
        if name in settings and _number(settings, name, 3) < min(3, brokers):
            says = f"{name}={settings[name]}: {what} are lost with as many disks"
            yield warn(REPLICATION, says, f"{name}=3; topics that are there: `pybroker cluster balance`")
    state_isr = _number(settings, "transaction.state.log.min.isr", 2)
    if _number(settings, ENDURING[1][0], 3) > 1 and state_isr < 2:
        says = f"transaction.state.log.min.isr={state_isr}: a decision on one disk may be forgotten"
        yield warn(REPLICATION, says, "transaction.state.log.min.isr=2")


def listeners(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check for clients without authentication and for traffic without encryption."""
    try:
        protocols = protocol_map(settings.get("listener.security.protocol.map", ""))
        listening = parse_listeners(_list(settings, "listeners"), protocols)
        told = parse_listeners(_list(settings, "advertised.listeners"), protocols)
    except InvalidValue as problem:
        yield bad(LISTENERS, str(problem), "see docs/operations.md")
        return
    for each in listening:
        yield from _of_listener(each, settings)
        advertised = next((one for one in told if one.name == each.name), None)
        if advertised is not None and is_local(advertised.host) and not is_local(each.host):
            says = f"{each}: clients of other machines are told {advertised.host}"
            yield warn(LISTENERS, says, "name the address that they reach in advertised.listeners")
    yield from _of_metrics(settings.get("metrics.listener", ""))


def _of_listener(listener: Listener, settings: Mapping[str, str]) -> Iterator[Finding]:
    name, protocol = listener.name.lower(), listener.protocol
    between_brokers = settings.get("inter.broker.listener.name", "").upper() == listener.name
    client_auth = settings.get(f"listener.name.{name}.ssl.client.auth", settings.get("ssl.client.auth", "none"))
    enabled = "sasl.enabled.mechanisms"
    mechanisms = settings.get(f"listener.name.{name}.{enabled}", settings.get(enabled, ""))
    whom = "whoever reaches it may act as a broker" if between_brokers else "whoever reaches it is let in"
    if is_local(listener.host):
        yield ok(LISTENERS, f"{listener} ({protocol}): this machine only")
    elif protocol == "PLAINTEXT":
        advice = "SASL_SSL, or SSL with ssl.client.auth=required; or an address of 127.0.0.1"
        yield bad(LISTENERS, f"{listener} (PLAINTEXT): {whom}, and all of it can be read on the way", advice)
    elif protocol == "SSL" and client_auth != "required":
        says = f"{listener} (SSL, ssl.client.auth={client_auth}): {whom}"
        yield bad(LISTENERS, says, "ssl.client.auth=required, or SASL_SSL")
    elif protocol == "SASL_PLAINTEXT" and "PLAIN" in mechanisms.upper().replace(" ", "").split(","):
        says = f"{listener} (SASL_PLAINTEXT with PLAIN): passwords can be read on the way"
        yield bad(LISTENERS, says, "SASL_SSL; or SCRAM only: sasl.enabled.mechanisms=SCRAM-SHA-512")
    elif protocol == "SASL_PLAINTEXT":
        yield warn(LISTENERS, f"{listener} (SASL_PLAINTEXT): records can be read on the way", "SASL_SSL")
    else:
        yield ok(LISTENERS, f"{listener} ({protocol})")


def _of_metrics(address: str) -> Iterator[Finding]:
    if address:
        try:
            host, _ = host_port(address)
        except InvalidValue:
            return  # the parser of settings reports it
        if not is_local(host):
            says = f"metrics.listener={address}: plain HTTP without a login"
            yield warn(LISTENERS, says, "an address that only your monitoring reaches")


def access(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check the permissions of connected clients."""
    authorizer = settings.get("authorizer.class.name", "")
    users = [each.strip() for each in settings.get("super.users", "").split(";")]
    if "User:ANONYMOUS" in users:
        yield bad(ACCESS, "super.users has User:ANONYMOUS: who does not log in may do everything", "take it out")
    if authorizer:
        if settings.get("allow.everyone.if.no.acl.found") == "true":
            says = "allow.everyone.if.no.acl.found=true: what has no entry is everybody's"
            yield warn(ACCESS, says, "false, and an entry for each right (`pybroker acls add`)")
        else:
            yield ok(ACCESS, "nothing is permitted but what an entry allows")
    elif _logs_in(settings):
        says = "clients log in, and everybody may do everything: there is no authorizer"
        yield warn(ACCESS, says, "authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")


def _logs_in(settings: Mapping[str, str]) -> bool:
    try:
        protocols = protocol_map(settings.get("listener.security.protocol.map", ""))
        listening = parse_listeners(_list(settings, "listeners"), protocols)
        return any(each.protocol.startswith("SASL") for each in listening)
    except InvalidValue:
        return False


def is_local(host: str) -> bool:
    """Return whether only this machine reaches the address. "" is every interface."""
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False


def _list(settings: Mapping[str, str], name: str) -> tuple[str, ...]:
    return tuple(each.strip() for each in settings.get(name, "").split(",") if each.strip())


def _number(settings: Mapping[str, str], name: str, default: int) -> int:
    try:
        return int(settings.get(name, default))
    except ValueError:
        return default
