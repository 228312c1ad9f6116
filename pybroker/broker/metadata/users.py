"""SCRAM credentials in the store, as Kafka keeps them: `/config/users/[name]`, texts under the names of the mechanisms
(KIP-84, KIP-554)."""

from __future__ import annotations

from urllib.parse import quote, unquote

USER_CONFIGS = "/config/users"


def sanitized(name: str) -> str:
    """Return a name as part of a path, in Kafka's encoding."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def user_path(name: str) -> str:
    """Return the node of a user."""
    return f"{USER_CONFIGS}/{sanitized(name)}"


def user_of_path(path: str) -> str:
    """Return the user of a node."""
    return unquote(path.removeprefix(USER_CONFIGS + "/"))
