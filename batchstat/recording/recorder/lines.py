"""A `ReadBatch`, what a forward computes, as a part of a line of JSON, and back.

Keys are short and left out where they say nothing: a run writes many lines.
"""

from __future__ import annotations

from typing import Any

from .read_batches import ReadBatch

_ATTRIBUTES = {  # the attribute of a `ReadBatch` that each key has the value of
    "by": "padding_source",
    "loss": "loss",
    "decoder": "decoder",
    "labelled": "labelled",
    "labelled_real": "labelled_real",
    "carry": "trained_padding",
    "doubt": "doubt",
    "straight": "is_straight",
}


def part_of(batch: ReadBatch) -> dict[str, Any]:
    """Return what a forward computes as a part of a line; `read_of` is the inverse.

    `w` is the widths, `n` the real tokens of each sample, `y` those that carry loss; where padding
    is not known, `rows` and `ends` are those of the batch.
    """
    part: dict[str, Any] = {"w": list(batch.widths), "by": batch.padding_source, "loss": batch.loss}
    if batch.real is not None:
        part["n"] = _flat(batch.real)
    else:  # `settle` may find the padding later, by the ends of all rows
        part["rows"], part["ends"] = batch.rows, batch.ends
    if batch.trained is not None:
        part["y"] = _flat(batch.trained)
    for key, name in _ATTRIBUTES.items():
        # With a decoder, `y` has the same numbers as its labels.
        if getattr(batch, name) and not (batch.decoder is not None and "labelled" in key):
            part[key] = getattr(batch, name)
    return part


def read_of(part: dict[str, Any]) -> ReadBatch:
    """Return what a forward computes from a part of a line, as `part_of` wrote it."""
    real = part.get("n")
    return ReadBatch(
        rows=len(real) if real is not None else part["rows"],
        width=sum(part["w"]),  # that of an encoder and a decoder is the sum of theirs
        widths=tuple(part["w"]),
        real=None if real is None else nested(real),
        trained=nested(part["y"]) if "y" in part else None,
        ends=[(last, run) for last, run in part.get("ends", ())],
        **{name: part[key] for key, name in _ATTRIBUTES.items() if key in part},
    )


def _flat(rows: list[list[int]]) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in rows]


def nested(rows: list[Any]) -> list[list[int]]:
    """Return the inverse of `_flat`: `[3, [2, 4]]` -> `[[3], [2, 4]]`, a list for each row."""
    return [row if isinstance(row, list) else [row] for row in rows]
