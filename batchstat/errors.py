"""Errors for the user. Everything raised on purpose derives from `BatchstatError`.

BatchstatError
├── OptionError   the arguments are wrong by themselves, whatever the input   exit code 2
├── InputError    no answer could be had from the input or the machine        exit code 3
│   └── SourceError   a file that could not be read, but might be at another attempt
└── StorageFullError     there is no space left for counts                           exit code 3
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from reprlib import Repr
from typing import ClassVar
from urllib.parse import unquote, unquote_plus

# --- words ---------------------------------------------------------------------------------------
_CONTROLS = re.compile(r"[\x00-\x1f\x7f-\x9f\u2028\u2029\u202a-\u202e\u2066-\u2069\ud800-\udfff]")
_COMMANDS = re.compile(r"##(?=\w*\[)")
"""What Azure Pipelines, TeamCity and older GitHub runners take for a command anywhere in a line."""
_COMMAND_LINES = re.compile(r"(?m)^([^\S\n]*):(?=:)")
"""What GitHub Actions takes for a command: its runner trims the whitespace before it."""
_LONG_WORDS = re.compile(r"(\S{80})\S{920,}")
"""Values that are longer than any screen, of which the beginning is shown."""
_short = Repr()
_short.maxstring = _short.maxother = _short.maxlong = 80


def short(value: object) -> str:
    """Return the `repr` of any value, shortened for a message."""
    try:
        return _short.repr(value)
    except ValueError:
        return "a number of thousands of digits"


def counted(number: int, word: str, plural: str = "") -> str:
    """Return a number with its noun, whose plural takes an s unless given."""
    return f"{number:,} {word if number == 1 else plural or word + 's'}"


def printable(text: str) -> str:
    """Return text that may contain the user's data, on one line and with everything escaped that
    moves a terminal's cursor or that a CI runner takes for a command.
    """
    return _without_marks(_CONTROLS.sub(lambda match: repr(match[0])[1:-1], text))


def message(text: str) -> str:
    """Return what is said to the user, on one line: see `printable` and `without_secrets`.

    Any value that a message names may be longer than a screen: it is cut.
    """
    return printable(_LONG_WORDS.sub(r"\1…", without_secrets(text)))


def without_commands(text: str) -> str:
    """Return lines for a stream with everything escaped that a CI runner takes for a command.

    Line starts are known only here, as a screen may be wrapped anywhere. The escapes mean the same
    character in JSON, TOML and Python.
    """
    return _COMMAND_LINES.sub(r"\1\\u003a", _without_marks(text))


def _without_marks(text: str) -> str:
    return _COMMANDS.sub(r"#\\u0023", text)


# --- addresses without their secrets --------------------------------------------------------------
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


# --- options by the names that the reader knows ---------------------------------------------------
_ON_COMMAND_LINE: ContextVar[bool] = ContextVar("_ON_COMMAND_LINE", default=False)
_OPTION = re.compile(
    r"(?P<command>\b(?:batchstat|hf|pip|python) [a-z](?:(?! and )[^,;:()])*)"
    r"|(?<![\w/'\"-])--(?P<name>[a-z][a-z-]*)(?: (?P<value>(?:[^\s,;:()]|:(?=\S))+))?"
)
"""A command line, whose flags stay, or a flag with the word after it."""
_NO_VALUES = frozenset(
    (
        *("a", "alone", "and", "are", "around", "asks", "changes", "does", "explains", "for"),
        *("here", "if", "in", "is", "names", "needs", "not", "of", "on", "or", "says", "that"),
        *("than", "to", "too", "unless", "which", "with"),
    )
)
"""Words after a flag that go on with the sentence."""


@contextmanager
def flags_named() -> Iterator[None]:
    """Let messages name options by their flags, as those who read them write them."""
    token = _ON_COMMAND_LINE.set(True)
    try:
        yield
    finally:
        _ON_COMMAND_LINE.reset(token)


def worded(text: str) -> str:
    """Return a message, which names options by their flags, for its reader: in Python, they are
    arguments.
    """
    return text if _ON_COMMAND_LINE.get() else _OPTION.sub(_as_argument, text)


@contextmanager
def arguments_named() -> Iterator[None]:
    """Let the errors of a public function, which this decorates, be worded for its caller."""
    try:
        yield
    except BatchstatError as error:
        error.args = (worded(str(error)), *error.args[1:])
        raise


def _as_argument(option: re.Match[str]) -> str:
    """Return what stands for a match of `_OPTION` in Python: `world_size=8` for `--world-size 8`,
    `header=False` for `--no-header`; a command line as it is.
    """
    if option["command"]:
        return option[0]
    name, value = option["name"].replace("-", "_"), option["value"]
    if name.startswith("no_"):  # --no-header
        return f"{name.removeprefix('no_')}=False" + (f" {value}" if value else "")
    if value is None:
        return name
    if value in _NO_VALUES:
        return f"{name} {value}"
    # Placeholders and numbers, which Python writes without quotes.
    is_plain = value.isupper() or re.fullmatch(r"[\d_,.%]+", value) is not None
    return f"{name}={value}" if is_plain else f'{name}="{value}"'


# --- errors --------------------------------------------------------------------------------------
class BatchstatError(Exception):
    """One line for the user: what is wrong, with the value, where, and what to do.

    Example:
        >>> try:
        ...     batchstat.profile("missing.txt")
        ... except batchstat.BatchstatError as error:
        ...     print(error)
        no such file: missing.txt
    """

    exit_code: ClassVar[int] = 3

    def __init__(self, text: str) -> None:
        """Make the text one line, in which names may contain anything: see `message`."""
        super().__init__(message(text))


class OptionError(BatchstatError, ValueError):
    """An argument, parameter or setting that is wrong whatever the input.

    Example:
        >>> batchstat.Settings(batch_size=0)
        Traceback (most recent call last):
        batchstat.errors.OptionError: batch_size=0: must be between 1 and 2,147,483,647
    """

    exit_code = 2


class InputError(BatchstatError):
    """A file, folder, tokenizer or profile that gives no answer.

    Example:
        >>> batchstat.profile("missing.txt")
        Traceback (most recent call last):
        batchstat.errors.InputError: no such file: missing.txt
    """


class SourceError(InputError):
    """A file that is missing, cut short, damaged or unreachable: another attempt may succeed."""


class StorageFullError(BatchstatError):
    """No space is left for counts, nor will there be for later ones.

    Attributes:
        reason: the message without the remedy.
        remedy: what to do.
    """

    def __init__(self, reason: str, remedy: str) -> None:
        """Compose the message from `reason` and `remedy` (what to do)."""
        super().__init__(f"{reason}: {remedy}")
        self.reason, self.remedy = message(reason), remedy

    def __reduce__(self) -> tuple[type, tuple[str, str]]:
        return type(self), (self.reason, self.remedy)


class ColumnError(InputError):
    """A column that a file does not have.

    Attributes:
        names: the columns that it has.
    """

    def __init__(self, message: str, names: Iterable[str] = ()) -> None:
        """`names`: the columns that it has."""
        super().__init__(message)
        self.names = tuple(names)


class NoBatchError(InputError):
    """Nothing of a corpus is left to batch."""

    def __init__(self) -> None:
        """Name everything that may have dropped all batches."""
        super().__init__(
            "no batches left: every batch was incomplete, or uneven over the ranks, and dropped "
            "(by drop_last, remainder=drop or the strategy's own rule): lower world_size, "
            "batch_size, samples_per_step or the multiple, or remove these options"
        )


def install_extra(name: str) -> str:
    """Return what to do if a library that an extra of batchstat installs is missing."""
    return f"run python -m pip install '.[{name}]' in a clone of batchstat"


def unknown(kind: str, value: str, known: Iterable[str]) -> OptionError:
    """Return an `OptionError` for a name that is not in `known`, with the nearest that is."""
    names = sorted(known)
    hint = f": {suggestion}" if (suggestion := did_you_mean(value, names)) else ""
    return OptionError(f"unknown {kind} {value!r}{hint} (known: {', '.join(names)})")


def did_you_mean(value: str, known: Iterable[str]) -> str:
    """Return the question whether the nearest of `known` is meant; empty if none is near."""
    near = nearest(value, known)
    return "" if near is None else f"did you mean {near!r}?"


def nearest(value: str, known: Iterable[str]) -> str | None:
    """Return the shortest of `known` that begins with `value`, else the most similar if any is."""
    from difflib import get_close_matches

    names = list(known)
    completed = [name for name in names if value and name.startswith(value)]
    if completed:
        return min(completed, key=len)
    return next(iter(get_close_matches(value, names, n=1, cutoff=0.5)), None)
