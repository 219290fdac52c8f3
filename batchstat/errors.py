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
from typing import ClassVar

from batchstat.shown_addresses import without_secrets
from batchstat.words import printable, worded

_LONG_WORDS = re.compile(r"(\S{80})\S{920,}")
"""Values that are longer than any screen, of which the beginning is shown."""


def message(text: str) -> str:
    """Return what is said to the user, on one line: see `printable` and `without_secrets`.

    Any value that a message names may be longer than a screen: it is cut.
    """
    return printable(_LONG_WORDS.sub(r"\1…", without_secrets(text)))


@contextmanager
def arguments_named() -> Iterator[None]:
    """Decorate a public function: its errors name options as arguments for a caller in Python, and
    as flags on a command line (see `worded`).
    """
    try:
        yield
    except BatchstatError as error:
        error.args = (worded(str(error)), *error.args[1:])
        raise


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
    """Return the name that was probably meant: the shortest one that begins with `value`, else the
    most similar one. None if no name is similar.
    """
    from difflib import get_close_matches

    names = list(known)
    # Every name begins with an empty value: that says nothing.
    completed = [name for name in names if value and name.startswith(value)]
    if completed:
        return min(completed, key=len)
    return next(iter(get_close_matches(value, names, n=1, cutoff=0.5)), None)
