"""The examples of docs/client.md run unchanged."""

from __future__ import annotations

import re
import subprocess
import sys

import pytest

from pybroker.client.config import ADMIN, CONSUMER, NOT_SERVED, PRODUCER, SHARE_CONSUMER, TRANSACTIONAL
from tests.client.settings_table import BEGIN, END, PAGE, table
from tests.support.brokers import BrokerProcess


@pytest.mark.checklist(151)
def test_the_examples_run(product: BrokerProcess) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 9
    for example in examples:
        code = example.replace("127.0.0.1:9092", product.bootstrap)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{example}\n{done.stderr}"


def test_the_table_of_settings_is_that_of_the_code() -> None:
    written = PAGE.read_text().split(BEGIN)[1].split(END)[0]
    assert written == table(), "run: python -m tests.client.settings_table"


def test_the_settings_named_exist() -> None:
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[a-z]+)?`", PAGE.read_text()))
    assert {"on.topic.recreated", "bootstrap.servers"} <= named
    code = {"pybroker.client", "pybroker.client.blocking", "error.code", "error.name", "error.retriable"}
    code |= {"transaction.version"}  # a feature of clusters
    code |= {"share.record.lock.duration.ms"}  # a setting of groups
    assert named - code - {*ADMIN, *PRODUCER, *TRANSACTIONAL, *CONSUMER, *SHARE_CONSUMER, *NOT_SERVED} == set()
