"""What of a batch is padding, as its mask, its positions, its lengths or a padding id say."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .read_batches import IGNORED, POSITIONS, ReadBatch, each_of, is_whole, shape_of


def at_ends(marks: Any) -> Any:
    """Return which marks stand at either end of a row, with nothing else between: a token that
    pads may stand for the end of a text, too.
    """
    return (marks.cumprod(1) != 0) | _flipped(_flipped(marks).cumprod(1) != 0)


def _flipped(marks: Any) -> Any:
    return marks.flip(1) if hasattr(marks, "flip") else marks[:, ::-1]  # NumPy takes negative steps


def real_of(
    ids: Any, values: Mapping[Any, Any], prefix: str, read: ReadBatch, pad_token_id: int | None
) -> Any:
    """Note the real tokens that a mask, lengths or positions tell; return which are, if that is
    known of each.
    """
    shape = shape_of(ids)
    positions: Any = values.get(prefix + "position_ids")
    listed = positions.tolist() if shape_of(positions) == shape else None
    masks = [(prefix + "attention_mask", True)]
    masks += [(key, False) for key in values if "padding_mask" in str(key)]
    for key, marks_real in masks:
        if shape_of(values.get(key)) == shape:
            keep = values[key] != 0 if marks_real else values[key] == 0
            if pad_token_id is not None:
                keep = _without_tail(ids, keep, values.get(prefix + "labels"), pad_token_id)
            read.by, read.real = str(key), each_of(keep.sum(-1).tolist())
            # Positions of rows that are padded on the left begin before the first real token.
            if listed is not None and bool(keep[:, 0].all()):
                _split_rows(listed, read)
            return keep
    if _by_ends(values, read) or _by_positions(listed, read):
        for lengths, row in zip(read.real or [], ids):
            del lengths[len(lengths) - _padding_at_end(lengths, row, pad_token_id) :]
    else:
        _by_lengths(values, shape, read)
    return None


def _without_tail(ids: Any, keep: Any, labels: Any, pad_token_id: int) -> Any:
    """Return what is real by a mask, without what LLaMA-Factory pads packed rows with, and marks as
    real since flash attention is faster so. One such token alone may end a text, if it is trained.
    """
    if pad_token_id not in ids[:, -1].tolist():  # as of most batches that are not packed
        return keep
    last = (ids[:, -1] == pad_token_id) & keep[:, -1]
    if not bool(last.any()):
        return keep
    is_pad = ids == pad_token_id
    is_padded = is_pad[:, -2:].sum(1) == 2
    if shape_of(labels) == shape_of(ids):
        is_padded = is_padded | (labels[:, -1] == IGNORED)
    tail = _flipped(_flipped(is_pad).cumprod(1) != 0)
    return keep & ~(tail & (last & is_padded)[:, None])


def _by_ends(values: Mapping[Any, Any], read: ReadBatch) -> bool:
    """Note the samples of one long row, whose ends a kernel is given; return whether there are."""
    # cu_seq_lens_q is transformers' name, of DataCollatorWithFlattening.
    for key in ("cu_seq_lens_q", "cu_seqlens", "cu_seq_lens"):
        if read.rows == 1 and values.get(key) is not None:
            ends = values[key].reshape(-1).tolist()
            read.by, read.real = key, [[b - a for a, b in zip(ends, ends[1:])]]
            return True
    return False


def _by_positions(positions: list[list[int]] | None, read: ReadBatch) -> bool:
    """Note the samples of rows whose positions begin again; return whether any do."""
    if positions is None or not any(row.count(0) > 1 for row in positions):
        # A padding-free collator that has a single sample: other batches tell, see `settle`.
        read.is_straight = positions == [list(range(read.width))]
        return False
    read.by, read.real = POSITIONS, each_of([read.width] * read.rows)
    _split_rows(positions, read)
    return True


def _padding_at_end(lengths: list[int], row: Any, pad_token_id: int | None) -> int:
    """Return how many of the samples at the end of a row are what pads it. TRL lets padding stand
    in position 0, so that each token looks like a sample; axolotl counts it from 0.
    """
    end, last = sum(lengths), lengths[-1]
    if last > 1:
        return int(len(lengths) > 1 and len(set(row[end - last : end].tolist())) == 1)
    number = next((i for i, length in enumerate(reversed(lengths)) if length != 1), 0)
    if not number:
        return 0
    tail = row[end - number : end].tolist()[::-1]
    alike = next((i for i, token in enumerate(tail) if token != tail[0]), number)
    return alike if alike > 1 or tail[0] == pad_token_id else 0


def _by_lengths(values: Mapping[Any, Any], shape: tuple[int, ...], read: ReadBatch) -> None:
    """Note the real tokens that lengths of rows tell, or of columns where these are the samples:
    recurrent networks of torch take them so unless they are told otherwise.
    """
    for key, value in values.items():
        if "len" not in str(key) or not is_whole(value):
            continue
        are_rows = shape_of(value) == shape[:1] and max(value.tolist()) <= shape[1]
        if are_rows or (shape_of(value) == shape[1:] and max(value.tolist()) <= shape[0]):
            read.by, read.real = str(key), each_of(value.tolist())
            if not are_rows:
                read.width, read.rows = shape
                read.widths = (read.width,)
            return


def _split_rows(positions: list[list[int]], read: ReadBatch) -> None:
    """Split rows into the samples whose positions begin again."""
    lengths_of_rows = []
    for (real,), row in zip(read.real or [], positions):
        begins = [0, *(place for place in range(1, real) if row[place] == 0)]
        lengths_of_rows.append([b - a for a, b in zip(begins, [*begins[1:], real])])
    read.real = lengths_of_rows


def end_of(row: list[int]) -> tuple[int, int]:
    """Return the last token of a row, and how often it stands there."""
    last = first = len(row) - 1
    while first and row[first - 1] == row[last]:
        first -= 1
    return row[last], last - first + 1
