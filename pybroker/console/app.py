"""The addresses of the console."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pybroker.console.screens import (
    access,
    brokers,
    deletions,
    groups,
    live,
    login,
    messages,
    overview,
    produce,
    quotas,
    tail,
    topic,
    topic_changes,
    topics,
    work,
)
from pybroker.console.settings import ConsoleSettings
from pybroker.console.web.guard import RequestGuard
from pybroker.console.web.pages import STATIC
from pybroker.console.web.visits import Console, NotFoundError, Visit, action, page

SHOWN = {
    "/": overview.show,
    "/brokers": brokers.show,
    "/brokers/{id}": brokers.one,
    "/deletions": deletions.show,
    "/live": live.show,
    "/live/curves": live.curves,
    "/groups": groups.show,
    "/group": groups.one,
    "/group/reset": groups.preview,
    "/acls": access.acls,
    "/users": access.users,
    "/quotas": quotas.show,
    "/ingests": work.ingests,
    "/transactions": work.transactions,
    "/topics": topics.show,
    "/topics/new": topics.new,
    "/topic-ids/{id}": topics.by_id,
    "/topics/{name}": topic.show,
    "/topics/{name}/settings": topic.settings,
    "/topics/{name}/groups": topic.groups,
    "/topics/{name}/history": topic.history,
    "/topics/{name}/delete": topic_changes.ask_delete,
    "/topics/{name}/messages": messages.show,
    "/topics/{name}/record": messages.record,
    "/topics/{name}/export/{kind}": messages.exported,
    "/topics/{name}/tail": tail.show,
    "/topics/{name}/tail/events": tail.events,
    "/topics/{name}/produce": produce.show,
}
"""GET."""

DONE = {
    "/group/move": groups.move,
    "/group/delete-offsets": groups.delete_offsets,
    "/group/delete": groups.delete,
    "/acls": access.create_acl,
    "/acls/delete": access.delete_acl,
    "/users": access.set_password,
    "/users/delete": access.delete_user,
    "/quotas": quotas.put,
    "/quotas/delete": quotas.remove,
    "/ingests/abort": work.abort_ingest,
    "/deletions/undelete": deletions.undelete,
    "/deletions/purge": deletions.purge,
    "/deletions/discard": deletions.discard,
    "/topics/new": topics.create,
    "/topics/{name}/settings": topic_changes.change_setting,
    "/topics/{name}/delete": topic_changes.delete,
    "/topics/{name}/partitions": topic_changes.add_partitions,
    "/topics/{name}/produce": produce.write,
    "/topics/{name}/schema": produce.keep_schema,
}
"""POST."""


class Assets(StaticFiles):
    """Style sheet, script, icon: their addresses change with their content."""

    def file_response(self, *args: object, **named: object) -> Response:
        """May be kept."""
        response = super().file_response(*args, **named)  # type: ignore[arg-type]  # starlette's own, handed on
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def make_app(settings: ConsoleSettings, is_ending: Callable[[], bool] = lambda: False) -> ASGIApp:
    """The whole application. is_ending: whether pages that stay open should end. Raises ClientConfigError for settings
    that cannot be.
    """
    settings.check()
    console = Console(settings, is_ending)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        console.watch()
        yield
        await console.close()

    async def nothing(visit: Visit) -> Response:
        raise NotFoundError(f"There is no page {visit.request.url.path}.")

    async def not_found(request: Request, _: Exception) -> Response:
        return await page(nothing, login=False)(request)

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes: list[Route | Mount] = [
        Mount("/static", Assets(directory=STATIC)),
        Route("/healthz", alive),
        Route("/login", page(login.show, login=False), methods=["GET"]),
        Route("/login", action(login.log_in, login=False), methods=["POST"]),
        Route("/logout", action(login.log_out, login=False), methods=["POST"]),
        *(Route(path, page(handler), methods=["GET"]) for path, handler in SHOWN.items()),
        *(Route(path, action(handler), methods=["POST"]) for path, handler in DONE.items()),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: not_found})
    app.state.console = console
    return RequestGuard(app, (*settings.host_names, settings.host))
