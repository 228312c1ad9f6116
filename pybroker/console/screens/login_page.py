"""Login as a user of the broker, and logout."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import AuthenticationError
from pybroker.console.queries.fragments import TROUBLE, in_words
from pybroker.console.web.reachability import ClusterAwayError, while_reachable
from pybroker.console.web.request_context import Visit, away, local, set_cookie
from pybroker.console.web.user_clients import Clients

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
_attempts = asyncio.Semaphore(4)
"""Limit of concurrent logins: the broker delays each failure, so guessing passwords is slow."""


async def show(visit: Visit) -> Response:
    """Show the login form."""
    if visit.is_logged_in:
        return visit.redirect("/")
    return _form(visit)


def _form(visit: Visit, status: int = 200, problem: str | None = None, user: str = "") -> Response:
    chosen = visit.console.settings.mechanism
    return visit.render(
        "login.html",
        status,
        problem=problem,
        name=user,
        mechanisms=() if chosen else MECHANISMS,
        next=local((visit.form if problem else visit.query).raw("next", "/")),
    )


async def log_in(visit: Visit) -> Response:
    """Log in: the broker checks the password on a connection with these credentials."""
    settings = visit.console.settings
    if not settings.needs_login:
        return visit.redirect("/")
    user, password = visit.form.raw("user"), visit.form.raw("password")
    mechanism = settings.mechanism or visit.form.text("mechanism")
    if not user or not password or (mechanism not in MECHANISMS):
        return _form(visit, 422, "Enter user and password.", user)
    credentials = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    clients = Clients({**settings.common_config(), **credentials}, visit.console.scraped)
    try:
        async with _attempts:
            await while_reachable(clients, clients.admin.describe_cluster())
    except AuthenticationError:
        await clients.close()
        return _form(visit, 401, "Wrong user or password.", user)
    except ClusterAwayError as error:
        await clients.close()
        return away(visit, str(error))
    except TROUBLE as error:
        await clients.close()
        return _form(visit, 502, in_words(error), user)
    # Always issue a new token, so that a token planted by someone else is useless.
    await visit.console.sessions.end(visit.token)
    session = await visit.console.sessions.begin(visit.console.sessions.new_token(), user, clients)
    clients.history.watch()
    response = visit.redirect(local(visit.form.raw("next", "/")))
    set_cookie(response, session.token, secure=visit.request.url.scheme == "https")
    return response


async def log_out(visit: Visit) -> Response:
    """Log out and close the person's connections."""
    await visit.console.sessions.end(visit.token)
    response = visit.redirect("/login" if visit.console.settings.needs_login else "/", "logged-out")
    set_cookie(response, visit.console.sessions.new_token(), secure=visit.request.url.scheme == "https")
    return response
