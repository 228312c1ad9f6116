"""Pages for access control entries and for users with passwords (SCRAM)."""

from __future__ import annotations

from starlette.responses import Response

from pybroker.client import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from pybroker.console.queries.fragments import TROUBLE, error_text, fragment
from pybroker.console.web.request_context import Form, InputError, PageContext

RESOURCES = [each.name for each in ResourceType if each.name not in ("UNKNOWN", "ANY")]
OPERATIONS = [each.name for each in AclOperation if each.name not in ("UNKNOWN", "ANY")]
SHOWN = 1_000


async def acls(context: PageContext) -> Response:
    """Show entries, filtered by principal and by resource name."""
    return await _acls(context, Form([]))


async def _acls(context: PageContext, form: Form, status: int = 200, problem: str | None = None) -> Response:
    principal, name = context.query.text("principal"), context.query.text("resource")
    wanted = AclBindingFilter(principal=principal or None)
    found = await fragment(context.admin.describe_acls(wanted))
    rows = [each for each in found.value or () if name in each.name]
    rows.sort(key=lambda each: (each.principal, each.resource_type, each.name, each.operation))
    return context.render(
        "acls.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        principal=principal,
        resource=name,
        form=form,
        problem=problem,
        resources=RESOURCES,
        operations=OPERATIONS,
    )


def _binding(form: Form) -> AclBinding:
    try:
        return AclBinding(
            ResourceType[form.text("resource_type")],
            form.text("name"),
            form.text("principal"),
            AclOperation[form.text("operation")],
            AclPermissionType[form.text("permission", "ALLOW")],
            PatternType[form.text("pattern", "LITERAL")],
            form.text("host") or "*",
        )
    except KeyError as error:
        raise InputError(f"Invalid value in the form: {error}.") from None


async def create_acl(context: PageContext) -> Response:
    """Create one entry."""
    try:
        await context.admin.create_acls([_binding(context.form)])
    except (*TROUBLE, InputError) as error:
        return await _acls(context, context.form, 422, error_text(error))
    return context.redirect("/acls", "acl-created")


async def delete_acl(context: PageContext) -> Response:
    """Delete exactly one entry."""
    binding = _binding(context.form)
    exactly = AclBindingFilter(
        binding.resource_type,
        binding.name,
        binding.pattern_type,
        binding.principal,
        binding.host,
        binding.operation,
        binding.permission_type,
    )
    try:
        await context.admin.delete_acls([exactly])
    except TROUBLE as error:
        return await _acls(context, Form([]), 422, error_text(error))
    return context.redirect("/acls", "acl-deleted")


async def users(context: PageContext) -> Response:
    """Show the users with a password."""
    return await _users(context)


async def _users(context: PageContext, status: int = 200, problem: str | None = None) -> Response:
    query = context.query.text("q")
    found = await fragment(context.admin.describe_user_scram_credentials())
    rows = sorted((user, infos) for user, infos in (found.value or {}).items() if query in user)
    return context.render(
        "users.html",
        status,
        found=found,
        rows=rows[:SHOWN],
        cut=max(len(rows) - SHOWN, 0),
        q=query,
        mechanisms=[each.mechanism_name for each in ScramMechanism],
        problem=problem,
    )


def _mechanism(form: Form) -> ScramMechanism:
    try:
        return ScramMechanism[form.text("mechanism").replace("-", "_")]
    except KeyError:
        raise InputError("Unknown mechanism.") from None


async def set_password(context: PageContext) -> Response:
    """Set the password of a new or existing user; only a salted hash is sent."""
    user, password = context.form.text("user"), context.form.raw("password")
    if not user or not password:
        return await _users(context, 422, "Enter user and password.")
    try:
        iterations = context.form.number("iterations", 8192, least=4096, most=16384) or 8192
        change = ScramUpsertion(user, password, _mechanism(context.form), iterations)
        await context.admin.alter_user_scram_credentials([change])
    except (*TROUBLE, InputError) as error:
        return await _users(context, 422, error_text(error))
    return context.redirect("/users", "user-changed")


async def delete_user(context: PageContext) -> Response:
    """Delete a user's password for one mechanism."""
    try:
        await context.admin.alter_user_scram_credentials(
            [ScramDeletion(context.form.raw("user"), _mechanism(context.form))]
        )
    except TROUBLE as error:
        return await _users(context, 422, error_text(error))
    return context.redirect("/users", "user-deleted")
