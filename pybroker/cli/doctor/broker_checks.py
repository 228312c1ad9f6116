"""Checks of running brokers, of pybroker or Kafka, and of their topics."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from pybroker.cli.doctor import setting_checks as of_settings
from pybroker.cli.doctor.disk_checks import DISK, free_room
from pybroker.cli.doctor.finding import Finding, bad, ok, warn

if TYPE_CHECKING:
    from pybroker.client import AdminClient

IDS = "ids"
HEALTH = "health"
TOPICS = "topics"
SETTINGS = "settings"

SAME_EVERYWHERE = (
    "authorizer.class.name",
    "auto.create.topics.enable",
    "default.replication.factor",
    "inter.broker.protocol.version",
    "log.flush.mode",
    "message.max.bytes",
    "min.insync.replicas",
    "offsets.topic.replication.factor",
    "super.users",
    "unclean.leader.election.enable",
)
"""Settings that should be equal on all brokers. Otherwise the effective value depends on which broker is leader or
controller."""
TOPICS_A_REQUEST = 500
NAMES_SHOWN = 5


async def running(bootstrap: str, client_config: Mapping[str, Any]) -> list[Finding]:
    """Check all brokers of the cluster. Raises KafkaError, OSError or TimeoutError if they do not respond or refuse."""
    from pybroker.client import AdminClient

    found = await _one_cluster(bootstrap, client_config)
    async with AdminClient(dict(client_config)) as admin:
        cluster = await admin.describe_cluster()
        brokers = sorted(node.id for node in cluster.nodes)
        settings = await _settings(admin, brokers)
        found += _of_brokers(settings)
        found += _differences(settings)
        found += _disks(await admin.describe_log_dirs(brokers))
        found += await _health(admin)
        found += await _topics(admin, len(brokers))
    return found


async def _one_cluster(bootstrap: str, client_config: Mapping[str, Any]) -> list[Finding]:
    """Check each address separately. If an address belongs to another cluster, a client would use it only while the
    others are down.
    """
    from pybroker.client import AdminClient
    from pybroker.client.client_errors import KafkaError

    addresses = [each.strip() for each in bootstrap.split(",") if each.strip()]
    cluster_ids: dict[str, str] = {}
    problems: dict[str, Exception] = {}
    for address in addresses:
        try:
            async with AdminClient({**client_config, "bootstrap.servers": address}) as admin:
                cluster_ids[address] = (await admin.describe_cluster()).cluster_id or "(no cluster id)"
        except (KafkaError, OSError, TimeoutError) as problem:
            problems[address] = problem
    if not cluster_ids:
        raise next(iter(problems.values()))
    found = [
        warn(IDS, f"{address} does not respond: {problem}", "start this broker")
        for address, problem in problems.items()
    ]
    if len(set(cluster_ids.values())) > 1:
        summary = ", ".join(f"{address} belongs to {cluster}" for address, cluster in cluster_ids.items())
        return [
            *found,
            bad(IDS, f"the addresses belong to several clusters: {summary}", "pass only brokers of one cluster"),
        ]
    return [*found, ok(IDS, f"cluster {next(iter(cluster_ids.values()))}")]


async def _settings(admin: AdminClient, brokers: Sequence[int]) -> dict[int, dict[str, str]]:
    from pybroker.client.admin.config_types import ConfigResource

    described = await admin.describe_configs([ConfigResource.broker(each) for each in brokers])
    return {
        int(resource.name): {name: entry.value for name, entry in entries.items() if entry.value is not None}
        for resource, entries in described.items()
    }


def _of_brokers(settings: Mapping[int, Mapping[str, str]]) -> Iterator[Finding]:
    """Report a finding only once if it is the same on all brokers."""
    who: dict[Finding, list[int]] = defaultdict(list)
    for broker, each in settings.items():
        for finding in of_settings.check(each, brokers=len(settings)):
            who[finding].append(broker)
    for finding, brokers in who.items():
        everybody = len(brokers) == len(settings)
        yield finding if everybody else finding.about(f"broker {','.join(map(str, brokers))}")


def _differences(settings: Mapping[int, Mapping[str, str]]) -> Iterator[Finding]:
    for name in SAME_EVERYWHERE:
        values: dict[str, list[int]] = defaultdict(list)
        for broker, each in settings.items():
            values[each.get(name, "")].append(broker)
        if len(values) > 1:
            summary = "; ".join(f"{value or '(none)'} on {','.join(map(str, who))}" for value, who in values.items())
            yield warn(SETTINGS, f"{name} differs: {summary}", "use the same value on all brokers")


def _disks(described: Mapping[int, Mapping[str, Any]]) -> Iterator[Finding]:
    for broker, directories in sorted(described.items()):
        for path, about in sorted(directories.items()):
            where = f"broker {broker}: {path}"
            if about.error_code:
                yield bad(
                    DISK,
                    f"{where} is offline",
                    "repair the disk and restart the broker; the cause is in the broker's log",
                )
            elif about.total_bytes <= 0:
                continue  # The broker is older than KIP-827, which added the sizes.
            else:
                yield free_room(where, about.usable_bytes, about.total_bytes)


async def _health(admin: AdminClient) -> list[Finding]:
    from pybroker.cli.cluster.cluster_report import collect
    from pybroker.cli.cluster.health import find_problems

    report = await collect(admin, leaders=True)
    if report.state is None:
        return []  # Only pybroker's brokers report this state.
    problems = [bad(HEALTH, each["says"], "run `pybroker cluster describe`") for each in find_problems(report)]
    state = report.state
    summary = f"{len(report.brokers)} brokers, {state.topics:,} topics, {state.partitions:,} partitions"
    return problems or [ok(HEALTH, summary)]


async def _topics(admin: AdminClient, brokers: int) -> list[Finding]:
    """Compare settings of topics with the brokers' settings."""
    from pybroker.client.admin.config_messages import describe_request, described
    from pybroker.client.admin.config_types import ConfigResource

    if brokers == 1:
        return []
    names = sorted(await admin.list_topics(list_internal=True))
    factors: dict[str, int] = {}
    configs: dict[str, dict[str, str | None]] = {}
    for begin in range(0, len(names), TOPICS_A_REQUEST):
        some = names[begin : begin + TOPICS_A_REQUEST]
        for name, about in (await admin.describe_topics(some)).items():
            factors[name] = min((len(each.replicas) for each in about.partitions), default=0)
        request = describe_request(
            [ConfigResource.topic(name) for name in some], (of_settings.MIN_ISR, of_settings.UNCLEAN)
        )
        for row in described(await admin.send(request)):
            configs[row.resource.name] = {name: entry.value for name, entry in row.entries.items()}
    return list(of_topics(factors, configs))


def of_topics(factors: Mapping[str, int], configs: Mapping[str, Mapping[str, str | None]]) -> Iterator[Finding]:
    """Check topics. `factors`: the smallest number of replicas of a topic's partitions; `configs`: its settings."""

    def least(name: str) -> int:
        return int(configs.get(name, {}).get(of_settings.MIN_ISR) or 1)

    single = [name for name, factor in factors.items() if factor == 1]
    weak = [name for name, factor in factors.items() if factor > 1 and least(name) == 1]
    stiff = [name for name, factor in factors.items() if factor > 1 and least(name) >= factor]
    unclean = [name for name in factors if configs.get(name, {}).get(of_settings.UNCLEAN) == "true"]
    if single:
        advice = "add replicas (`pybroker cluster balance --replication-factor N` or kafka-reassign-partitions)"
        yield warn(TOPICS, f"{_count(single)} with one replica: {_names(single)}", advice, single)
    if weak:
        says = f"{_count(weak)} with {of_settings.MIN_ISR}=1 and several replicas: {_names(weak)}"
        yield bad(TOPICS, says, f"run `pybroker configs alter --topic NAME --add-config {of_settings.MIN_ISR}=2`", weak)
    if stiff:
        says = f"{_count(stiff)} not writable while one broker is down: {_names(stiff)}"
        yield warn(TOPICS, says, f"add replicas beyond {of_settings.MIN_ISR}", stiff)
    if unclean:
        says = f"{_count(unclean)} with {of_settings.UNCLEAN}=true: {_names(unclean)}"
        yield bad(
            TOPICS, says, f"run `pybroker configs alter --topic NAME --delete-config {of_settings.UNCLEAN}`", unclean
        )


def _count(names: Sequence[str]) -> str:
    return "1 topic" if len(names) == 1 else f"{len(names):,} topics"


def _names(names: Iterable[str]) -> str:
    several = list(names)
    more = f", … and {len(several) - NAMES_SHOWN:,} more" if len(several) > NAMES_SHOWN else ""
    return ", ".join(several[:NAMES_SHOWN]) + more
