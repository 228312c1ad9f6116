"""The context of one request: the person, the clients to use, and the response."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine, Mapping
from typing import Any
from urllib.parse import parse_qsl, quote, urlencode

from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

from pybroker.client import AdminClient, AuthenticationError, BrokerConnectionError, KafkaTimeoutError
from pybroker.console.console_settings import ConsoleSettings
from pybroker.console.queries.fragments import TROUBLE, error_text
from pybroker.console.queries.measurements import History
from pybroker.console.queries.metrics_scrape import ScrapedMetrics
from pybroker.console.web.login_sessions import Session, Sessions
from pybroker.console.web.page_templates import Pages
from pybroker.console.web.reachability import ClusterAwayError, while_reachable
from pybroker.console.web.request_guard import BodyTooLargeError
from pybroker.console.web.user_clients import Clients

COOKIE = "pybroker_console"
FIELDS_MAX = 5_000


class Console:
    """The state that all requests have in common. shared: clients that all people use; None if each person has own
    clients."""

    def __init__(self, settings: ConsoleSettings, is_ending: Callable[[], bool]) -> None:
        self.settings = settings
        self._is_ending = is_ending
        self.sessions = Sessions(settings.idle_timeout_s)
        self.pages = Pages()
        self.scraped = ScrapedMetrics(settings.metrics_urls)
        self.shared = None if settings.needs_login else Clients(settings.common_config(), self.scraped)

    def watch(self) -> None:
        """Start to measure, because a visitor has come."""
        if self.shared is not None:
            self.shared.history.watch()

    async def close(self) -> None:
        """Close all connections."""
        await self.sessions.close()
        if self.shared is not None:
            await self.shared.close()

    def still_there(self, context: PageContext) -> bool:
        """Return whether the response may still be sent. It may not if the person has logged out since the request, or
        if the process is stopping."""
        if self._is_ending():
            return False
        return context.user is None or self.sessions.is_there(context.token)


class Form:
    """Fields of a form. A missing field is empty."""

    def __init__(self, pairs: list[tuple[str, str]]) -> None:
        self._pairs = pairs

    def text(self, name: str, default: str = "") -> str:
        """Return the last value of that name, stripped of blanks."""
        return self.raw(name, default).strip()

    def raw(self, name: str, default: str = "") -> str:
        """Return the last value with this name as typed, but with LF instead of the browser's CR LF."""
        return next((value for key, value in reversed(self._pairs) if key == name), default).replace("\r\n", "\n")

    def all(self, name: str) -> list[str]:
        """Return all values of that name."""
        return [value for key, value in self._pairs if key == name]

    def number(self, name: str, default: int | None = None, *, least: int = 0, most: int = 2**63 - 1) -> int | None:
        """Return an integer. Raises InputError for other text, or a number out of bounds."""
        text = self.text(name)
        if not text:
            return default
        try:
            value = int(text)
        except ValueError:
            raise InputError(f"{name}: {text[:40]!r} is not a number.") from None
        if not least <= value <= most:
            raise InputError(f"{name}: {value} must be between {least} and {most}.")
        return value


class InputError(ValueError):
    """A person's input is invalid; the text says why."""


class NotFoundError(Exception):
    """An object in the URL does not exist; the text says which."""


class PageContext:
    """A request, and methods for its response. form: the fields of a POST, else the query string."""

    def __init__(self, console: Console, request: Request, token: str, session: Session | None) -> None:
        self.console = console
        self.request = request
        self.token = token
        self.session = session
        self.query = Form(parse_qsl(request.url.query, keep_blank_values=True, max_num_fields=FIELDS_MAX))
        self.form = self.query

    @property
    def _clients(self) -> Clients | None:
        own = self.session.clients if self.session is not None else None
        return own or self.console.shared

    @property
    def clients(self) -> Clients:
        """The person's clients."""
        found = self._clients
        assert found is not None, "pages without clients do not ask for any"
        return found

    @property
    def admin(self) -> AdminClient:
        """The person's admin client."""
        return self.clients.admin

    @property
    def history(self) -> History:
        """The measurements that this person may see."""
        return self.clients.history

    @property
    def user(self) -> str | None:
        """The user who is logged in."""
        return self.session.user if self.session is not None else None

    @property
    def is_logged_in(self) -> bool:
        """Whether this person may see pages that require a login."""
        return self.user is not None or not self.console.settings.needs_login

    async def own_session(self) -> Session:
        """The person's session, in which a handler may store data."""
        if self.session is None:
            self.session = await self.console.sessions.begin(self.token, None, None)
        return self.session

    def path(self, name: str) -> str:
        """Return a parameter in the URL's path."""
        return str(self.request.path_params[name])

    def render(self, template: str, status: int = 200, **facts: Any) -> Response:
        """Render a page."""
        text = self.console.pages.render(
            template,
            {
                **facts,
                "csrf": self.console.sessions.csrf(self.token),
                "user": self.user,
                "path": self.request.url.path,
                "query": self.query,
                "done": DONE.get(self.query.text("done")),
                "settings": self.console.settings,
                "here": self.request.url.path + (f"?{self.request.url.query}" if self.request.url.query else ""),
            },
        )
        return HTMLResponse(text, status)

    def render_fragment(self, template: str, **facts: Any) -> str:
        """Render a fragment of a page."""
        return self.console.pages.render(template, {**facts, "query": self.query})

    def redirect(self, address: str, done: str | None = None) -> Response:
        """Redirect after a change to a page that can be reloaded. done: a key of DONE, the message to show."""
        assert done is None or done in DONE, done
        if done is not None:
            if self._clients is not None:
                self._clients.topic_names.forget()
            address += ("&" if "?" in address else "?") + urlencode({"done": done})
        return RedirectResponse(address, 303)


DONE = {
    "topic-created": "The topic was created.",
    "topic-deleted": "The topic was deleted. It can be undeleted on this page while its data is kept.",
    "topic-deleted-for-good": "The topic was deleted.",
    "topic-truncated": "The topic is empty now. Its old records are under “Deletions”.",
    "partitions-added": "The partitions were added.",
    "settings-changed": "The settings were changed.",
    "undeleted": "The topic was undeleted.",
    "purged": "All brokers are removing the data.",
    "discarded": "The found data is being removed.",
    "topic-purged": "The topic was deleted, and all brokers are removing its data.",
    "offsets-changed": "The positions of the group were moved.",
    "offsets-deleted": "The positions were deleted.",
    "group-deleted": "The group was deleted.",
    "acl-created": "The entry was added.",
    "acl-deleted": "The entry was removed.",
    "user-changed": "The password was set.",
    "user-deleted": "The password was removed.",
    "quota-set": "The quota was set.",
    "quota-removed": "The quota was removed.",
    "ingest-aborted": "The ingest was aborted.",
    "transaction-aborted": "The transaction was aborted.",
    "produced": "The record was written.",
    "schema-kept": "Values are decoded with this schema in this session.",
    "schema-dropped": "The schema was removed.",
    "logged-out": "You are logged out.",
}
"""Messages after a change. URLs contain only the key of a message, so that a link cannot show a text of its own on the
page."""

Handler = Callable[[PageContext], Coroutine[Any, Any, Response]]
Endpoint = Callable[[Request], Awaitable[Response]]


def page(handler: Handler, *, login: bool = True) -> Endpoint:
    """Return the endpoint for a GET handler, which changes nothing. login: whether the person must be logged in."""

    async def endpoint(request: Request) -> Response:
        context, is_new = await _context(request)
        return _cookie(context, is_new, await _answered(context, handler, login))

    return endpoint


def action(handler: Handler, *, login: bool = True) -> Endpoint:
    """Return the endpoint for a POST handler, which changes something. The endpoint accepts only forms that were sent
    to the same person."""

    async def endpoint(request: Request) -> Response:
        context, is_new = await _context(request)
        try:
            body = await request.body()
            context.form = Form(parse_qsl(body.decode(), keep_blank_values=True, max_num_fields=FIELDS_MAX))
        except BodyTooLargeError:
            return context.render("trouble.html", 413, title="Too large", problem="The form is too large.")
        except ValueError:
            return context.render("trouble.html", 400, title="Invalid request", problem="The request contains no form.")
        if is_new or not context.console.sessions.csrf_is_right(context.token, context.form.raw("csrf")):
            problem = "The form does not belong to this session: it is outdated or from another site. Reload the page."
            return _cookie(context, is_new, context.render("trouble.html", 403, title="Refused", problem=problem))
        return await _answered(context, handler, login)

    return endpoint


async def _context(request: Request) -> tuple[PageContext, bool]:
    console: Console = request.app.state.console
    token = request.cookies.get(COOKIE, "")
    is_new = not 40 <= len(token) <= 50
    if is_new:
        token = console.sessions.new_token()
    return PageContext(console, request, token, await console.sessions.find(token)), is_new


async def _answered(context: PageContext, handler: Handler, login: bool) -> Response:
    if login and not context.is_logged_in:
        here = context.request.url.path + (f"?{context.request.url.query}" if context.request.url.query else "")
        back = here if context.request.method == "GET" else "/"
        return context.redirect(f"/login?{urlencode({'next': back})}")
    try:
        return await (while_reachable(context.clients, handler(context)) if login else handler(context))
    except ClusterAwayError as error:
        return cluster_away_page(context, str(error))
    except NotFoundError as error:
        return context.render("trouble.html", 404, title="Not found", problem=str(error))
    except InputError as error:
        return context.render("trouble.html", 422, title="Not possible", problem=str(error))
    except AuthenticationError as error:
        if context.user is not None:
            await context.console.sessions.end(context.token)
            return context.redirect(f"/login?{urlencode({'next': '/'})}")
        return context.render("trouble.html", 502, title="No access", problem=error_text(error))
    except (BrokerConnectionError, KafkaTimeoutError) as error:
        return cluster_away_page(context, error_text(error))
    except TROUBLE as error:
        return context.render("trouble.html", 502, title="The cluster rejected this", problem=error_text(error))


def cluster_away_page(context: PageContext, problem: str) -> Response:
    """Show why the cluster is unreachable, and what a person can do about it."""
    changes = context.request.method == "POST"
    return context.render("away.html", 502, problem=problem, changes=changes)


def _cookie(context: PageContext, is_new: bool, response: Response) -> Response:
    if is_new and COOKIE not in response.headers.get("set-cookie", ""):
        set_cookie(response, context.token, secure=context.request.url.scheme == "https")
    return response


def set_cookie(response: Response, token: str, *, secure: bool) -> None:
    """Set a session cookie that scripts cannot read and that browsers do not send from other sites."""
    response.set_cookie(COOKIE, token, httponly=True, samesite="strict", path="/", secure=secure)


def local(address: str) -> str:
    """Return the page to show after a login. It is always a page of the console, even if the link names another site.
    """
    is_ours = address.startswith("/") and not address.startswith(("//", "/\\")) and "\n" not in address
    return address if is_ours else "/"


def url_with(path: str, facts: Mapping[str, object] | None = None, **more: object) -> str:
    """Return a URL with parameters. Parameters that are None, False or empty texts are omitted; 0 is a value."""
    values = {**(facts or {}), **more}
    kept = {name: value for name, value in values.items() if value is not None and value is not False and value != ""}
    query = urlencode({name: 1 if value is True else value for name, value in kept.items()})
    return quote(path) + (f"?{query}" if query else "")
