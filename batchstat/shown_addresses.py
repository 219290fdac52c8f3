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
_AFTER_NAME = re.compile(rf"[?#]|;(?=[^/=]*=|{LEFT_OUT})")
_AFTER_OBJECT = re.compile(rf"[?#;](?=[^/?#;=]*=|{LEFT_OUT})")
_SHOWN_QUERY = re.compile(r"(versionId|revision|format)=[\w.~\-]*")


def shown_address(address: str) -> str:
    """Return an address without what may be a secret: its user, query and fragment become `…`, as
    in `s3://…@host/corpus.txt?…`. `file://` is a path, and stays as it is.

    A query keeps what says which content is meant: `versionId`, `revision` and `format`.
    """
    # fsspec chains addresses by `::`, as in zip://a.txt::https://host/b.zip.
    first, *chained = address.split("::")
    # In a part without a scheme, there may be the rest of a secret: a password may hold `::`.
    without_scheme = [part for part in chained if not _SCHEME.match(part)]
    if any("@" in part for part in without_scheme):
        scheme, colon, _ = _parts(first)
        return f"{scheme}{colon}{LEFT_OUT}@{LEFT_OUT}"
    shown = [LEFT_OUT if part in without_scheme else _without_secrets(part) for part in chained]
    return "::".join([_without_secrets(first), *shown])


def is_shortened(address: str) -> bool:
    """Return whether an address is a shown one that leaves something out."""
    gap = re.search(rf"://{LEFT_OUT}@|[?#;&]{LEFT_OUT}", address)
    return "://" in address and gap is not None


def named_part(address: str) -> str:
    """Return an address up to the end of its name: without query and fragment."""
    scheme, colon, rest = _parts(address)
    more = _after_name(scheme, rest)
    return address if more is None else f"{scheme}{colon}{rest[: more.start()]}"


def has_cut_user(address: str) -> bool:
    """Return whether a `/`, `?` or `#` in a user or password cuts an address before its host."""
    _, _, rest = _parts(address)
    return "@" in rest and _is_part_of_user(_host(rest))


def left_out_of(address: str) -> set[str]:
    """Return what of an address may be a secret: the user, the password and the values of a query,
    as they are written and with `%20` and `+` replaced by what they stand for.
    """
    secrets: set[str] = set()
    for part in address.split("::"):
        scheme, _, rest = _parts(part)
        if scheme:  # not a path
            query = re.split("[?&#;]", part[len(named_part(part)) :])
            user = _user_in(rest) or ""
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
    more = _after_name(scheme, rest)
    if more is None:
        return f"{scheme}{colon}{rest}"
    # A fragment is left out whole: an empty parameter is not one of those that are shown.
    query = rest[more.end() :].split("&") if more[0] == "?" else [""]
    shown = [pair for pair in query if _SHOWN_QUERY.fullmatch(pair)]
    shown += [LEFT_OUT] if len(shown) < len(query) else []
    return f"{scheme}{colon}{rest[: more.end()]}{'&'.join(shown)}"


def _parts(address: str) -> tuple[str, str, str]:
    """Split `s3://host/name` in `s3`, `://` and `host/name`; a path has only the last."""
    start = re.match(r"\s*([A-Za-z][\w+.\-]+)(:/+)", address)
    if start is None or start[1].lower() in ("file", "local"):
        return "", "", address
    return address[: start.end(1)], start[2], address[start.end() :]


def _host(rest: str) -> str:
    return re.split("[/?#]", rest, maxsplit=1)[0]


def _after_name(scheme: str, rest: str) -> re.Match[str] | None:
    """Return the character in an address after which no name follows, by the scheme's rules."""
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
    """Return whether what precedes the first `/`, `?` or `#` of an address is neither a host nor
    one with a port, but the first part of a user and a password with such a character.
    """
    return re.fullmatch(r"([^:\[\]]*|\[.*\])(:\d+)?", host.rpartition("@")[2]) is None


def without_secrets(text: str) -> str:
    """Return text with every address in it as in `shown_address`."""
    if ":/" not in text:
        return text
    return _ADDRESS.sub(lambda match: shown_address(match[0]), text)
