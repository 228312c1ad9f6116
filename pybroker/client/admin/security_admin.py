"""AdminClient's calls about access control lists and users."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

from pybroker.client.admin.admin_base import AdminBase
from pybroker.client.admin.admin_results import Futures, KeyedResult, settle, start
from pybroker.client.admin.security_types import (
    AclBinding,
    AclBindingFilter,
    AclOperation,
    AclPermissionType,
    PatternType,
    ResourceType,
    ScramCredentialInfo,
    ScramDeletion,
    ScramMechanism,
    ScramUpsertion,
)
from pybroker.client.client_errors import broker_error
from pybroker.protocol import messages as m
from pybroker.protocol.error_codes import ErrorCode


def _filter_fields(wanted: AclBindingFilter) -> dict[str, Any]:
    """Return a filter as keyword arguments of DescribeAcls and DeleteAcls."""
    return {
        "resource_type_filter": wanted.resource_type,
        "resource_name_filter": wanted.name,
        "pattern_type_filter": wanted.pattern_type,
        "principal_filter": wanted.principal,
        "host_filter": wanted.host,
        "operation": wanted.operation,
        "permission_type": wanted.permission_type,
    }


class SecurityAdmin(AdminBase):
    """Calls about ACLs (KIP-140) and users' SCRAM credentials (KIP-554)."""

    def create_acls(self, acls: Iterable[AclBinding]) -> KeyedResult[AclBinding, None]:
        """Create ACL entries."""
        wanted = list(acls)
        request = m.CreateAclsRequest(
            creations=[
                m.CreateAclsRequest_AclCreation(
                    resource_type=each.resource_type,
                    resource_name=each.name,
                    resource_pattern_type=each.pattern_type,
                    principal=each.principal,
                    host=each.host,
                    operation=each.operation,
                    permission_type=each.permission_type,
                )
                for each in wanted
            ]
        )

        async def work(futures: Futures[AclBinding, None]) -> None:
            answer = await self._controller(request, lambda response: response.results)
            for each, row in zip(wanted, answer.results, strict=True):
                settle(futures[each], row.error_code, row.error_message, None, f"entry for {each.name}")

        return KeyedResult(start(wanted, work))

    async def describe_acls(self, wanted: AclBindingFilter | None = None) -> list[AclBinding]:
        """Return the ACL entries that match the filter; all entries without a filter."""
        request = m.DescribeAclsRequest(**_filter_fields(wanted or AclBindingFilter()))
        answer = await self._network.ask(request)
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="access control lists")
        return [_binding(resource, row) for resource in answer.resources for row in resource.acls]

    def delete_acls(self, filters: Iterable[AclBindingFilter]) -> KeyedResult[AclBindingFilter, list[AclBinding]]:
        """Delete the ACL entries that match. The result has filter → deleted entries."""
        wanted = list(filters)
        request = m.DeleteAclsRequest(
            filters=[m.DeleteAclsRequest_DeleteAclsFilter(**_filter_fields(each)) for each in wanted]
        )

        async def work(futures: Futures[AclBindingFilter, list[AclBinding]]) -> None:
            answer = await self._controller(request, lambda response: response.filter_results)
            for each, row in zip(wanted, answer.filter_results, strict=True):
                failed = next((acl for acl in row.matching_acls if acl.error_code), row)
                removed = [_binding(acl, acl) for acl in row.matching_acls if not acl.error_code]
                about = f"entries for {each.name or 'all'}"
                settle(futures[each], failed.error_code, failed.error_message, removed, about)

        return KeyedResult(start(wanted, work))

    async def describe_user_scram_credentials(
        self, users: Sequence[str] | None = None
    ) -> dict[str, list[ScramCredentialInfo]]:
        """Return user → mechanisms; the result omits users without a password. users: None = all."""
        names = None if users is None else [m.DescribeUserScramCredentialsRequest_UserName(name=name) for name in users]
        answer = await self._network.ask(m.DescribeUserScramCredentialsRequest(users=names), "controller")
        if answer.error_code:
            raise broker_error(answer.error_code, answer.error_message, about="users")
        found = {}
        for row in answer.results:
            if row.error_code == ErrorCode.RESOURCE_NOT_FOUND:
                continue
            if row.error_code:
                raise broker_error(row.error_code, row.error_message, about=f"user {row.user}")
            found[row.user] = [
                ScramCredentialInfo(ScramMechanism(each.mechanism), each.iterations) for each in row.credential_infos
            ]
        return found

    def alter_user_scram_credentials(self, changes: Iterable[ScramUpsertion | ScramDeletion]) -> KeyedResult[str, None]:
        """Set and delete passwords; results by user."""
        wanted = list(changes)
        request = m.AlterUserScramCredentialsRequest(
            deletions=[
                m.AlterUserScramCredentialsRequest_ScramCredentialDeletion(name=each.user, mechanism=each.mechanism)
                for each in wanted
                if isinstance(each, ScramDeletion)
            ],
            upsertions=[
                m.AlterUserScramCredentialsRequest_ScramCredentialUpsertion(
                    name=each.user,
                    mechanism=each.mechanism,
                    iterations=each.iterations,
                    salt=each.salt,
                    salted_password=each.salted_password,
                )
                for each in wanted
                if isinstance(each, ScramUpsertion)
            ],
        )

        async def work(futures: Futures[str, None]) -> None:
            answer = await self._controller(request, lambda response: response.results)
            for row in answer.results:
                if row.user in futures:
                    settle(futures[row.user], row.error_code, row.error_message, None, f"user {row.user}")

        return KeyedResult(start({each.user for each in wanted}, work))


def _binding(resource: Any, row: Any) -> AclBinding:
    return AclBinding(
        ResourceType(resource.resource_type),
        resource.resource_name,
        row.principal,
        AclOperation(row.operation),
        AclPermissionType(row.permission_type),
        PatternType(resource.pattern_type),
        row.host,
    )
