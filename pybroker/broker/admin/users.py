"""SCRAM credentials of users: alter and describe (KIP-554). Independent of protocol versions."""

from __future__ import annotations

import logging
from collections import Counter
from collections.abc import Sequence

import msgspec

from pybroker.broker.cluster.cluster_view import ClusterView
from pybroker.broker.cluster.controller_client import ControllerClient
from pybroker.broker.cluster.events import AlterUsers, UserChange
from pybroker.broker.requests.loop_sharing import LoopShares
from pybroker.errors import KafkaError
from pybroker.protocol.caller import Caller
from pybroker.protocol.error_codes import ErrorCode
from pybroker.protocol.scram import (
    BY_NAME,
    STORED_ITERATIONS_MAX,
    STORED_ITERATIONS_MIN,
    ScramCredential,
    ScramMechanism,
)

log = logging.getLogger(__name__)

_MECHANISMS = frozenset(map(int, ScramMechanism))

USER_BYTES_MAX = 255
"""Maximum bytes of a user name, because the name becomes part of a path and of log lines."""


class CredentialDeletion(msgspec.Struct, frozen=True):
    """A credential to remove."""

    name: str
    mechanism: int


class Upsertion(msgspec.Struct, frozen=True):
    """A credential to set. The client has already salted the password."""

    name: str
    mechanism: int
    iterations: int
    salt: bytes
    salted_password: bytes


class UserAdmin:
    """The SCRAM credential requests. Reads the cluster view and submits changes to the controller."""

    def __init__(self, view: ClusterView, controller: ControllerClient) -> None:
        self._view = view
        self._controller = controller

    async def alter(
        self,
        deletions: Sequence[CredentialDeletion],
        upsertions: Sequence[Upsertion],
        caller: Caller,
        turns: LoopShares,
    ) -> dict[str, KafkaError | None]:
        """Return for each user, in the order of first mention, None if the credentials were changed, or the error. A
        user with an error is unchanged.
        """
        everything: list[CredentialDeletion | Upsertion] = [*deletions, *upsertions]
        results: dict[str, KafkaError | None] = {alteration.name: None for alteration in everything}
        named = Counter((alteration.name, alteration.mechanism) for alteration in everything)
        async for alteration in turns.each(everything):
            problem = _problem(alteration)
            if problem is None and named[alteration.name, alteration.mechanism] > 1:
                problem = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE, "A user credential cannot be altered twice in the same request"
                )
            results[alteration.name] = results[alteration.name] or problem
        changes: dict[str, dict[str, str | None]] = {}
        async for alteration in turns.each(everything):
            if results[alteration.name] is None:
                mechanism = ScramMechanism(alteration.mechanism)
                credential = None
                if isinstance(alteration, Upsertion):
                    credential = ScramCredential.of_salted_password(
                        mechanism, alteration.salt, alteration.iterations, alteration.salted_password
                    ).render()
                changes.setdefault(alteration.name, {})[mechanism.mechanism_name] = credential
        if changes:
            event = AlterUsers(tuple(UserChange(name, credentials) for name, credentials in changes.items()))
            try:
                answer = await self._controller.submit(event, caller=caller)
            except KafkaError as refusal:
                # The response has no error code for the whole request, so each user gets the error.
                return {name: problem or refusal for name, problem in results.items()}
            async for name, error in turns.each(zip(changes, answer.reply, strict=True)):
                results[name] = error
                if error is None:
                    log.info(
                        "credentials changed by=%r user=%r mechanisms=%s", caller.principal, name, sorted(changes[name])
                    )
                    results[name] = answer.late
        return results

    def describe(self, names: Sequence[str] | None) -> dict[str, list[tuple[ScramMechanism, int]] | KafkaError]:
        """Return (mechanism, iterations) for each of these users, or for all users."""
        users = self._view.image.users
        if not names:
            found = {name: _infos(user.config) for name, user in sorted(users.items())}
            return {name: infos for name, infos in found.items() if infos}
        results: dict[str, list[tuple[ScramMechanism, int]] | KafkaError] = {}
        asked = Counter(names)
        for name in asked:
            infos = _infos(users[name].config) if name in users else []
            if asked[name] > 1:
                results[name] = KafkaError(
                    ErrorCode.DUPLICATE_RESOURCE,
                    f"Cannot describe SCRAM credentials for the same user twice in a single request: {name}",
                )
            elif not infos:
                results[name] = KafkaError(
                    ErrorCode.RESOURCE_NOT_FOUND,
                    f"Attempt to describe a user credential that does not exist: {name}",
                )
            else:
                results[name] = list(infos)
        return results


def _infos(config: object) -> list[tuple[ScramMechanism, int]]:
    assert isinstance(config, dict)
    infos = []
    for mechanism_name, mechanism in BY_NAME.items():
        if mechanism_name in config:
            try:
                infos.append((mechanism, ScramCredential.parse(config[mechanism_name]).iterations))
            except ValueError as problem:
                log.error("ignored a damaged credential mechanism=%s: %s", mechanism_name, problem)
    return infos


def _problem(one: CredentialDeletion | Upsertion) -> KafkaError | None:
    if not one.name:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Username must not be empty")
    if len(one.name.encode()) > USER_BYTES_MAX:
        return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, f"Username is longer than {USER_BYTES_MAX} bytes")
    if one.mechanism not in _MECHANISMS:
        return KafkaError(ErrorCode.UNSUPPORTED_SASL_MECHANISM, "Unknown SCRAM mechanism")
    if isinstance(one, Upsertion):
        if one.iterations < STORED_ITERATIONS_MIN:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too few iterations")
        if one.iterations > STORED_ITERATIONS_MAX:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Too many iterations")
        if not one.salt:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt must not be empty")
        if not one.salted_password:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Password must not be empty")
        if len(one.salt) > 1024 or len(one.salted_password) > 1024:
            return KafkaError(ErrorCode.UNACCEPTABLE_CREDENTIAL, "Salt or salted password is longer than 1024 bytes")
    return None
