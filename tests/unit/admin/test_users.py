"""The result of each change of users."""

from __future__ import annotations

from typing import Any

from pybroker.broker.admin.users import CredentialDeletion, UserAdmin
from pybroker.broker.cluster.events import AlterUsers
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.scram import ScramMechanism

ROOT = Caller("User:root", "127.0.0.1")


class NoController:
    """Refuses events as a whole."""

    async def submit(self, event: AlterUsers, timeout_ms: int | None = None, *, caller: Caller | None = None) -> Any:
        assert [change.name for change in event.changes] == ["a", "b"]
        assert caller == ROOT
        raise KafkaError(ErrorCode.NOT_CONTROLLER, "There is no controller now. Try again later.")


async def test_each_user_hears_that_nobody_decides() -> None:
    port: Any = NoController()
    view: Any = None
    deletions = [CredentialDeletion(name, ScramMechanism.SCRAM_SHA_256) for name in ("a", "", "b")]
    results = await UserAdmin(view, port).alter(deletions, [], ROOT, LoopShares())
    codes = {name: None if error is None else error.code for name, error in results.items()}
    assert codes == {
        "a": ErrorCode.NOT_CONTROLLER,
        "": ErrorCode.UNACCEPTABLE_CREDENTIAL,
        "b": ErrorCode.NOT_CONTROLLER,
    }
