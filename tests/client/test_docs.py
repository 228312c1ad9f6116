"""The examples of docs/client.md run as they stand."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

from pybroker.client.config import ADMIN, CONSUMER, PRODUCER
from tests.support.brokers import BrokerProcess

PAGE = Path(__file__).parents[2] / "docs" / "client.md"


@pytest.mark.checklist(28, 151)
def test_the_examples_run(product: BrokerProcess) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 5
    for example in examples:
        code = example.replace("127.0.0.1:9092", product.bootstrap)
        done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=120, check=False)
        assert done.returncode == 0, f"{example}\n{done.stderr}"


def test_the_settings_named_exist() -> None:
    named = set(re.findall(r"`([a-z]+(?:\.[a-z]+)+)(?:=[a-z]+)?`", PAGE.read_text()))
    assert {"on.topic.recreated", "bootstrap.servers"} <= named
    assert named - {"pybroker.client", "pybroker.client.blocking"} - {*ADMIN, *PRODUCER, *CONSUMER} == set()
