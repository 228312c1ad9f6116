"""Metrics of authentication."""

from __future__ import annotations

import re
import urllib.request

import pytest

from tests.security.kit import ROOT, login, secure_broker, until


def test_authentications_are_counted() -> None:
    with secure_broker([], {"metrics.listener": "127.0.0.1:0"}) as broker:
        said = re.search(r"Metrics at (http://\S+)", broker.log_path.read_text())
        assert said is not None
        address = said[1]

        def metrics() -> str:
            with urllib.request.urlopen(address, timeout=60) as answer:
                text: str = answer.read().decode()
                return text

        for _ in range(2):
            login(broker, ROOT).close()
        with pytest.raises(AssertionError):
            login(broker, ROOT, "wrong")
        until(lambda: "pybroker_authentications_failed_total 1\n" in metrics())
        assert "\npybroker_authentications_succeeded_total 2\n" in metrics()
        for name in ("succeeded", "failed"):
            assert f"# TYPE pybroker_authentications_{name}_total counter\n" in metrics()
