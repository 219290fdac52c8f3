"""Texts, commands and settings as they are shown: without what may be a secret.

The recorder loads this module by its place: it is in the grammar of Python 3.8, and imports the
standard library alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any
from urllib.parse import unquote, unquote_plus

LEFT_OUT = "…"
_SERVICES = (
    "access|account|api|auth|aws|azure|bot|client|deploy|encryption|github|gitlab|google|hf|hub|"
    "jwt|login|oauth|openai|personal|private|refresh|service|session|signing|ssh|storage|wandb"
)
_SURE = re.compile(
    rf"passw(or)?d|pass(phrase|code)|secret|credential|_({_SERVICES})_?(token|key|pass|pwd)s?_|"
    rf"_(token|key)s?_({_SERVICES})_"
)
"""In the words of a name, as `_hub_token_`: the value is a secret, whatever it is."""
_LIKELY = re.compile(r"(token|_key|_pass|_pwd|_auth|_authorization)_((value|string)_)?$")
"""The value is a secret unless it is a number, a path, or the name is one of training scripts."""
_SPECIAL = (
    "action|added|additional|answer|assistant|audio|begin|blank|bo[a-z]|by|chat|class|cls|context|"
    "control|decoder|distill|document|each|end|eo[a-z]|extra|fim|first|forced|global|human|ignore|"
    "image|img|instruction|label|lang|language|last|latent|mask|max|message|middle|min|multi|n|"
    "newline|next|num|one|pad|padding|per|placeholder|pooling|prefix|prev|prompt|query|question|"
    "register|response|reward|role|second|sep|separator|single|soft|source|speaker|special|split|"
    "start|stop|sub|suffix|summary|system|target|task|text|think|time|timestamp|tool|trigger|turn|"
    "two|unk|unknown|video|virtual|vision|visual|word"
)
_COLUMNS = (
    "backward|batch|best|cache|chosen|column|content|conversation|data|dataset|dict|eval|features?|"
    "field|foreign|forward|group|id|index|input|instance|join|json|labels|lookup|messages|metric|"
    "order|output|param|primary|record|rejected|row|sample|score|sort|state|test|train|validation"
)
_OF_TRAINING = re.compile(rf"_({_SPECIAL})(_|token_)|_({_COLUMNS})_(\w+_)?(key|pass)_")
"""Names of training scripts whose values are shown, as `pad_token`, `max_token` or `sort_key`."""
_OF_NO_VALUE = re.compile(r"_(file|path|dir|folder|name|env|var|type|length|size|column)_$")
"""Ends of names whose values say where a secret is, or how long."""
_NO_SECRET = re.compile(
    rf"|(?i:none|null|true|false|yes|no|on|off)|{LEFT_OUT}|value|<.+>|\[\w+\]|"
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{\{.*\}\}|%\w+%",
    re.DOTALL,
)
"""What stands for no value or for one that is elsewhere, and special tokens such as `<pad>`."""
_NUMBER_OR_PATH = re.compile(
    r"[\W_]+|[-+]?[\d.,_]+(e[-+]?\d+)?|(~|\.{1,2}|[A-Za-z]:)?[/\\][\w./\\ -]*", re.IGNORECASE
)
_TOKEN = re.compile(
    r"(?<!\w)((?<!/)hf_(?!\w+[/.]\w)((?=\w*[A-Z])\w{6,}|[a-z0-9]{16,})|"
    r"sk-((?=[\w-]{0,99}[A-Z])[\w-]{6,}|[\w-]{0,99}[a-z0-9]{16}[\w-]*)|gh[oprsu]_\w{6,}|github_pat_\w+|glpat-[\w-]{6,}|"
    r"xox[abeprs]-[\w-]{4,}|A[KS]IA[A-Z0-9]{8,}|AIza[\w-]{16,}|eyJ[\w+/=-]{8,}(\.[\w+/=-]*)*)|"
    r"(?<=\b[Bb]earer )[\w.~+/=-]{6,}"
)
"""Texts that begin as tokens do, whatever they are called."""
_NAME = re.compile(
    r"(?<![\w.-])(?P<name>(?P<dash>--?)?[A-Za-z_][\w.-]*)(?P<mark>\\*[\"']\]?\s*[:=]\s*|"
    r"\s*=\s*(?=\\*[\"'])|=|:\s*|(?(dash)\s+(?!-)|(?!)))"
)
"""What names a value in a text: `key=`, `'key': `, `"key"] = `, `key: ` or `--key `."""
_END = r"[\s,;&'\"()\[\]{}<>\\]"
_VALUE = re.compile(
    rf"(?P<open>\\*[\"'])(?P<text>(\\.|[^\\])*?)(?P=open)|"
    rf"(?P<word>{_END.replace('[', '[^', 1)}+?)(?=[:.]?({_END}|$))",
    re.DOTALL,
)
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
    """Return text with every address in it as in `shown_address`, and with `…` for every token, and
    for the value of every name such as `password`, `api_key` or `HF_TOKEN`.
    """
    if ":/" in text:
        text = _ADDRESS.sub(lambda match: shown_address(match[0]), text)
    text = _TOKEN.sub(LEFT_OUT, text)
    parts, done = [], 0
    for named in _NAME.finditer(text):
        sureness = _sureness(named["name"])
        # "a secret: pass it" is a sentence, "X-Api-Key: 1a2b" is none.
        is_prose = re.fullmatch(r":\s+", named["mark"]) and not re.search("[-_.]", named["name"])
        if not sureness or is_prose or named.start() < done:
            continue
        value = _VALUE.match(text, named.end())
        if value is not None and _is_secret(value["text"] or value["word"] or "", sureness):
            start, stop = value.span("text" if value["open"] else "word")
            parts += [text[done:start], LEFT_OUT]
            done = stop
    return "".join([*parts, text[done:]])


def hidden_in(value: Any, sureness: int = 0) -> Any:
    """Return the words of a command, or settings, however nested, without what may be a secret: as
    `without_secrets`, by the names of values, too. `sureness` is that of the name of this value.
    """
    if isinstance(value, Mapping):
        named = {key: max(sureness, _sureness(str(key))) for key in value}
        return {key: hidden_in(item, named[key]) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        shown, after = [], 0  # `--token` names the word after it
        for item in value:
            is_option = isinstance(item, str) and item.startswith("-")
            shown.append(hidden_in(item, sureness if is_option else max(sureness, after)))
            after = _sureness(item) if is_option and "=" not in item else 0
        return shown
    if not isinstance(value, str):
        is_number = isinstance(value, (int, float)) and not isinstance(value, bool)
        return LEFT_OUT if is_number and sureness > 1 else value
    if sureness and _is_secret(value, sureness):
        return LEFT_OUT
    if value[:1] in ("{", "["):
        try:
            shown = hidden_in(settings := json.loads(value))
            return value if shown == settings else json.dumps(shown, ensure_ascii=False)
        except (ValueError, RecursionError):
            pass  # not JSON
    # A secret may hold commas and spaces: all of the word is one, unless another name follows.
    name, equals, rest = value.partition("=")
    is_whole = re.fullmatch(r"[\w.+-]+", name) and (
        name.startswith("--") or not re.search(r"[,;&\s]-*\w+=", rest)
    )
    if equals and is_whole and (sureness := _sureness(name)) and _is_secret(rest, sureness):
        return f"{name}={LEFT_OUT}"
    return without_secrets(value)


def _sureness(name: str) -> int:
    """Return 2 where a name says that its value is a secret, 1 where it likely is, else 0."""
    words = _words_of(name)
    if _OF_NO_VALUE.search(words):
        return 0
    if _SURE.search(words):
        return 2
    # `data.pad_token` is a token of `pad`, not of `data`.
    words = _words_of(name.rpartition(".")[2])
    return int(_LIKELY.search(words) is not None and _OF_TRAINING.search(words) is None)


def _words_of(name: str) -> str:
    # `_hub_token_` of `hub-token`, `HUB_TOKEN_2` and `hubToken`.
    return f"_{'_'.join(re.findall('[A-Z]+(?![a-z])|[A-Z]?[a-z]+', name)).lower()}_"


def _is_secret(value: str, sureness: int) -> bool:
    if _NO_SECRET.fullmatch(value):
        return False
    return sureness > 1 or _NUMBER_OR_PATH.fullmatch(value) is None
