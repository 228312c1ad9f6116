"""Regular expressions of members take a limited amount of memory."""

from __future__ import annotations

import subprocess
import sys

GROWTH_MIB_MAX = 256
EXPRESSIONS = """
import random, resource
from pybroker.broker.coordinators.consumer.topics import compiled

chance = random.Random(1)
names = ["".join(chance.choice("abc\u00e9") for _ in range(249)) for _ in range(30)]
peak = lambda: resource.getrusage(resource.RUSAGE_SELF).ru_maxrss // 1024
compiled(".*")
before = peak()
for number in range(300):
    pattern = compiled("(?:.*a.{100}|.*b.{90}|.*c.{80})x%d" % number)
    for name in names:
        assert not pattern.matches(name)
print(peak() - before)
"""


def test_expressions_whose_states_explode_are_not_all_kept() -> None:
    """Each expression takes 2 MB while it is cached. The test uses a separate process, because it measures memory."""
    done = subprocess.run([sys.executable, "-c", EXPRESSIONS], capture_output=True, text=True, check=True)
    assert int(done.stdout) < GROWTH_MIB_MAX
