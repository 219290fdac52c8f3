"""`ReadBatch`: what a forward computes, read from its arrays or from a line of a recording."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

IGNORED = -100  # the label of a token without loss, in torch and transformers
NOTHING = "nothing"  # what is said of token ids without any mask
POSITIONS = "position_ids"  # what says which tokens are real where samples begin again in a row
# The attribute of a `ReadBatch` that each key of a line has the value of. Keys are short and left
# out where they say nothing: a run writes many lines.
_ATTRIBUTES = {
    "by": "padding_source",
    "loss": "loss",
    "decoder": "decoder",
    "labelled": "labelled",
    "labelled_real": "labelled_real",
    "carry": "trained_padding",
    "doubt": "doubt",
    "straight": "is_straight",
}


@dataclass(eq=False)
class ReadBatch:
    """One forward pass."""

    rows: int
    width: int  # tokens to which every row is padded; of an encoder and a decoder, both together
    widths: tuple[int, ...] = ()  # (width,), or the widths of encoder and decoder
    # For each row, the real tokens of each of its samples, and the trained ones; None: not known.
    real: list[list[int]] | None = None
    trained: list[list[int]] | None = None
    # Where the label of a token stands: "shifted", at the token, so that the model moves labels by
    # one; "as they are", where it is predicted; "of rows", where each row has one label or output,
    # as of a classifier; or "unknown".
    loss: str = "unknown"
    # The number of labels of each row that are not ignored, and of these that are no padding.
    # Empty without labels of tokens; the latter also where none of these is padding.
    labelled: list[int] = field(default_factory=list)
    labelled_real: list[int] = field(default_factory=list)
    # The number of real tokens of each row in a decoder; None without one.
    decoder: list[int] | None = None
    padding_source: str = NOTHING  # what tells padding from text, such as "attention_mask"
    is_straight: bool = False  # whether it is one row with positions 0, 1, 2 and so on
    # (the last token, how often it repeats at the end) of each row; only where `real` is not known.
    ends: list[tuple[int, int]] = field(default_factory=list)
    trained_padding: int = 0  # number of tokens that are padding and carry loss
    doubt: str = ""  # why it is not known what it computes; empty where that is known
    ids: Any = None  # the token ids; None where several sets of them are one batch
    # (n_rows, width) which of the ids are real; None where those are the first ones, or not known.
    real_mask: Any = None

    def __post_init__(self) -> None:
        """Take the width alone where there is no decoder."""
        self.widths = self.widths or (self.width,)


def single_samples(numbers: list[int]) -> list[list[int]]:
    """Return the numbers of rows that hold one sample each: `[3, 5]` -> `[[3], [5]]`."""
    return [[number] for number in numbers]


def samples_of(lengths: list[int]) -> list[list[int]]:
    """Return the lengths of the samples in rows of at most one each: `[3, 0]` -> `[[3], []]`."""
    return [[length] if length else [] for length in lengths]


def shape_of(value: Any) -> tuple[int, ...]:
    """Return the sizes of an array; () for anything else."""
    shape = getattr(value, "shape", None)
    return tuple(shape) if isinstance(shape, tuple) else ()


def is_whole(value: Any) -> bool:
    """Return whether an array holds whole numbers, and not only true and false."""
    # A dtype of NumPy has a kind, "i" or "u"; one of torch is named, as torch.int64.
    dtype = getattr(value, "dtype", "")
    return getattr(dtype, "kind", "") in ("i", "u") or "int" in str(dtype)


def is_equal(array: Any, other: Any) -> bool:
    """Return whether two arrays, None instead of one, hold the same numbers in the same shape."""
    return shape_of(array) == shape_of(other) != () and bool((array == other).all())


def part_of(batch: ReadBatch) -> dict[str, Any]:
    """Return what a forward computes as a part of a line; `read_of` is the inverse. `w` is the
    widths, `n` the real tokens of each sample, `y` those that carry loss; where padding is not
    known, `rows` and `ends` are those of the batch.
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
