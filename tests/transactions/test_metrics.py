"""Transactions on /metrics, and the expiration of unused transactional ids."""

from __future__ import annotations

import re
import urllib.request

import pytest
from confluent_kafka import Producer

from pybroker.client import KafkaError, blocking
from pybroker.protocol.error_codes import ErrorCode
from tests.conftest import StartBroker
from tests.groups.kit import WAIT_S, create_topic, until
from tests.support.brokers import BrokerProcess
from tests.support.wire import free_port
from tests.transactions.test_straight_path import transactional, write
from tests.transactions.test_wire import Wire
from tests.wire.client import WireClient

MARKERS = "kafka_coordinator_transaction_transactionmarkerchannelmanager_"
SAMPLE = re.compile(r"^(\w+(?:\{[^}]*\})?) (\S+)$", re.MULTILINE)


def scraped(broker: BrokerProcess) -> dict[str, float]:
    url = f"http://{broker.settings['metrics.listener']}/metrics"
    with urllib.request.urlopen(url, timeout=WAIT_S) as answer:
        return {name: float(value) for name, value in SAMPLE.findall(answer.read().decode())}


def test_transactions_are_counted(start_broker: StartBroker) -> None:
    broker = start_broker(
        {
            "metrics.listener": f"127.0.0.1:{free_port()}",
            "transaction.abort.timed.out.transaction.cleanup.interval.ms": "100",
        }
    )
    topic = create_topic(broker.bootstrap, 1)
    producer = transactional(broker.bootstrap, "counted")
    for commits in (True, False, True):
        producer.begin_transaction()
        write(producer, topic, "value")
        (producer.commit_transaction if commits else producer.abort_transaction)(WAIT_S)
    slow = transactional(broker.bootstrap, "slow", **{"transaction.timeout.ms": 5_000})
    slow.begin_transaction()
    write(slow, topic, "late")
    _open: Producer = transactional(broker.bootstrap, "open")
    _open.begin_transaction()
    write(_open, topic, "open")
    expected = {
        "pybroker_transactions_aborted_total": 2,
        "pybroker_transactions_committed_total": 2,
        "pybroker_transactions_timed_out_total": 1,
        'pybroker_transactional_ids{state="Ongoing"}': 1,
        'pybroker_transactional_ids{state="CompleteCommit"}': 1,
        'pybroker_transactional_ids{state="CompleteAbort"}': 1,
        f"{MARKERS}unknowndestinationqueuesize": 0,
        f"{MARKERS}logappendretryqueuesize": 0,
    }

    def shown() -> dict[str, float]:
        figures = scraped(broker)
        return {name: figures[name] for name in expected}

    until(lambda: shown() == expected, "the slow one is aborted")
    with WireClient(broker.port) as client:
        wire = Wire(client, topic)
        assert wire.produce(11, wire.me, 0, b"never added") == ErrorCode.TRANSACTION_ABORTABLE
    assert scraped(broker)["kafka_server_addpartitionstotxnmanager_verificationfailure_count"] == 1


def test_an_id_that_nobody_uses_is_forgotten(start_broker: StartBroker) -> None:
    """An id with an open transaction is not forgotten. A restart does not bring a forgotten id back."""
    broker = start_broker(
        {
            "metrics.listener": f"127.0.0.1:{free_port()}",
            "transactional.id.expiration.ms": "5000",
            "transaction.remove.expired.transaction.cleanup.interval.ms": "100",
        }
    )
    topic = create_topic(broker.bootstrap, 1)
    used = transactional(broker.bootstrap, "used")
    used.begin_transaction()
    write(used, topic, "open")
    unused = transactional(broker.bootstrap, "unused")
    unused.begin_transaction()
    write(unused, topic, "value")
    unused.commit_transaction(WAIT_S)
    with blocking.AdminClient({"bootstrap.servers": broker.bootstrap}) as admin:

        def known() -> set[str]:
            return {one.transactional_id for one in admin.list_transactions()}

        until(lambda: known() == {"used"}, "the other one is forgotten")
        until(lambda: scraped(broker)["pybroker_transactional_ids_expired_total"] == 1, "it is counted")
        broker.kill()
        broker.start()
        until(lambda: known() == {"used"}, "loaded again")
        with pytest.raises(KafkaError) as caught:
            admin.describe_transactions(["unused"])
        assert caught.value.code == ErrorCode.TRANSACTIONAL_ID_NOT_FOUND
    used.commit_transaction(WAIT_S)
