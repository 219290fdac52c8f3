"""Formatting of numbers, ages and names for people."""

from datetime import datetime

from batchstat.hidden_secrets import named_part
from batchstat.words import counted, printable


def percent(ratio: float, digits: int = 1) -> str:
    """Return a ratio such as "12.3%"; only exactly 0 and 1 are 0% and 100%, others "<0.1%"."""
    rounded = f"{100 * ratio:.{digits}f}"
    smallest = f"{10**-digits:.{digits}f}"
    if ratio > 0 and float(rounded) == 0:
        return f"<{smallest}%"
    if ratio < 1 and float(rounded) == 100:
        return f">{100 - 10**-digits:.{digits}f}%"
    return "0%" if ratio == 0 else f"{rounded}%"


def with_share(count: int, total: int) -> tuple[str, str]:
    """Return a count and its share of a total, as the cells of two columns."""
    return f"{count:,}", percent(count / total)


def decimal(number: float | None) -> str:
    """Return a number with two digits, without the sign of -0.00; a dash for None."""
    return "-" if number is None else f"{number:.2f}".replace("-0.00", "0.00")


def batches(number: int) -> str:
    """Return a number of batches with its noun."""
    return counted(number, "batch", "batches")


def span(first: float, last: float, style: str = ",") -> str:
    """Return a range such as "16-31"; where both ends look the same, that number alone."""
    low, high = format(first, style), format(last, style)
    return low if low == high else f"{low}-{high}"


def one_line(name: str, max_characters: int = 60) -> str:
    """Return a name on one line: escaped, and if it is long without its middle."""
    text = printable(name)
    half = (max_characters - 1) // 2
    return text if len(text) <= max_characters else f"{text[:half]}…{text[-half:]}"


def class_name(label: str | None, max_characters: int = 40) -> str:
    """Return a class label for people: "(no label)", "(empty)", or as it is."""
    if label is None:
        return "(no label)"
    return one_line(label, max_characters) if label else "(empty)"


def tokenizer_name(name: str | None) -> str:
    """Return the name of the tokenizer; a corpus of counts has none."""
    return "already counted" if name is None else one_line(name)


def corpus_name(paths: list[str]) -> str:
    """Return the first file of a corpus, and how many more; "lengths" without files."""
    if not paths:
        return "lengths"
    name = named_part(paths[0]).rsplit("/", 1)[-1]
    first = "standard input" if paths[0] == "-" else one_line(name)
    return first if len(paths) == 1 else f"{first} and {len(paths) - 1} more"


def age(created: str, now: datetime) -> str:
    """Return how long ago `created` was, in the largest unit, such as "2 days ago"."""
    # Never negative, even if the clocks of two machines differ.
    seconds = max(0.0, (now - datetime.fromisoformat(created)).total_seconds())
    for unit, size in (("day", 86_400), ("hour", 3_600), ("minute", 60)):
        if seconds >= size:
            whole_units = int(seconds // size)
            return f"{whole_units} {unit}{'s' if whole_units != 1 else ''} ago"
    return "just now"
