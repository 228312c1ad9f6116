"""Where a broker sends requests if the metadata store sends it no news: reports of other brokers count until the store
has news."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from pybroker.broker.cluster.cluster_view import ControllerLeadership
from pybroker.broker.cluster.value_codec import pack
from pybroker.broker.interbroker.controller_discovery import ControllerDiscovery
from pybroker.client.client_errors import BrokerConnectionError
from pybroker.protocol import interbroker as wire
from pybroker.protocol.error_codes import ErrorCode

OWN, BEFORE, NEXT, THIRD = 1, 2, 3, 4


class Brokers:
    """Responses in place of connections to brokers; None: the broker is unreachable."""

    def __init__(self, **says: Any) -> None:
        self.says = {int(name[1:]): answer for name, answer in says.items()}
        self.asked: list[int] = []
        self.image = SimpleNamespace(
            brokers={number: SimpleNamespace(broker_id=number) for number in (OWN, BEFORE, NEXT, THIRD)}
        )

    async def open_connection(self, broker: Any) -> Any:
        number = broker.broker_id
        self.asked.append(number)
        answer = self.says.get(number)
        if answer is None:
            raise BrokerConnectionError("cut off")

        async def request(_: Any, timeout_s: float) -> Any:
            del timeout_s
            return answer

        return SimpleNamespace(request=request, abort=lambda: None)


def denies(controller: int | None) -> wire.EnvelopeResponse:
    return wire.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=pack(controller))


def of(brokers: Brokers, leadership: ControllerLeadership) -> ControllerDiscovery:
    view: Any = brokers
    return ControllerDiscovery(OWN, leadership, view, brokers.open_connection)


def seated(controller: int | None) -> ControllerLeadership:
    leadership = ControllerLeadership()
    leadership.set_controller(controller)
    return leadership


def test_who_is_not_the_controller_any_more_says_who_is() -> None:
    leadership = seated(BEFORE)
    discovery = of(Brokers(), leadership)
    discovery.note_denial(BEFORE, denies(NEXT))
    assert discovery.controller == NEXT
    # The named broker is not the controller and knows none: only the store's last state is left.
    discovery.note_denial(NEXT, denies(None))
    assert discovery.controller == BEFORE
    discovery.note_denial(BEFORE, denies(NEXT))
    leadership.set_controller(THIRD)
    assert discovery.controller == THIRD, "the store has said more since"


@pytest.mark.parametrize(
    "answer",
    [
        denies(None),
        denies(BEFORE),
        denies(OWN),
        wire.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER),
        wire.EnvelopeResponse(error_code=ErrorCode.NOT_CONTROLLER, response_data=b"\xc1"),
    ],
    ids=["nobody", "itself", "who asks", "a version that does not say it", "damaged"],
)
def test_an_answer_that_does_not_help(answer: wire.EnvelopeResponse) -> None:
    discovery = of(Brokers(), seated(BEFORE))
    discovery.note_denial(BEFORE, answer)
    assert discovery.controller == BEFORE


@pytest.mark.parametrize(
    ("third", "found"),
    [(denies(NEXT), NEXT), (wire.EnvelopeResponse(error_code=0), THIRD), (denies(BEFORE), BEFORE), (None, BEFORE)],
    ids=["one knows", "one is it", "nobody has heard", "nobody is reached"],
)
async def test_all_others_are_asked(third: Any, found: int) -> None:
    brokers = Brokers(b3=None, b4=third)
    discovery = of(brokers, seated(BEFORE))
    await discovery.search()
    assert discovery.controller == found
    assert brokers.asked == [NEXT, THIRD], "not itself, and not who cannot be asked"
    await discovery.search()
    assert len(brokers.asked) == 2, "only just tried"
    discovery.close()
