"""`pybroker acls`: access control entries, like Kafka's kafka-acls."""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

import click

from pybroker.cli.grammar import VerbGroup
from pybroker.cli.options import broker_options, run
from pybroker.cli.output import table, write_json
from pybroker.cli.shell_completion import group_names, topic_names
from pybroker.cli.target import Target

CLUSTER = "kafka-cluster"

STORED_PATTERNS = ("literal", "prefixed")
PATTERNS = (*STORED_PATTERNS, "any", "match")

RESOURCES = ("topic", "group", "cluster", "transactional-id", "delegation-token", "user-principal")

PRODUCER = {
    "topic": ("WRITE", "DESCRIBE", "CREATE"),
    "transactional-id": ("WRITE", "DESCRIBE"),
}
CONSUMER = {"topic": ("READ", "DESCRIBE"), "group": ("READ",)}
"""The operations that the shortcuts allow, as in kafka-acls."""


def _all(*options: Callable[..., Any]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Combine several options into one decorator."""

    def decorate(command: Callable[..., None]) -> Callable[..., None]:
        for option in reversed(options):
            command = option(command)
        return command

    return decorate


@click.group(cls=VerbGroup)
def acls() -> None:
    """Manage access control entries (ACLs).

    \b
    pybroker acls add --allow-principal User:alice --operation Read --operation Write --topic words
    pybroker acls add --allow-principal User:bob --consumer --topic words --group readers
    pybroker acls add --allow-principal User:etl --operation All --topic etl- --resource-pattern-type prefixed
    pybroker acls list
    """


def resource_options(pattern_types: Sequence[str]) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Add the options that select resources."""
    return _all(
        click.option(
            "--topic",
            multiple=True,
            metavar="NAME",
            shell_complete=topic_names,
            help="Name of a topic; * means every topic.",
        ),
        click.option(
            "--group",
            multiple=True,
            metavar="NAME",
            shell_complete=group_names,
            help="Name of a group; * means every group.",
        ),
        click.option("--cluster", is_flag=True, help="Select the cluster itself."),
        click.option("--transactional-id", multiple=True, metavar="NAME"),
        click.option("--delegation-token", multiple=True, metavar="NAME"),
        click.option("--user-principal", multiple=True, metavar="NAME"),
        click.option(
            "--resource-pattern-type",
            type=click.Choice(pattern_types, case_sensitive=False),
            default="literal",
            show_default=True,
            help="How resource names are matched.",
        ),
    )


entry_options = _all(
    click.option(
        "--allow-principal",
        multiple=True,
        metavar="PRINCIPAL",
        help="Principal to allow, such as User:alice; User:* means everyone.",
    ),
    click.option(
        "--deny-principal",
        multiple=True,
        metavar="PRINCIPAL",
        help="Principal to deny; a deny entry overrides allow entries.",
    ),
    click.option(
        "--allow-host",
        multiple=True,
        metavar="ADDRESS",
        help="Address or network of the allowed client; any by default.",
    ),
    click.option(
        "--deny-host", multiple=True, metavar="ADDRESS", help="Address or network of the denied client; any by default."
    ),
    click.option(
        "--operation", multiple=True, metavar="OPERATION", help="Operation, such as Read or Write; default: All."
    ),
    click.option("--producer", is_flag=True, help="Allow everything that a producer to --topic needs."),
    click.option("--consumer", is_flag=True, help="Allow everything that a consumer of --topic in --group needs."),
    click.option("--idempotent", is_flag=True, help="With --producer: also allow idempotent writes."),
)
"""Options of an entry's resources."""


@acls.command()
@entry_options
@resource_options(STORED_PATTERNS)
@broker_options
def add(target: Target, **options: Any) -> None:
    """Add ACL entries."""
    found = _bindings(options)
    _create(target, found)
    _show(found, target)


@acls.command()
@entry_options
@resource_options(PATTERNS)
@click.option("--force", is_flag=True, help="Skip the confirmation.")
@broker_options
def remove(target: Target, *, force: bool, **options: Any) -> None:
    """Remove ACL entries.

    With a principal, remove the entries that `add` would create with the same options; otherwise all entries of the
    given resources.
    """
    filters = _removal_filters(options)
    if not force:
        count = len(_describe(target, filters))
        click.confirm(f"Remove {count} {'entry' if count == 1 else 'entries'}?", abort=True)
    _show(_delete(target, filters), target)


@acls.command("list")
@click.option("--principal", multiple=True, metavar="PRINCIPAL", help="List only entries of this principal.")
@resource_options(PATTERNS)
@broker_options
def list_entries(target: Target, **options: Any) -> None:
    """List ACL entries, optionally only those of the given resources."""
    _show(_describe(target, _filters(options, _resources(options), options["principal"])), target)


def _resources(options: dict[str, Any]) -> list[tuple[str, str]]:
    """Return (kind, name) of every resource on the command line."""
    named = [(kind, name) for kind in RESOURCES if kind != "cluster" for name in options[kind.replace("-", "_")]]
    return [*named, ("cluster", CLUSTER)] if options["cluster"] else named


def _rights(options: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (kind, name, operation) for all resources and operations on the command line."""
    resources = _resources(options)
    if not options["producer"] and not options["consumer"]:
        if not resources:
            raise click.UsageError("No resource given; use --topic, --group, --cluster or another resource option.")
        operations = [_operation(name) for name in options["operation"]] or ["ALL"]
        return [(kind, name, operation) for kind, name in resources for operation in operations]
    if options["operation"]:
        raise click.UsageError("--producer and --consumer imply their operations; remove --operation.")
    if not options["topic"]:
        raise click.UsageError("--producer and --consumer require --topic.")
    if options["consumer"] and not options["group"]:
        raise click.UsageError("--consumer requires --group.")
    rights = [
        (kind, name, operation)
        for wanted, convenience in ((options["producer"], PRODUCER), (options["consumer"], CONSUMER))
        if wanted
        for kind, name in resources
        for operation in convenience.get(kind, ())
    ]
    if options["producer"] and options["idempotent"]:
        rights.append(("cluster", CLUSTER, "IDEMPOTENT_WRITE"))
    return list(dict.fromkeys(rights))


def _operation(name: str) -> str:
    from pybroker.client import AclOperation

    wanted = name.replace("-", "").replace("_", "").upper()
    for operation in AclOperation:
        if operation.name.replace("_", "") == wanted and operation > AclOperation.ANY:
            return operation.name
    known = ", ".join(
        operation.name.title().replace("_", "") for operation in AclOperation if operation > AclOperation.ANY
    )
    raise click.UsageError(f"Unknown operation {name!r}; valid operations: {known}.")


def _subjects(options: dict[str, Any]) -> list[tuple[str, str, str]]:
    """Return (ALLOW or DENY, principal, host) for the principals on the command line."""
    subjects = [
        (permission, principal, host)
        for permission in ("ALLOW", "DENY")
        for principal, host in itertools.product(
            options[f"{permission.lower()}_principal"], options[f"{permission.lower()}_host"] or ("*",)
        )
    ]
    for _, principal, _ in subjects:
        kind, colon, name = principal.partition(":")
        if not colon or not kind or not name:
            raise click.UsageError(f"Invalid principal {principal!r}; use TYPE:NAME, for example User:alice.")
    return subjects


def _kind(name: str) -> Any:
    from pybroker.client import ResourceType

    return ResourceType[{"user-principal": "USER"}.get(name, name.upper().replace("-", "_"))]


def _pattern(options: dict[str, Any], kind: str) -> Any:
    from pybroker.client import PatternType

    # The cluster has only one name, so the pattern type of the other resources does not apply to it.
    return PatternType.LITERAL if kind == "cluster" else PatternType[options["resource_pattern_type"].upper()]


def _entries(
    options: dict[str, Any], subjects: Sequence[tuple[str, str | None, str | None]]
) -> Iterator[dict[str, Any]]:
    """Yield the fields of an entry or filter, for every operation and each of `subjects`."""
    from pybroker.client import AclOperation, AclPermissionType

    for kind, name, operation in _rights(options):
        for permission, principal, host in subjects:
            yield {
                "resource_type": _kind(kind),
                "pattern_type": _pattern(options, kind),
                "name": name,
                "principal": principal,
                "host": host,
                "operation": AclOperation[operation],
                "permission_type": AclPermissionType[permission],
            }


def _bindings(options: dict[str, Any]) -> list[Any]:
    from pybroker.client import AclBinding

    subjects = _subjects(options)
    if not subjects:
        raise click.UsageError("No principal given; use --allow-principal or --deny-principal.")
    return [AclBinding(**entry) for entry in _entries(options, subjects)]


def _filters(options: dict[str, Any], resources: list[tuple[str, str]], principals: Sequence[str]) -> list[Any]:
    """Return the filters of `list`, or of `remove` without principals and operations."""
    from pybroker.client import AclBindingFilter, AclOperation, AclPermissionType, PatternType, ResourceType

    if not resources:
        # Without a resource, match every resource of any pattern type.
        wanted: list[tuple[Any, Any, Any]] = [(ResourceType.ANY, PatternType.ANY, None)]
    else:
        wanted = [(_kind(kind), _pattern(options, kind), name) for kind, name in resources]
    return [
        AclBindingFilter(
            resource_type=kind,
            pattern_type=pattern_type,
            name=name,
            principal=principal,
            host=None,
            operation=AclOperation.ANY,
            permission_type=AclPermissionType.ANY,
        )
        for kind, pattern_type, name in wanted
        for principal in principals or (None,)
    ]


def _removal_filters(options: dict[str, Any]) -> list[Any]:
    """Return filters. If principals are given, they match the entries that `add` would create; otherwise they match all
    entries of the resources."""
    from pybroker.client import AclBindingFilter

    subjects = _subjects(options)
    if not subjects and not options["operation"] and not options["producer"] and not options["consumer"]:
        resources = _resources(options)
        if not resources:
            raise click.UsageError("No resource given; use --topic, --group, --cluster or another resource option.")
        return _filters(options, resources, ())
    everybody: list[tuple[str, str | None, str | None]] = [("ANY", None, None)]
    return [AclBindingFilter(**entry) for entry in _entries(options, subjects or everybody)]


def _create(target: Target, bindings: list[Any]) -> None:
    from pybroker.client import AdminClient

    async def work() -> None:
        async with AdminClient(target.client_config()) as admin:
            await admin.create_acls(bindings)

    run(work())


def _describe(target: Target, filters: list[Any]) -> list[Any]:
    from pybroker.client import AdminClient

    async def work() -> list[Any]:
        async with AdminClient(target.client_config()) as admin:
            found = [binding for which in filters for binding in await admin.describe_acls(which)]
        return list(dict.fromkeys(found))

    return run(work())


def _delete(target: Target, filters: list[Any]) -> list[Any]:
    from pybroker.client import AdminClient

    async def work() -> list[Any]:
        async with AdminClient(target.client_config()) as admin:
            removed = await admin.delete_acls(filters)
        return list(dict.fromkeys(binding for found in removed.values() for binding in found))

    return run(work())


def _show(bindings: list[Any], target: Target) -> None:
    rows = [
        {
            "resource": binding.resource_type.name.title().replace("_", ""),
            "pattern": binding.pattern_type.name.lower(),
            "name": binding.name,
            "principal": binding.principal,
            "host": binding.host,
            "operation": binding.operation.name.title().replace("_", ""),
            "permission": binding.permission_type.name.lower(),
        }
        for binding in bindings
    ]
    if target.json:
        write_json(rows)
    else:
        table(rows, ("resource", "pattern", "name", "principal", "host", "operation", "permission"))
