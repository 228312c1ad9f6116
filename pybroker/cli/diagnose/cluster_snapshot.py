"""Responses of brokers, pybroker's or others', to an administrator."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Mapping
from typing import TYPE_CHECKING, Any

from pybroker.broker.observability.diagnosis.redaction import HIDDEN, may_be_shown
from pybroker.cli.diagnose.archive import Archive
from pybroker.client.client_errors import KafkaError

if TYPE_CHECKING:
    from pybroker.client import AdminClient

TOPICS_MAX = 5_000
TOPICS_A_REQUEST = 500
ANSWER_S_MAX = 60.0


async def cluster(archive: Archive, client_config: Mapping[str, Any]) -> None:
    """Add the responses that this user may see. Raises KafkaError if no broker answers."""
    from pybroker.client import AdminClient

    async with AdminClient(dict(client_config)) as admin:
        await admin.describe_cluster()
        parts: dict[str, tuple[str, Callable[[AdminClient], Awaitable[Any]]]] = {
            "cluster": ("state of the cluster as reported by its brokers", _state),
            "brokers": ("settings of the brokers", _settings),
            "log-dirs": ("log directories and sizes of their replicas", _log_dirs),
            "topics": (f"up to {TOPICS_MAX:,} topics with their partitions", _topics),
            "groups": ("groups and their states", _groups),
        }
        for name, (what, ask) in parts.items():
            try:
                async with asyncio.timeout(ANSWER_S_MAX):
                    archive.document(f"cluster/{name}.json", what, await ask(admin))
            except (KafkaError, OSError, TimeoutError) as problem:
                archive.lacks(f"cluster/{name}.json", str(problem) or "no response in time")


async def _state(admin: AdminClient) -> Any:
    from pybroker.cli.cluster.cluster_report import collect

    return _plain(await collect(admin))


async def _settings(admin: AdminClient) -> Any:
    from pybroker.client.admin.config_types import ConfigResource

    brokers = [node.id for node in (await admin.describe_cluster()).nodes]
    described = await admin.describe_configs([ConfigResource.broker(each) for each in brokers])
    return {
        resource.name: {
            name: {
                "value": HIDDEN if entry.sensitive or not may_be_shown(name) else entry.value,
                "source": entry.source.name if hasattr(entry.source, "name") else entry.source,
            }
            for name, entry in entries.items()
        }
        for resource, entries in described.items()
    }


async def _log_dirs(admin: AdminClient) -> Any:
    return {
        str(broker): {
            path: {
                "error_code": about.error_code,
                "total_bytes": about.total_bytes,
                "usable_bytes": about.usable_bytes,
                "replicas": {f"{each.topic}-{each.partition}": _plain(info) for each, info in about.replicas.items()},
            }
            for path, about in directories.items()
        }
        for broker, directories in (await admin.describe_log_dirs()).items()
    }


async def _topics(admin: AdminClient) -> Any:
    names = sorted(await admin.list_topics(list_internal=True))
    topics: dict[str, Any] = {}
    for begin in range(0, min(len(names), TOPICS_MAX), TOPICS_A_REQUEST):
        some = names[begin : min(begin + TOPICS_A_REQUEST, TOPICS_MAX)]
        topics.update({name: _plain(about) for name, about in (await admin.describe_topics(some)).items()})
    return {"left_out": max(len(names) - TOPICS_MAX, 0), "topics": topics}


async def _groups(admin: AdminClient) -> Any:
    return [_plain(each) for each in await admin.list_groups()]


def _plain(value: Any) -> Any:
    import msgspec

    return msgspec.to_builtins(value, str_keys=True, enc_hook=str)
