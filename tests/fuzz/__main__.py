"""`python -m tests.fuzz TARGET [SECONDS]`: libFuzzer by atheris, from the committed inputs of the target.

`pip install atheris` first; the tests do not need it. An input that makes a target fail is stored in the current
folder.
"""

from __future__ import annotations

import sys
from pathlib import Path


def main() -> None:
    import atheris  # type: ignore[import-not-found, import-untyped, unused-ignore]

    with atheris.instrument_imports(include=["pybroker"]):
        from tests.fuzz.targets import TARGETS
    name, seconds = sys.argv[1], sys.argv[2] if len(sys.argv) > 2 else "60"
    seeds = Path(__file__).parent / "seeds" / name
    atheris.Setup([sys.argv[0], f"-max_total_time={seconds}", "-rss_limit_mb=2048", str(seeds)], TARGETS[name])
    atheris.Fuzz()


if __name__ == "__main__":
    main()
