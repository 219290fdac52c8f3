"""Addresses as they are shown: without what may be a secret."""

import re
from urllib.parse import unquote, unquote_plus

LEFT_OUT = "…"
_SCHEME = re.compile(r"\s*[A-Za-z][\w+.\-]+://")
_ADDRESS = re.compile(r"[A-Za-z][\w+.\-]+:/+[^\s'\"<>]*")
_OF_OBJECTS = frozenset(
    ("s3", "s3a", "gs", "gcs", "abfs", "abfss", "adl", "az", "wasb", "wasbs", "hf", "memory", "oss")
)
"""Schemes under which `?`, `#` and `;` may stand in patterns and in names of files."""
_WITH_CONTAINERS = frozenset(("abfs", "abfss", "az", "wasb", "wasbs"))
"""Schemes in which a container stands where others have a user."""
_CONTAINER = re.compile(r"\$?[a-z0-9]+(-[a-z0-9]+)*@[^@:]+")
"""A container before its host, which holds no secret."""
_AFTER_NAME = re.compile(rf"[?#]|;(?=[^/=]*=|{LEFT_OUT})")
_AFTER_OBJECT = re.compile(rf"[?#;](?=[^/?#;=]*=|{LEFT_OUT})")
"""A `?`, `#` or `;` that ends a name. Where such a character may stand in names, it ends one only
before a parameter, or before the `…` of a shown address.
"""
_SHOWN_QUERY = re.compile(r"(versionId|revision|format)=[\w.~\-]*")


def shown_address(address: str) -> str:
    """Return an address without what may be a secret: its user, query and fragment become `…`, as
    in `s3://…@host/corpus.txt?…`. `file://` is a path, and stays as it is.

    A query keeps what says which content is meant: `versionId`, `revision` and `format`.
    """
    # fsspec chains addresses by `::`, as in zip://a.txt::https://host/b.zip.
    first, *chained = address.split("::")
    # A password may hold `::`, which cuts it: a part without a scheme may be the rest of one, and
    # is hidden. If it has an `@`, the user that began in the first part ends there: hide all.
    without_scheme = [part for part in chained if not _SCHEME.match(part)]
    if any("@" in part for part in without_scheme):
        scheme, colon, _ = _split_scheme(first)
        return f"{scheme}{colon}{LEFT_OUT}@{LEFT_OUT}"
    shown = [LEFT_OUT if part in without_scheme else _without_secrets(part) for part in chained]
    return "::".join([_without_secrets(first), *shown])


def is_shortened(address: str) -> bool:
    """Return whether an address is as `shown_address` returns it, with something left out."""
    gap = re.search(rf"://{LEFT_OUT}@|[?#;&]{LEFT_OUT}", address)
    return "://" in address and gap is not None


def named_part(address: str) -> str:
    """Return an address up to the end of its name: without query and fragment."""
    scheme, colon, rest = _split_scheme(address)
    end = _find_end_of_name(scheme, rest)
    return address if end is None else f"{scheme}{colon}{rest[: end.start()]}"


def has_cut_user(address: str) -> bool:
    """Return whether a `/`, `?` or `#` in a user or password cuts an address before its host."""
    _, _, rest = _split_scheme(address)
    return "@" in rest and _is_cut_user(_user_and_host(rest))


def possible_secrets(address: str) -> set[str]:
    """Return the texts in an address that may be secrets: the user, the password and the values of
    a query. Each is there as it is written, and with `%20` and `+` replaced by what they stand for.
    The empty text may be among them.
    """
    secrets: set[str] = set()
    for part in address.split("::"):
        scheme, _, rest = _split_scheme(part)
        if scheme:  # not a path
            # Parameters and a fragment: all that follows the name.
            pairs = re.split("[?&#;]", part[len(named_part(part)) :])
            # The value of a `key=value`; of a parameter without a value, all of it.
            secrets |= {pair.partition("=")[2] or pair for pair in pairs}
            user = _user_in(rest) or ""
            secrets |= {user, *user.split(":")}
    return {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}


def _without_secrets(address: str) -> str:
    """Return an address that is not chained, with `…` for its user, for its fragment, and for all
    parameters of its query but a few that hold no secret.
    """
    scheme, colon, rest = _split_scheme(address)
    if not scheme:
        return address
    user = _user_in(rest)
    is_container = scheme.lower() in _WITH_CONTAINERS and _CONTAINER.fullmatch(_user_and_host(rest))
    if user is not None and not is_container:
        rest = f"{LEFT_OUT}@{rest[len(user) + 1 :]}"
    end = _find_end_of_name(scheme, rest)
    if end is None:
        return f"{scheme}{colon}{rest}"
    # Only a `?` begins parameters. What follows a `#` or `;` counts as one that is not shown.
    pairs = rest[end.end() :].split("&") if end[0] == "?" else [""]
    shown = [pair for pair in pairs if _SHOWN_QUERY.fullmatch(pair)]
    shown += [LEFT_OUT] if len(shown) < len(pairs) else []
    return f"{scheme}{colon}{rest[: end.end()]}{'&'.join(shown)}"


def _split_scheme(address: str) -> tuple[str, str, str]:
    start = re.match(r"\s*([A-Za-z][\w+.\-]+)(:/+)", address)
    if start is None or start[1].lower() in ("file", "local"):
        return "", "", address
    return address[: start.end(1)], start[2], address[start.end() :]


def _user_and_host(rest: str) -> str:
    return re.split("[/?#]", rest, maxsplit=1)[0]


def _find_end_of_name(scheme: str, rest: str) -> re.Match[str] | None:
    if not scheme:
        return None
    return (_AFTER_OBJECT if scheme.lower() in _OF_OBJECTS else _AFTER_NAME).search(rest)


def _user_in(rest: str) -> str | None:
    """Return the user of an address, with the password; None if it has none."""
    # An unescaped password may hold an `@` or a `/`, so that nobody knows where the host begins.
    # With a password, all that precedes the last `@` is therefore taken for the user, even where
    # that `@` stands in a path: too much is hidden rather than a part of a password shown.
    user_and_host = _user_and_host(rest)
    # `user:p@ss/word@host`: only the last `@` is certain to end the password.
    has_password = ":" in user_and_host.partition("@")[0] and "@" in user_and_host
    # `user:pa/ss@host`: `user:pa` cannot be a host with a port.
    ends_at_last = has_password or _is_cut_user(user_and_host)
    user, at, _ = (rest if ends_at_last else user_and_host).rpartition("@")
    return user if at else None


def _is_cut_user(user_and_host: str) -> bool:
    return re.fullmatch(r"([^:\[\]]*|\[.*\])(:\d+)?", user_and_host.rpartition("@")[2]) is None


def without_secrets(text: str) -> str:
    """Return text with every address in it as in `shown_address`."""
    if ":/" not in text:
        return text
    return _ADDRESS.sub(lambda match: shown_address(match[0]), text)
