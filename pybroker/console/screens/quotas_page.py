"""Page of quotas for users, client ids and addresses."""

from __future__ import annotations

from starlette.responses import Response

from pybroker.client import QuotaEntity
from pybroker.console.queries.fragments import TROUBLE, error_text, fragment
from pybroker.console.web.request_context import Form, InputError, PageContext

KINDS = {"user": "User", "client-id": "Client id", "ip": "Address"}
QUOTAS = {
    "producer_byte_rate": "bytes per second written",
    "consumer_byte_rate": "bytes per second read",
    "request_percentage": "percent of a thread",
    "controller_mutation_rate": "partitions per second created or deleted",
    "connection_creation_rate": "connections per second, of an address",
}
SHOWN = 1_000


async def show(context: PageContext) -> Response:
    """Show all quotas."""
    return await _page(context, Form([]))


async def _page(context: PageContext, form: Form, status: int = 200, problem: str | None = None) -> Response:
    found = await fragment(context.admin.describe_client_quotas())
    rows = found.value or []
    return context.render(
        "quotas.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        form=form,
        problem=problem,
        kinds=KINDS,
        quotas=QUOTAS,
    )


def _entity(form: Form) -> QuotaEntity:
    """Return the entity in the form; names may start or end with blanks. Raises InputError."""
    named: dict[str, str] = {}
    for kind, title in KINDS.items():
        name, of_the_rest = form.raw(kind), form.text(f"{kind}-default") == "1"
        if name and of_the_rest:
            raise InputError(f"{title}: use either a name or the default.")
        if name or of_the_rest:
            named[kind.replace("-", "_")] = name
    if not named:
        raise InputError("Select a user, a client id, both, or an address.")
    return QuotaEntity(**named)


def _quota(form: Form) -> str:
    name = form.text("quota")
    if name not in QUOTAS:
        raise InputError(f"Unknown quota {name[:40]!r}.")
    return name


async def put(context: PageContext) -> Response:
    """Set one quota of an entity; its other quotas stay."""
    form = context.form
    try:
        try:
            value = float(form.text("value"))
        except ValueError:
            raise InputError(f"Value: {form.text('value')[:40]!r} is not a number.") from None
        await context.admin.alter_client_quotas({_entity(form): {_quota(form): value}})
    except (*TROUBLE, InputError) as error:
        return await _page(context, form, 422, error_text(error))
    return context.redirect("/quotas", "quota-set")


async def remove(context: PageContext) -> Response:
    """Remove one quota."""
    try:
        await context.admin.alter_client_quotas({_entity(context.form): {_quota(context.form): None}})
    except (*TROUBLE, InputError) as error:
        return await _page(context, Form([]), 422, error_text(error))
    return context.redirect("/quotas", "quota-removed")
