"""The objects that handlers are bound to. `app.Broker` fills it once; nobody else constructs them."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from pybroker.clock import Clock
from pybroker.completions import NativeAppends
from pybroker.native import NativeBroker

if TYPE_CHECKING:
    from pybroker.admin.cluster import ClusterAdmin
    from pybroker.admin.topics import TopicAdmin
    from pybroker.controller.controller import Controller
    from pybroker.metadata.cache import MetadataCache
    from pybroker.metadata.store import MetadataStore
    from pybroker.replicas.manager import ReplicaManager


@dataclass(slots=True)
class Services:
    """One broker's services. Fields that another slice owns are set by `app.Broker` before the listeners
    accept.
    """

    broker_id: int
    cluster_id: str
    config: Mapping[str, Any]
    clock: Clock
    loop: asyncio.AbstractEventLoop
    native: NativeBroker
    appends: NativeAppends
    store: MetadataStore
    cache: MetadataCache
    controller: Controller
    replicas: ReplicaManager
    topics: TopicAdmin
    cluster: ClusterAdmin
    configs: Any = None
    groups: Any = None
    producer_ids: Any = None
