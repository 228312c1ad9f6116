"""No module depends on whether this broker is the controller: only the composition imports the controller's modules.

Other modules use `cluster.events`, `cluster.controller_client`, `cluster.cluster_view`, and the controller's messages.
"""

from __future__ import annotations

from pathlib import Path

from tests.architecture.python_modules import imports

ROOT = Path(__file__).parents[2] / "pybroker"

PUTS_TOGETHER = {
    f"pybroker.broker.lifecycle.{name}" for name in ("broker_parts", "composition", "quorum_composition")
}


def test_the_inside_of_the_controller_is_its_own() -> None:
    strangers = {
        f"{name} imports {target}"
        for name, targets in imports(ROOT).items()
        for target in targets
        if target.startswith("pybroker.broker.controller") and not name.startswith("pybroker.broker.controller")
        if name not in PUTS_TOGETHER
    }
    assert strangers == set()


def test_the_controller_knows_nobody_who_asks_it() -> None:
    """The controller reaches brokers, including its own, only through its channels."""
    neutral = ("errors", "native", "native_quorum", "printable", "protocol", "wall_clock")
    allowed = {f"pybroker.{name}" for name in neutral}
    rooms = ("controller", "cluster", "metadata", "quorum", "clock", "gc_tuning", "log_limits")
    allowed |= {f"pybroker.broker.{name}" for name in rooms}
    known = {
        target
        for name, targets in imports(ROOT).items()
        for target in targets
        if name.startswith("pybroker.broker.controller")
    }
    assert {target for target in known if not any(f"{target}.".startswith(f"{name}.") for name in allowed)} == set()
