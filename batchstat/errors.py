"""Errors for the user. Everything raised on purpose derives from `BatchstatError`.

BatchstatError
├── OptionError   the arguments are wrong by themselves, whatever the input   exit code 2
├── InputError    no answer could be had from the input or the machine        exit code 3
│   ├── MissingError  what is named is not there
│   └── SourceError   a file that could not be read, but might be at another attempt
└── StorageFullError     there is no space left for counts                           exit code 3
"""

import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from copy import copy
from typing import ClassVar, Self

from batchstat.hidden_secrets import without_secrets
from batchstat.words import printable, worded

_LONG_WORDS = re.compile(r"(\S{80})\S{920,}")
"""Values that are longer than any screen, of which the beginning is shown."""


def message(text: str) -> str:
    """Return what is said to the user, on one line; values longer than a screen are cut."""
    return printable(_LONG_WORDS.sub(r"\1…", without_secrets(text)))


@contextmanager
def arguments_named() -> Iterator[None]:
    """Decorate a public function: its errors name options as arguments for a caller in Python, and
    as flags on a command line (see `worded`).
    """
    try:
        yield
    except BatchstatError as error:
        error.args = tuple(map(worded, error.args))
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
    id: ClassVar[str] = "error"  # its stable name for programs, in the JSON that `--json` prints

    def __init__(self, problem: str, remedy: str = "") -> None:
        """Make each part one line, in which names may contain anything: see `message`."""
        super().__init__(message(problem), message(remedy))

    def __str__(self) -> str:
        return ": ".join(part for part in self.args if part)

    @property
    def problem(self) -> str:
        """What is wrong."""
        return str(self.args[0])

    @property
    def remedy(self) -> str:
        """What to do; empty where the problem says it."""
        return str(self.args[1])

    def at(self, place: str) -> Self:
        """Return the same error with the place that it is about before the problem."""
        placed = copy(self)
        placed.args = (f"{place}: {self.problem}", self.remedy)
        return placed


class OptionError(BatchstatError, ValueError):
    """An argument, parameter or setting that is wrong whatever the input.

    Example:
        >>> batchstat.Settings(batch_size=0)
        Traceback (most recent call last):
        batchstat.errors.OptionError: batch_size=0: must be between 1 and 2,147,483,647
    """

    exit_code = 2
    id = "option"


class InputError(BatchstatError):
    """A file, folder, tokenizer or profile that gives no answer.

    Example:
        >>> batchstat.profile("missing.txt")
        Traceback (most recent call last):
        batchstat.errors.MissingError: no such file: missing.txt
    """

    id = "input"


class MissingError(InputError):
    """A file, folder or check that is not there."""

    id = "input/missing"


class SourceError(InputError):
    """A file that is cut short, damaged, unreachable or gone: another attempt may succeed."""

    id = "input/unreadable"


class MemoryFullError(BatchstatError):
    """The machine has no memory left."""

    id = "memory"


class StorageFullError(BatchstatError):
    """No space is left for counts, nor will there be for later ones."""

    id = "storage/full"


class ColumnError(InputError):
    """A column that a file does not have."""

    id = "input/column"

    def __init__(self, problem: str, remedy: str = "", names: Iterable[str] = ()) -> None:
        super().__init__(problem, remedy)
        self.names = tuple(names)


class NoBatchError(InputError):
    """Nothing of a corpus is left to batch."""

    id = "input/no-batch"

    def __init__(
        self,
        problem: str = "no batches left: every batch was incomplete, or uneven over the ranks, and "
        "dropped (by drop_last, remainder=drop or the strategy's own rule)",
        remedy: str = "lower world_size, batch_size, samples_per_step or the multiple, or remove "
        "these options",
    ) -> None:
        super().__init__(problem, remedy)


def install_extra(name: str) -> str:
    """Return what to do if a library that an extra of batchstat installs is missing."""
    return f"run python -m pip install '.[{name}]' in a clone of batchstat"


def unknown(kind: str, value: str, known: Iterable[str]) -> OptionError:
    """Return an `OptionError` for a name that is not in `known`, with the nearest that is."""
    names = sorted(known)
    listed = f"(known: {', '.join(names)})"
    if suggestion := did_you_mean(value, names):
        return OptionError(f"unknown {kind} {value!r}", f"{suggestion} {listed}")
    return OptionError(f"unknown {kind} {value!r} {listed}")


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
