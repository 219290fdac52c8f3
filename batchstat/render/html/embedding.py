"""Data inside a page: JSON that cannot end its script, cut to what a page has room for."""

import base64
import json
import zlib
from itertools import islice
from typing import Any

import numpy as np

from batchstat.lengths.stats import LengthStats

MOST_ENTRIES = 200
"""Entries of a list that a page holds."""

_MOST_CHARACTERS = 2_000
"""Characters of a text that a page holds."""

_MOST_ENCODED = 200_000
"""Characters of a histogram that a page holds."""

_ESCAPES = {ord(each): f"\\u{ord(each):04x}" for each in "<>&\u2028\u2029"}


def script_json(document: Any) -> str:
    """Return JSON that may stand inside a script element, whatever text it holds."""
    text = json.dumps(document, ensure_ascii=False, allow_nan=False, separators=(",", ":"))
    return text.translate(_ESCAPES)


def shortened(document: dict[str, Any]) -> tuple[dict[str, Any], dict[str, int]]:
    """Return a document with at most `MOST_ENTRIES` entries per list, of classes the largest; and
    how many each list lacks, by its path.
    """
    missing: dict[str, int] = {}
    return _shortened(document, "", missing), missing


def _shortened(value: Any, path: str, missing: dict[str, int]) -> Any:
    if isinstance(value, dict):
        if len(value) > MOST_ENTRIES:
            missing[path] = len(value) - MOST_ENTRIES
        return {
            key: _shortened(each, f"{path}.{key}" if path else key, missing)
            for key, each in islice(value.items(), MOST_ENTRIES)
        }
    if isinstance(value, str) and len(value) > _MOST_CHARACTERS:
        return f"{value[:_MOST_CHARACTERS]}…"
    if not isinstance(value, list):
        return value
    if len(value) > MOST_ENTRIES:
        missing[path] = len(value) - MOST_ENTRIES
        value = _largest(value)
    return [_shortened(each, path, missing) for each in value]


def _largest(entries: list[Any]) -> list[Any]:
    """Return the entries with the most samples, in their order; else the first."""
    keys = entries[0] if isinstance(entries[0], dict) else ()
    size = next((key for key in ("before", "count") if key in keys), None)
    if size is None:
        return entries[:MOST_ENTRIES]
    # Stable, so that lists of the same classes keep the same ones where sizes are equal.
    chosen = sorted(range(len(entries)), key=lambda i: -entries[i][size])[:MOST_ENTRIES]
    return [entries[i] for i in sorted(chosen)]


def histogram(stats: LengthStats) -> dict[str, Any]:
    """Return the distinct lengths, as differences to the one before, and how often each occurs.

    `values` and `counts` say how many bytes each number has, at most 8. `data` holds byte 0 of all
    values, then byte 1, and so on, then those of the counts: such planes compress better than the
    numbers one by one. They are compressed together (zlib) and in base64.
    """
    columns = {"values": np.diff(stats.values, prepend=0), "counts": stats.counts}
    planes, widths = [], {}
    for name, column in columns.items():
        widths[name] = max(1, -(-int(column.max(initial=0)).bit_length() // 8))
        each = column.astype("<u8").view(np.uint8).reshape(-1, 8)
        planes += [each[:, place].tobytes() for place in range(widths[name])]
    data = base64.b64encode(zlib.compress(b"".join(planes), 9)).decode("ascii")
    return {**widths, "data": data}


def is_small(lengths: dict[str, Any]) -> bool:
    """Return whether a page has room for encoded lengths."""
    return len(lengths["data"]) <= _MOST_ENCODED
