"""Where the store keeps users' SCRAM credentials, as Kafka does: `/config/users/[name]`, as texts under the names of
the mechanisms (KIP-84, KIP-554).
"""

from __future__ import annotations

from urllib.parse import quote, unquote

USER_CONFIGS = "/config/users"


def sanitized(name: str) -> str:
    """A name as part of a path, as Kafka has it there."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return encoded.replace(".", "%2E") if encoded in (".", "..") else encoded


def user_path(name: str) -> str:
    """The node of a user."""
    return f"{USER_CONFIGS}/{sanitized(name)}"


def user_of_path(path: str) -> str:
    """The other way round."""
    return unquote(path.removeprefix(USER_CONFIGS + "/"))
