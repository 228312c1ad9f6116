"""Where the store keeps users' SCRAM credentials, as Kafka does: `/config/users/[name]`, as texts under the names of
the mechanisms (KIP-84, KIP-554).
"""

from __future__ import annotations

from urllib.parse import quote, unquote

USER_CONFIGS = "/config/users"


def user_path(name: str) -> str:
    """The node of a user; names are sanitized as Kafka does."""
    encoded = quote(name, safe="").replace("~", "%7E")
    return f"{USER_CONFIGS}/{encoded.replace('.', '%2E') if encoded in ('.', '..') else encoded}"


def user_of_path(path: str) -> str:
    """The other way round."""
    return unquote(path.removeprefix(USER_CONFIGS + "/"))
