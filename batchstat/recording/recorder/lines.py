"""A `ReadBatch`, what a forward computes, as a part of a line of JSON, and back.

Keys are short and left out where they say nothing: a run writes many lines.
"""

from __future__ import annotations

from typing import Any

from .read_batches import ReadBatch


def part_of(batch: ReadBatch) -> dict[str, Any]:
    """Return what a forward computes as a part of a line; `read_of` is the inverse.

    `w` is the widths, `by` what told padding from text, `loss` where the label of a token stands,
    `n` the real tokens of each sample, `y` those that carry loss, `carry` the padding that does.
    Where padding is not known, `rows` is the number of rows, and `ends` the last token of each row
    with how often it repeats there. The others are attributes of `ReadBatch` by their names.
    """
    part: dict[str, Any] = {"w": list(batch.widths), "by": batch.padding_source, "loss": batch.loss}
    if batch.real is not None:
        part["n"] = _flat(batch.real)
    else:  # `settle` may find the padding later, by the ends of all rows
        part["rows"], part["ends"] = batch.rows, batch.ends
    if batch.trained is not None:
        part["y"] = _flat(batch.trained)
    for name, value in (
        ("decoder", batch.decoder),
        # With a decoder, `y` has the same numbers.
        ("labelled", batch.labelled if batch.decoder is None else None),
        ("labelled_real", batch.labelled_real if batch.decoder is None else None),
        ("carry", batch.trained_padding),
        ("doubt", batch.doubt),
        ("straight", batch.is_straight),
    ):
        if value:
            part[name] = value
    return part


def read_of(part: dict[str, Any]) -> ReadBatch:
    """Return what a forward computes from a part of a line, as `part_of` wrote it."""
    real = part.get("n")
    # Its rows, and its width: that of an encoder and a decoder is the sum of theirs.
    batch = ReadBatch(len(real) if real is not None else part["rows"], sum(part["w"]))
    batch.widths, batch.padding_source, batch.loss = tuple(part["w"]), part["by"], part["loss"]
    batch.real = None if real is None else nested(real)
    batch.ends = [(last, run) for last, run in part.get("ends", ())]
    batch.trained = nested(part["y"]) if "y" in part else None
    batch.decoder, batch.labelled = part.get("decoder"), part.get("labelled", [])
    batch.labelled_real = part.get("labelled_real", [])
    batch.trained_padding, batch.doubt = part.get("carry", 0), part.get("doubt", "")
    batch.is_straight = bool(part.get("straight"))
    return batch


def _flat(rows: list[list[int]]) -> list[Any]:
    return [row[0] if len(row) == 1 else row for row in rows]


def nested(rows: list[Any]) -> list[list[int]]:
    """Return the inverse of `_flat`: `[3, [2, 4]]` -> `[[3], [2, 4]]`, a list for each row."""
    return [row if isinstance(row, list) else [row] for row in rows]
