"""The URLs of the console."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Callable

from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, Response
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles
from starlette.types import ASGIApp

from pybroker.console.console_settings import ConsoleSettings
from pybroker.console.screens import (
    access_pages,
    activity_pages,
    broker_pages,
    deletions_page,
    group_pages,
    login_page,
    message_pages,
    overview,
    produce_page,
    quotas_page,
    tail_page,
    throughput_page,
    topic_changes,
    topic_pages,
    topics_page,
)
from pybroker.console.web.page_templates import STATIC
from pybroker.console.web.request_context import Console, NotFoundError, PageContext, action, page
from pybroker.console.web.request_guard import RequestGuard

SHOWN = {
    "/": overview.show,
    "/brokers": broker_pages.show,
    "/brokers/{id}": broker_pages.one,
    "/deletions": deletions_page.show,
    "/live": throughput_page.show,
    "/live/curves": throughput_page.curves,
    "/groups": group_pages.show,
    "/group": group_pages.one,
    "/group/reset": group_pages.preview,
    "/acls": access_pages.acls,
    "/users": access_pages.users,
    "/quotas": quotas_page.show,
    "/ingests": activity_pages.ingests,
    "/transactions": activity_pages.transactions,
    "/topics": topics_page.show,
    "/topics/new": topics_page.new,
    "/topic-ids/{id}": topics_page.by_id,
    "/topics/{name}": topic_pages.show,
    "/topics/{name}/settings": topic_pages.settings,
    "/topics/{name}/groups": topic_pages.groups,
    "/topics/{name}/history": topic_pages.history,
    "/topics/{name}/delete": topic_changes.ask_delete,
    "/topics/{name}/messages": message_pages.show,
    "/topics/{name}/record": message_pages.record,
    "/topics/{name}/export/{kind}": message_pages.exported,
    "/topics/{name}/tail": tail_page.show,
    "/topics/{name}/tail/events": tail_page.events,
    "/topics/{name}/produce": produce_page.show,
}
"""Pages, requested by GET."""

DONE = {
    "/group/move": group_pages.move,
    "/group/delete-offsets": group_pages.delete_offsets,
    "/group/delete": group_pages.delete,
    "/acls": access_pages.create_acl,
    "/acls/delete": access_pages.delete_acl,
    "/users": access_pages.set_password,
    "/users/delete": access_pages.delete_user,
    "/quotas": quotas_page.put,
    "/quotas/delete": quotas_page.remove,
    "/ingests/abort": activity_pages.abort_ingest,
    "/deletions/undelete": deletions_page.undelete,
    "/deletions/purge": deletions_page.purge,
    "/deletions/discard": deletions_page.discard,
    "/topics/new": topics_page.create,
    "/topics/{name}/settings": topic_changes.change_setting,
    "/topics/{name}/delete": topic_changes.delete,
    "/topics/{name}/partitions": topic_changes.add_partitions,
    "/topics/{name}/produce": produce_page.write,
    "/topics/{name}/schema": produce_page.keep_schema,
}
"""Changes, requested by POST."""


class Assets(StaticFiles):
    """Style sheet, script and icon. Their URLs change with their content."""

    def file_response(self, *args: object, **named: object) -> Response:
        """Let browsers cache the file."""
        response = super().file_response(*args, **named)  # type: ignore[arg-type]  # starlette's own, handed on
        response.headers["Cache-Control"] = "public, max-age=31536000, immutable"
        return response


def make_app(settings: ConsoleSettings, is_ending: Callable[[], bool] = lambda: False) -> ASGIApp:
    """Return the whole application. is_ending: returns whether open pages should end. Raises ClientConfigError for
    invalid settings."""
    settings.check()
    console = Console(settings, is_ending)

    @contextlib.asynccontextmanager
    async def lifespan(_: Starlette) -> AsyncIterator[None]:
        console.watch()
        yield
        await console.close()

    async def nothing(context: PageContext) -> Response:
        raise NotFoundError(f"The page {context.request.url.path} does not exist.")

    async def not_found(request: Request, _: Exception) -> Response:
        return await page(nothing, login=False)(request)

    async def alive(_: Request) -> Response:
        return PlainTextResponse("ok\n")

    routes: list[Route | Mount] = [
        Mount("/static", Assets(directory=STATIC)),
        Route("/healthz", alive),
        Route("/login", page(login_page.show, login=False), methods=["GET"]),
        Route("/login", action(login_page.log_in, login=False), methods=["POST"]),
        Route("/logout", action(login_page.log_out, login=False), methods=["POST"]),
        *(Route(path, page(handler), methods=["GET"]) for path, handler in SHOWN.items()),
        *(Route(path, action(handler), methods=["POST"]) for path, handler in DONE.items()),
    ]
    app = Starlette(routes=routes, lifespan=lifespan, exception_handlers={404: not_found})
    app.state.console = console
    return RequestGuard(app, (*settings.host_names, settings.host))
