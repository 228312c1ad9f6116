"""The examples of docs/testing.md run unchanged."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

PAGE = Path(__file__).parents[2] / "docs" / "testing.md"


def test_the_examples_run(tmp_path: Path) -> None:
    examples = re.findall(r"```python\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(examples) == 3
    for number, example in enumerate(examples):
        script = tmp_path / f"test_example_{number}.py"
        script.write_text(example)
        how = ("-m", "pytest", "-q", "-p", "no:cacheprovider") if "import pytest" in example else ()
        call = [sys.executable, *how, str(script)]
        done = subprocess.run(call, capture_output=True, text=True, timeout=600, check=False, cwd=tmp_path)
        assert done.returncode == 0, f"{example}\n{done.stdout}\n{done.stderr}"
        assert "2 passed" in done.stdout or not how
