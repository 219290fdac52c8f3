"""Text of labels: the same class has the same text, whatever its source."""

from typing import Any

import numpy as np

_MOST_DIGITS = 1e16
"""From this value on, Python writes a float with an exponent."""


def label_text(label: Any) -> str | None:
    """Return the text that names a class; None for a missing label: None, NaN, NaT, NA, masked.

    An integral float is written as a whole number, like the same label in files that have whole
    numbers: 1.0 is `1`, -0.0 is `0`, 1e+300 stays. A boolean is `true` or `false`.
    """
    # pandas' NA by its name, so that pandas need not be imported.
    if label is None or label is np.ma.masked or type(label).__name__ == "NAType":
        return None
    if isinstance(label, str):
        return str(label)
    if isinstance(label, bool | np.bool_):
        return "true" if label else "false"
    # NaN and NaT alone differ from themselves.
    if label != label:
        return None
    if isinstance(label, float | np.floating) and abs(float(label)) < _MOST_DIGITS:
        return str(int(label) if label.is_integer() else label)
    return str(label)
