"""`--topics-max`: the largest cases of the folder to run."""

from __future__ import annotations

import pytest


def pytest_addoption(parser: pytest.Parser) -> None:
    parser.addoption("--topics-max", type=int, help="skip cases with more topics")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    topics_max = config.getoption("--topics-max")
    if topics_max is None:
        return
    callspecs = [(item, getattr(item, "callspec", None)) for item in items]
    items[:] = [item for item, spec in callspecs if spec is None or spec.params.get("count", 0) <= topics_max]
