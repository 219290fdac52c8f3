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
_BEFORE_HOST = frozenset(("abfs", "abfss", "az", "wasb", "wasbs"))
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
    # A password may hold `::`, so a part without a scheme may be the rest of one: it is hidden. If
    # it has an `@`, it ends a user that begins in the first part, and everything is hidden.
    without_scheme = [part for part in chained if not _SCHEME.match(part)]
    if any("@" in part for part in without_scheme):
        scheme, colon, _ = _parts(first)
        return f"{scheme}{colon}{LEFT_OUT}@{LEFT_OUT}"
    shown = [LEFT_OUT if part in without_scheme else _without_secrets(part) for part in chained]
    return "::".join([_without_secrets(first), *shown])


def is_shortened(address: str) -> bool:
    """Return whether an address is as `shown_address` returns it, with something left out."""
    gap = re.search(rf"://{LEFT_OUT}@|[?#;&]{LEFT_OUT}", address)
    return "://" in address and gap is not None


def named_part(address: str) -> str:
    """Return an address up to the end of its name: without query and fragment."""
    scheme, colon, rest = _parts(address)
    end = _name_end(scheme, rest)
    return address if end is None else f"{scheme}{colon}{rest[: end.start()]}"


def has_cut_user(address: str) -> bool:
    """Return whether a `/`, `?` or `#` in a user or password cuts an address before its host."""
    _, _, rest = _parts(address)
    return "@" in rest and _is_part_of_user(_host(rest))


def left_out_of(address: str) -> set[str]:
    """Return what of an address may be a secret: the user, the password and the values of a query,
    as they are written and with `%20` and `+` replaced by what they stand for. Parts that are
    missing add an empty text.
    """
    secrets: set[str] = set()
    for part in address.split("::"):
        scheme, _, rest = _parts(part)
        if scheme:  # not a path
            # All that follows the name: parameters and a fragment.
            query = re.split("[?&#;]", part[len(named_part(part)) :])
            user = _user_in(rest) or ""
            # A parameter without a value may itself be one.
            secrets |= {pair.partition("=")[2] or pair for pair in query}
            secrets |= {user, *user.split(":")}
    return {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}


def _without_secrets(address: str) -> str:
    """Return an address without its user, without all of its fragment, and without the parameters
    of its query but for a few that hold no secret.
    """
    scheme, colon, rest = _parts(address)
    if not scheme:
        return address
    user = _user_in(rest)
    is_container = scheme.lower() in _BEFORE_HOST and _CONTAINER.fullmatch(_host(rest))
    if user is not None and not is_container:
        rest = f"{LEFT_OUT}@{rest[len(user) + 1 :]}"
    end = _name_end(scheme, rest)
    if end is None:
        return f"{scheme}{colon}{rest}"
    # What follows a `#` or `;` is hidden as a whole: one empty parameter stands for it.
    query = rest[end.end() :].split("&") if end[0] == "?" else [""]
    shown = [pair for pair in query if _SHOWN_QUERY.fullmatch(pair)]
    shown += [LEFT_OUT] if len(shown) < len(query) else []
    return f"{scheme}{colon}{rest[: end.end()]}{'&'.join(shown)}"


def _parts(address: str) -> tuple[str, str, str]:
    """Split `s3://host/name` in `s3`, `://` and `host/name`; a path has only the last."""
    start = re.match(r"\s*([A-Za-z][\w+.\-]+)(:/+)", address)
    if start is None or start[1].lower() in ("file", "local"):
        return "", "", address
    return address[: start.end(1)], start[2], address[start.end() :]


def _host(rest: str) -> str:
    return re.split("[/?#]", rest, maxsplit=1)[0]


def _name_end(scheme: str, rest: str) -> re.Match[str] | None:
    """Return the match of the `?`, `#` or `;` that ends the name in an address, by the rules of its
    scheme; None if only the name stands there.
    """
    if not scheme:
        return None
    return (_AFTER_OBJECT if scheme.lower() in _OF_OBJECTS else _AFTER_NAME).search(rest)


def _user_in(rest: str) -> str | None:
    """Return the user, with the password, in what follows the `scheme://` of an address; None if it
    has none.

    Where there is a password, all that precedes the last `@` is the user, even if that `@` stands
    in the path: in `user:p@ss/word@host`, an unescaped password, `ss` looks like the host. Too much
    is hidden rather than a part of a password shown.
    """
    before_slash = _host(rest)
    has_password = ":" in before_slash.partition("@")[0] and "@" in before_slash
    # In `user:pa/ss@host`, what precedes the `/` is no host either, as `pa` is no port.
    hides_all = has_password or _is_part_of_user(before_slash)
    user, at, _ = (rest if hides_all else before_slash).rpartition("@")
    return user if at else None


def _is_part_of_user(host: str) -> bool:
    """Return whether `host`, the text before the first `/`, `?` or `#` of an address, cannot be a
    host, with or without a port: then it begins a user whose password holds such a character.
    """
    return re.fullmatch(r"([^:\[\]]*|\[.*\])(:\d+)?", host.rpartition("@")[2]) is None


def without_secrets(text: str) -> str:
    """Return text with every address in it as in `shown_address`."""
    if ":/" not in text:
        return text
    return _ADDRESS.sub(lambda match: shown_address(match[0]), text)
