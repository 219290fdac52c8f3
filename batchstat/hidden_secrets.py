"""Texts, commands and settings as they are shown: without what may be a secret. The recorder loads
this module by its place: it is in the grammar of Python 3.8, and imports the standard library
alone.
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
# Of the words of a name, as `_hub_token_`: the value is a secret, whatever it is.
_SURE = re.compile(
    rf"passw(or)?d|pass(phrase|code)|secret|credential|_({_SERVICES})_?(token|key|pass|pwd)s?_|"
    rf"_(token|key)s?_({_SERVICES})_"
)
# It is, unless it is a number or a path, or the name is one of training scripts.
_LIKELY = re.compile(r"(token|_key|_pass|_pwd|_auth|_authorization)_((value|string)_)?$")
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
# Such names, as `pad_token`, `max_token` or `sort_key`.
_OF_TRAINING = re.compile(rf"_({_SPECIAL})(_|token_)|_({_COLUMNS})_(\w+_)?(key|pass)_")
# The value says where a secret is, or how long.
_OF_NO_VALUE = re.compile(r"_(file|path|dir|folder|name|env|var|type|length|size|column)_$")
# What stands for no value or for one that is elsewhere, and special tokens such as `<pad>`.
_NO_SECRET = re.compile(
    rf"|(?i:none|null|true|false|yes|no|on|off)|{LEFT_OUT}|value|<.+>|\[\w+\]|"
    r"\$\{?[A-Z_][A-Z0-9_]*\}?|\$\{\{.*\}\}|%\w+%",
    re.DOTALL,
)
_NUMBER_OR_PATH = re.compile(
    r"[\W_]+|[-+]?[\d.,_]+(e[-+]?\d+)?|(~|\.{1,2}|[A-Za-z]:)?[/\\][\w./\\ -]*", re.IGNORECASE
)
# Texts that begin as tokens do, whatever they are called.
_TOKEN = re.compile(
    r"(?<!\w)((?<!/)hf_(?!\w+[/.]\w)((?=\w*[A-Z])\w{6,}|[a-z0-9]{16,})|"
    r"sk-((?=[\w-]{0,99}[A-Z])[\w-]{6,}|[\w-]{0,99}[a-z0-9]{16}[\w-]*)|gh[oprsu]_\w{6,}|github_pat_\w+|glpat-[\w-]{6,}|"
    r"xox[abeprs]-[\w-]{4,}|A[KS]IA[A-Z0-9]{8,}|AIza[\w-]{16,}|eyJ[\w+/=-]{8,}(\.[\w+/=-]*)*)|"
    r"(?<=\b[Bb]earer )[\w.~+/=-]{6,}"
)
# What names a value in a text: `key=`, `'key': `, `"key"] = `, `key: ` or `--key `.
_NAME = re.compile(
    r"(?<![\w.-])(?P<name>(?P<dash>--?)?[A-Za-z_][\w.-]*)(?P<mark>\\*[\"']\]?\s*[:=]\s*|"
    r"\s*=\s*(?=\\*[\"'])|=|:\s*|(?(dash)\s+(?!-)|(?!)))"
)
_END = r"[\s,;&'\"()\[\]{}<>\\]"
_VALUE = re.compile(
    rf"(?P<open>\\*[\"'])(?P<text>(\\.|[^\\])*?)(?P=open)|"
    rf"(?P<word>{_END.replace('[', '[^', 1)}+?)(?=[:.]?({_END}|$))",
    re.DOTALL,
)
_ADDRESS = re.compile(r"[A-Za-z][\w+.\-]+:/+[^\s'\"<>]*")
# A container before its host, which holds no secret, and schemes where others have a user there.
_CONTAINER = re.compile(r"\$?[a-z0-9]+(-[a-z0-9]+)*@[^@:]+")
_WITH_CONTAINERS = frozenset(("abfs", "abfss", "az", "wasb", "wasbs"))
# Schemes under which `?`, `#` and `;` may stand in patterns and in names of files.
_OF_OBJECTS = _WITH_CONTAINERS | {"s3", "s3a", "gs", "gcs", "adl", "hf", "memory", "oss"}
# What ends a name. Under `_OF_OBJECTS` only before a parameter, or the `…` of a shown address.
_AFTER_NAME = re.compile(rf"[?#]|;(?=[^/=]*=|{LEFT_OUT})")
_AFTER_OBJECT = re.compile(rf"[?#;](?=[^/?#;=]*=|{LEFT_OUT})")
_SHOWN_QUERY = re.compile(r"(versionId|revision|format)=[\w.~\-]*")


def shown_address(address: str) -> str:
    """Return an address, but not a `file://`, without what may be a secret: its user, query and
    fragment become `…`, as in `s3://…@host/corpus.txt?…`. A query keeps what says which content is
    meant: `versionId`, `revision` and `format`.
    """
    # fsspec chains addresses by `::`, as in zip://a.txt::https://host/b.zip.
    first, *chained = address.split("::")
    shown = [_without_secrets(first)]
    for part in chained:
        # A password may hold `::`, which cuts it: a part without a scheme may be the rest of one.
        is_cut = re.match(r"\s*[A-Za-z][\w+.\-]+://", part) is None
        if is_cut and "@" in part:  # the user that began in the first part ends here: hide all
            return f"{_split_scheme(first)[1]}{LEFT_OUT}@{LEFT_OUT}"
        shown.append(LEFT_OUT if is_cut else _without_secrets(part))
    return "::".join(shown)


def is_shortened(address: str) -> bool:
    """Return whether an address is as `shown_address` returns it, with something left out."""
    gap = re.search(rf"://{LEFT_OUT}@|[?#;&]{LEFT_OUT}", address)
    return "://" in address and gap is not None


def named_part(address: str) -> str:
    """Return an address up to the end of its name: without query and fragment."""
    scheme, begin, rest = _split_scheme(address)
    return begin + _split_name(scheme, rest)[0]


def has_cut_user(address: str) -> bool:
    """Return whether a `/`, `?` or `#` in a user or password cuts an address before its host."""
    return _is_cut_user(_split_scheme(address)[2])


def possible_secrets(address: str) -> set[str]:
    """Return the user, the password and the values of the query of an address, as written and
    unquoted; the empty text may be among them.
    """
    secrets: set[str] = set()
    for part in address.split("::"):
        scheme, _, rest = _split_scheme(part)
        if scheme:  # not a path
            pairs = re.split("[?&#;]", _split_name(scheme, rest)[2])
            # The value of a `key=value`; of a parameter without a value, all of it.
            secrets |= {pair.partition("=")[2] or pair for pair in pairs}
            user = _user_in(rest) or ""
            secrets |= {user, *user.split(":")}
    return {form for secret in secrets for form in (secret, unquote(secret), unquote_plus(secret))}


def _without_secrets(address: str) -> str:
    scheme, begin, rest = _split_scheme(address)
    user = _user_in(rest) if scheme else None
    is_container = scheme in _WITH_CONTAINERS and _CONTAINER.fullmatch(_user_and_host(rest))
    if user is not None and not is_container:
        rest = f"{LEFT_OUT}@{rest[len(user) + 1 :]}"
    name, end, query = _split_name(scheme, rest)
    # Only a `?` begins parameters. What follows a `#` or `;` counts as one that is not shown.
    pairs = query.split("&") if end == "?" else [""] * len(end)
    shown = [pair for pair in pairs if _SHOWN_QUERY.fullmatch(pair)]
    shown += [LEFT_OUT] if len(shown) < len(pairs) else []
    return f"{begin}{name}{end}{'&'.join(shown)}"


def _split_scheme(address: str) -> tuple[str, str, str]:
    begin = re.match(r"(\s*(?!(?i:file|local):)[A-Za-z][\w+.\-]+):/+", address)
    return (begin[1].lower(), begin[0], address[begin.end() :]) if begin else ("", "", address)


def _split_name(scheme: str, rest: str) -> tuple[str, str, str]:
    end = (_AFTER_OBJECT if scheme in _OF_OBJECTS else _AFTER_NAME).search(rest) if scheme else None
    return (rest[: end.start()], end[0], rest[end.end() :]) if end else (rest, "", "")


def _user_and_host(rest: str) -> str:
    return re.split("[/?#]", rest, maxsplit=1)[0]


def _user_in(rest: str) -> str | None:
    """Return the user of an address, with the password; None if it has none."""
    # An unescaped password may hold an `@` or a `/`. All that precedes the last `@` is then taken
    # for the user, even where that `@` stands in a path, rather than a part of a password shown.
    user_and_host = _user_and_host(rest)
    # As of `user:p@ss/word@host`; or of `user:pa/ss@host`, where `user:pa` is no host with a port.
    has_password = ":" in user_and_host.partition("@")[0] and "@" in user_and_host
    is_unescaped = has_password or _is_cut_user(rest)
    user, at, _ = (rest if is_unescaped else user_and_host).rpartition("@")
    return user if at else None


def _is_cut_user(rest: str) -> bool:
    host = _user_and_host(rest).rpartition("@")[2]
    return "@" in rest and re.fullmatch(r"([^:\[\]]*|\[.*\])(:\d+)?", host) is None


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
        value = _VALUE.match(text, named.end()) if sureness and not is_prose else None
        if value is None or named.start() < done:
            continue
        start, stop = value.span("text" if value["open"] else "word")
        if _is_secret(text[start:stop], sureness):
            parts += [text[done:start], LEFT_OUT]
            done = stop
    return "".join([*parts, text[done:]])


def hidden_in(value: Any, sureness: int = 0) -> Any:
    """Return the words of a command, or settings, however nested, without what may be a secret by
    itself or by the name of a value. `sureness` is that of the name of this value.
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
    if _is_secret(value, sureness):
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
    if equals and is_whole and _is_secret(rest, _sureness(name)):
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
    if not sureness or _NO_SECRET.fullmatch(value):
        return False
    return sureness > 1 or _NUMBER_OR_PATH.fullmatch(value) is None
