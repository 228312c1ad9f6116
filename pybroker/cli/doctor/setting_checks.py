"""Checks effects of a broker's settings on durability and access. Pure: the input is texts by name, from a file or from
a running broker."""

from __future__ import annotations

import ipaddress
from collections.abc import Iterator, Mapping

from pybroker.cli.doctor.finding import Finding, bad, ok, warn
from pybroker.config.listener_addresses import Listener, host_port, parse_listeners, protocol_map
from pybroker.config.setting_values import InvalidValue

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
    ("transaction.state.log.replication.factor", "transaction state"),
)


def check(settings: Mapping[str, str], *, brokers: int) -> Iterator[Finding]:
    """Run all checks of this module. `brokers`: the number of brokers; with 1, replication cannot help."""
    yield from durability(settings, brokers=brokers)
    yield from listeners(settings)
    yield from access(settings)


def durability(settings: Mapping[str, str], *, brokers: int) -> Iterator[Finding]:
    """Check for data that would be lost after a power failure, or with a failed disk or broker."""
    factor = _number(settings, FACTOR, 1)
    mode = settings.get("log.flush.mode")
    if mode == "os" and (brokers == 1 or factor == 1):
        says = "log.flush.mode=os with one replica: a power failure loses acknowledged records"
        yield bad(DURABILITY, says, "set log.flush.mode=commit")
    elif mode is not None:
        yield ok(DURABILITY, f"log.flush.mode={mode}" + (" with replicas" if mode == "os" else ""))
    if brokers > 1:
        yield from _replication(settings, factor, brokers)
    if settings.get(UNCLEAN) == "true":
        says = f"{UNCLEAN}=true: a replica that lags behind can become leader, and the records that it lacks are lost"
        yield bad(
            ELECTION,
            says,
            (
                f"set {UNCLEAN}=false; elect with `kafka-leader-election --election-type unclean` for one partition if "
                "needed"
            ),
        )
    if settings.get("delete.topic.delay.ms") == "0":
        yield warn(DELETION, "delete.topic.delay.ms=0: deleted topics cannot be undeleted", "set it to a few hours")


def _replication(settings: Mapping[str, str], factor: int, brokers: int) -> Iterator[Finding]:
    found = [*_of_topics(settings, factor, brokers), *_of_internal_topics(settings, brokers)]
    yield from found or [ok(REPLICATION, f"{FACTOR}={factor}, {MIN_ISR}={_number(settings, MIN_ISR, 1)}")]


def _of_topics(settings: Mapping[str, str], factor: int, brokers: int) -> Iterator[Finding]:
    least = _number(settings, MIN_ISR, 1)
    if factor == 1:
        says = f"{FACTOR}=1: topics that do not choose a replication factor are lost with one disk"
        yield warn(REPLICATION, says, f"set {FACTOR}={min(3, brokers)} and {MIN_ISR}=2")
    elif least == 1:
        says = (
            f"{MIN_ISR}=1 with {FACTOR}={factor}: acks=all can mean a single copy, and losing that broker loses records"
        )
        yield bad(REPLICATION, says, f"set {MIN_ISR}=2")
    elif least >= factor:
        says = f"{MIN_ISR}={least} with {FACTOR}={factor}: writes fail while one broker is down"
        yield warn(REPLICATION, says, f"set {MIN_ISR}={factor - 1}" if factor > 2 else f"set {FACTOR}=3")
    if factor > brokers:
        says = f"{FACTOR}={factor} with {brokers} brokers: topics cannot be created"
        yield bad(REPLICATION, says, f"set {FACTOR}={brokers}, or add brokers")


def _of_internal_topics(settings: Mapping[str, str], brokers: int) -> Iterator[Finding]:
    for name, what in ENDURING:
        if name in settings and _number(settings, name, 3) < min(3, brokers):
            says = f"{name}={settings[name]}: losing as many disks loses {what}"
            yield warn(REPLICATION, says, f"set {name}=3; raise existing topics with `pybroker cluster balance`")
    state_isr = _number(settings, "transaction.state.log.min.isr", 2)
    if _number(settings, ENDURING[1][0], 3) > 1 and state_isr < 2:
        says = f"transaction.state.log.min.isr={state_isr}: losing one disk can lose the outcome of a transaction"
        yield warn(REPLICATION, says, "set transaction.state.log.min.isr=2")


def listeners(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check for clients without authentication and for traffic without encryption."""
    try:
        protocols = protocol_map(settings.get("listener.security.protocol.map", ""))
        listening = parse_listeners(_list(settings, "listeners"), protocols)
        advertised_listeners = parse_listeners(_list(settings, "advertised.listeners"), protocols, advertised=True)
    except InvalidValue as problem:
        yield bad(LISTENERS, str(problem), "see docs/operations.md")
        return
    for each in listening:
        yield from _of_listener(each, settings)
        advertised = next((listener for listener in advertised_listeners if listener.name == each.name), None)
        if advertised is not None and is_local(advertised.host) and not is_local(each.host):
            says = f"{each} advertises {advertised.host}, which clients on other machines cannot reach"
            yield warn(LISTENERS, says, "set advertised.listeners to an address that clients can reach")
    yield from _of_metrics(settings.get("metrics.listener", ""))


def _of_listener(listener: Listener, settings: Mapping[str, str]) -> Iterator[Finding]:
    name, protocol = listener.name.lower(), listener.protocol
    between_brokers = settings.get("inter.broker.listener.name", "").upper() == listener.name
    client_auth = settings.get(f"listener.name.{name}.ssl.client.auth", settings.get("ssl.client.auth", "none"))
    enabled = "sasl.enabled.mechanisms"
    mechanisms = settings.get(f"listener.name.{name}.{enabled}", settings.get(enabled, ""))
    whom = (
        "every client that connects can act as a broker"
        if between_brokers
        else "every client that connects is accepted"
    )
    if is_local(listener.host):
        yield ok(LISTENERS, f"{listener} ({protocol}): reachable only from this machine")
    elif protocol == "PLAINTEXT":
        advice = "use SASL_SSL, SSL with ssl.client.auth=required, or a loopback address (127.0.0.1)"
        yield bad(LISTENERS, f"{listener} (PLAINTEXT): {whom}, and traffic is not encrypted", advice)
    elif protocol == "SSL" and client_auth != "required":
        says = f"{listener} (SSL, ssl.client.auth={client_auth}): {whom}"
        yield bad(LISTENERS, says, "set ssl.client.auth=required, or use SASL_SSL")
    elif protocol == "SASL_PLAINTEXT" and "PLAIN" in mechanisms.upper().replace(" ", "").split(","):
        says = f"{listener} (SASL_PLAINTEXT with PLAIN): passwords are sent unencrypted"
        yield bad(LISTENERS, says, "use SASL_SSL, or allow only SCRAM: sasl.enabled.mechanisms=SCRAM-SHA-512")
    elif protocol == "SASL_PLAINTEXT":
        yield warn(LISTENERS, f"{listener} (SASL_PLAINTEXT): records are sent unencrypted", "use SASL_SSL")
    else:
        yield ok(LISTENERS, f"{listener} ({protocol})")


def _of_metrics(address: str) -> Iterator[Finding]:
    if address:
        try:
            host, _ = host_port(address)
        except InvalidValue:
            return  # The parser of settings reports this problem.
        if not is_local(host):
            says = f"metrics.listener={address}: HTTP without encryption and login"
            yield warn(LISTENERS, says, "use an address that only your monitoring can reach")


def access(settings: Mapping[str, str]) -> Iterator[Finding]:
    """Check the permissions of connected clients."""
    authorizer = settings.get("authorizer.class.name", "")
    users = [each.strip() for each in settings.get("super.users", "").split(";")]
    if "User:ANONYMOUS" in users:
        yield bad(ACCESS, "super.users contains User:ANONYMOUS: clients without a login may do everything", "remove it")
    if authorizer:
        if settings.get("allow.everyone.if.no.acl.found") == "true":
            says = "allow.everyone.if.no.acl.found=true: everyone may use resources without ACL entries"
            yield warn(ACCESS, says, "set it to false, and add entries with `pybroker acls add`")
        else:
            yield ok(ACCESS, "clients may do only what an ACL entry allows")
    elif _logs_in(settings):
        says = "clients log in, but every client may do everything: no authorizer is configured"
        yield warn(ACCESS, says, "set authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer")


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
