"""Limits as people write them (`5%`, `0.05`, `0.5pp`, `100`), and how they are shown."""

import math
import re
from decimal import Decimal
from fractions import Fraction

from batchstat.documents.parts import Kind
from batchstat.errors import OptionError

Number = int | float

_DIGITS = r"(\d+(?:\.\d*)?|\.\d+)(e[+-]?\d+)?"
_WRITTEN = re.compile(rf"{_DIGITS}\s*(%|pp|)", re.IGNORECASE)
_MOST_DIGITS = 17  # digits that tell any two floats apart


def parse_quantity(name: str, value: object, kind: Kind, *, difference: bool = False) -> Number:
    """Return a limit as people write it: `5%` is 0.05, `0.5pp` is 0.005. Raises OptionError."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        raise OptionError(f"{name}={value!r}", "must be a number, such as 5% or 100")
    text = str(value).strip()
    written = _WRITTEN.fullmatch(text)
    if written is None:
        raise OptionError(f"{name}={text!r}: {_unreadable(text, kind, difference)}")
    unit = written[3].lower()  # %, pp (percentage points) or nothing
    number = Decimal(text[: written.start(3)].strip())  # what stands before the unit
    if not number.is_finite() or number > 10**18:  # no number is so large
        raise OptionError(f"{name}={text!r}: too large for a limit")
    if kind == "ratio":
        return _ratio(name, text, number, unit, difference)
    if unit:
        raise OptionError(f"{name}={text!r}: not a ratio", f"write a number without {unit}")
    if kind == "count":
        if number != int(number) or "." in text:
            raise OptionError(f"{name}={text!r}: a count", "write a whole number")
        return int(number)
    return float(number)


def _unreadable(text: str, kind: Kind, difference: bool) -> str:
    """Return what is wrong with a limit that is not a number and a unit."""
    example = {"ratio": "0.5pp" if difference else "5%", "count": "100", "number": "2.5"}[kind]
    if text.startswith("-"):
        return "a limit must not be negative"
    # 0,5 may have the decimal comma of other languages, or separate thousands.
    if "," in text and _WRITTEN.fullmatch(text.replace(",", ".")):
        return f"did you mean {text.replace(',', '.')} or {text.replace(',', '')}?"
    return f"must be a number, such as {example}"


def _ratio(name: str, text: str, number: Decimal, unit: str, difference: bool) -> float:
    """Return a ratio, or a difference of two ratios, in [0, 1]."""
    if unit == "pp" and not difference:
        raise OptionError(f"{name}={text!r}: pp is for differences", f"did you mean {number:f}%?")
    if unit == "%" and difference:
        raise OptionError(
            f"{name}={text!r}: a difference of two percentages is in percentage points",
            f"did you mean {number:f}pp?",
        )
    sign = "pp" if difference else "%"
    # Of 5, 5% is probably meant; of 1, either 1% or the ratio 1, which is 100%.
    if not unit and "." not in text and "e" not in text.lower() and number != 0:
        meant = f"{number:f}{sign}"
        if number == 1:
            meant += f", or 1.0 for 100{sign}"
        raise OptionError(f"{name}={text!r}", f"did you mean {meant}?")
    ratio = number / 100 if unit else number  # the unit is % or pp here
    if ratio > 1:
        more = "is above 100%" if unit else f"did you mean {number:f}{sign}?"
        raise OptionError(f"{name}={text!r}: {more}")
    return float(ratio)


def exact(number: Number) -> Fraction:
    """Return a number exactly as its shortest decimal, so that 0.065 − 0.06 is not above 0.005."""
    return Fraction(repr(number))


def shown(number: Number, kind: Kind, *, difference: bool = False, digits: int = 2) -> str:
    """Return a number for people: ratios in percent, differences of them in percentage points."""
    if kind == "count":
        return f"{number:,}"
    if kind == "number":
        return f"{number:,.{digits}f}"
    return f"{100 * Decimal(repr(number)):.{digits}f}{' pp' if difference else '%'}"


def nearest_limit(number: Fraction, kind: Kind, *, is_least: bool, difference: bool = False) -> str:
    """Return the nearest limit that a number keeps: not below it, or with `is_least` not above."""
    rounded = math.floor if is_least else math.ceil
    if kind == "count":
        return str(rounded(number))
    is_ratio = kind == "ratio"
    hundredths = rounded((10_000 if is_ratio else 100) * number)
    unit = "" if not is_ratio else "pp" if difference else "%"
    return f"{Decimal(hundredths) / 100:.2f}{unit}"


def shown_apart(
    first: Number, second: Number, kind: Kind, *, difference: bool = False
) -> tuple[str, str]:
    """Return two numbers with the digits that tell them apart from each other and from 0."""
    for digits in range(2, _MOST_DIGITS):
        pair = (
            shown(first, kind, difference=difference, digits=digits),
            shown(second, kind, difference=difference, digits=digits),
        )
        differ = first == second or pair[0] != pair[1]
        # A number that is not 0 must not be shown as 0.00: its text needs a digit above 0.
        zeros = [text for text in pair if not re.search("[1-9]", text)]
        if differ and len(zeros) == (first == 0) + (second == 0):
            return pair
    return pair  # with the most digits
