"""The kinds of brokers that tests for a single broker can use: the option `--broker`."""

from __future__ import annotations

from collections.abc import Mapping

from tests.support.brokers import BrokerProcess, KafkaProcess, PybrokerProcess
from tests.support.cluster import ClusterProcess

KINDS: Mapping[str, type[BrokerProcess]] = {
    "pybroker": PybrokerProcess,
    "kafka": KafkaProcess,
    "cluster": ClusterProcess,
}
