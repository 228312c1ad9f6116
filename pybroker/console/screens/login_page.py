"""Login as a user of the broker, and logout."""

from __future__ import annotations

import asyncio

from starlette.responses import Response

from pybroker.client import AuthenticationError
from pybroker.console.queries.fragments import TROUBLE, error_text
from pybroker.console.web.reachability import ClusterAwayError, while_reachable
from pybroker.console.web.request_context import PageContext, cluster_away_page, local, set_cookie
from pybroker.console.web.user_clients import Clients

MECHANISMS = ("SCRAM-SHA-256", "SCRAM-SHA-512", "PLAIN")
_attempts = asyncio.Semaphore(4)
"""Limit of concurrent logins. The broker delays its response to a failed login, so guessing passwords is slow."""


async def show(context: PageContext) -> Response:
    """Show the login form."""
    if context.is_logged_in:
        return context.redirect("/")
    return _form(context)


def _form(context: PageContext, status: int = 200, problem: str | None = None, user: str = "") -> Response:
    chosen = context.console.settings.mechanism
    return context.render(
        "login.html",
        status,
        problem=problem,
        name=user,
        mechanisms=() if chosen else MECHANISMS,
        next=local((context.form if problem else context.query).raw("next", "/")),
    )


async def log_in(context: PageContext) -> Response:
    """Log in. The broker checks the password on a connection with these credentials."""
    settings = context.console.settings
    if not settings.needs_login:
        return context.redirect("/")
    user, password = context.form.raw("user"), context.form.raw("password")
    mechanism = settings.mechanism or context.form.text("mechanism")
    if not user or not password or (mechanism not in MECHANISMS):
        return _form(context, 422, "Enter user and password.", user)
    credentials = {"sasl.mechanism": mechanism, "sasl.username": user, "sasl.password": password}
    clients = Clients({**settings.common_config(), **credentials}, context.console.scraped)
    try:
        async with _attempts:
            await while_reachable(clients, clients.admin.describe_cluster())
    except AuthenticationError:
        await clients.close()
        return _form(context, 401, "Wrong user or password.", user)
    except ClusterAwayError as error:
        await clients.close()
        return cluster_away_page(context, str(error))
    except TROUBLE as error:
        await clients.close()
        return _form(context, 502, error_text(error), user)
    # Always create a new token. A token that an attacker has planted in the browser is then useless.
    await context.console.sessions.end(context.token)
    session = await context.console.sessions.begin(context.console.sessions.new_token(), user, clients)
    clients.history.watch()
    response = context.redirect(local(context.form.raw("next", "/")))
    set_cookie(response, session.token, secure=context.request.url.scheme == "https")
    return response


async def log_out(context: PageContext) -> Response:
    """Log out and close the person's connections."""
    await context.console.sessions.end(context.token)
    response = context.redirect("/login" if context.console.settings.needs_login else "/", "logged-out")
    set_cookie(response, context.console.sessions.new_token(), secure=context.request.url.scheme == "https")
    return response
