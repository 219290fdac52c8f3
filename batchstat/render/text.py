"""Formatting of numbers, ages and names for people."""

from datetime import datetime
from typing import Any

from batchstat.errors import counted, named_part, printable


def percent(ratio: float, digits: int = 1) -> str:
    """Return a ratio in percent; 0 and 100 only for exactly these."""
    text = f"{100 * ratio:.{digits}f}"
    least = f"{10**-digits:.{digits}f}"
    if ratio > 0 and float(text) == 0:
        return f"<{least}%"
    if ratio < 1 and float(text) == 100:
        return f">{100 - 10**-digits:.{digits}f}%"
    return "0%" if ratio == 0 else f"{text}%"


def with_share(count: int, total: int) -> tuple[str, str]:
    """Return a count and its share of a total, for a column each."""
    return f"{count:,}", percent(count / total)


def decimal(number: float | None) -> str:
    """Return a number with two digits, or a dash for None."""
    return "-" if number is None else f"{number:.2f}".replace("-0.00", "0.00")


def batches(number: int) -> str:
    """Return a number of batches with its noun."""
    return counted(number, "batch", "batches")


def span(least: int, most: int) -> str:
    """Return two numbers with a dash between, or one where they are equal."""
    return f"{least:,}" if least == most else f"{least:,}-{most:,}"


def one_line(name: str, most: int = 60) -> str:
    """Return a name from the user's data on one line: controls escaped, a long one shortened
    inside.
    """
    text = printable(name)
    half = (most - 1) // 2
    return text if len(text) <= most else f"{text[:half]}…{text[-half:]}"


def class_name(label: str | None, most: int = 40) -> str:
    """Return a label for people; a missing and an empty one are marked as such."""
    if label is None:
        return "(no label)"
    return one_line(label, most) if label else "(empty)"


def tokenizer_name(name: str | None) -> str:
    """Return the name of the tokenizer; a corpus of counts has none."""
    return "already counted" if name is None else one_line(name)


def corpus_name(paths: list[str]) -> str:
    """Return the files of a corpus in short: the first name and how many more there are."""
    if not paths:
        return "lengths"
    name = named_part(paths[0]).rsplit("/", 1)[-1]
    first = "standard input" if paths[0] == "-" else one_line(name)
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def age(created: str, now: datetime) -> str:
    """Return how long ago, in the largest unit."""
    seconds = max(0.0, (now - datetime.fromisoformat(created)).total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            number = int(seconds // size)
            return f"{number} {unit}{'s' if number != 1 else ''} ago"
    return "just now"


def key_value(value: Any) -> str:
    """Return a value of a trainer's configuration, as YAML has it."""
    words = {True: "true", False: "false", None: "null"}
    named = value is None or isinstance(value, bool)
    return words[value] if named else one_line(str(value))
