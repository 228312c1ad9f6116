"""A broker that, as a later controller, waits for the test before it loads: `python -m tests.cluster.loads_late FOLDER
start …`. It creates `FOLDER/loading` and waits for `FOLDER/go`."""

from __future__ import annotations

import asyncio
import sys
from pathlib import Path
from typing import Any

from pybroker.__main__ import main
from pybroker.broker.controller import terms


def _load_late(folder: Path) -> None:
    load = vars(terms)["load_cluster"]

    async def late(store: Any, term: Any, *more: Any) -> Any:
        if term.epoch > 1:
            (folder / "loading").touch()
            while not (folder / "go").exists():  # noqa: ASYNC110  # no event tells
                await asyncio.sleep(0.02)
        return await load(store, term, *more)

    assert "load_cluster" in vars(terms)
    terms.load_cluster = late  # type: ignore[attr-defined]  # for this process


if __name__ == "__main__":
    _load_late(Path(sys.argv.pop(1)))
    main()
