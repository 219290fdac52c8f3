"""What of a batch is padding, as its mask, its positions, its lengths or a padding id say.

Arrays are NumPy's or tensors of torch: what is done with them here both can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .read_batches import IGNORED, POSITIONS, ReadBatch, each_of, is_whole, shape_of


def at_ends(marks: Any) -> Any:
    """Return the marks that are set at the beginning or the end of a row without a gap, as those of
    padding: `0 1 0 1 1` -> `0 0 0 1 1`. A token that pads may also stand inside a text.

    Args:
        marks: (n_rows, width) which tokens are the one that pads.
    """
    # The product of all marks from the beginning of the row: not 0 until the first that is unset.
    return (marks.cumprod(1) != 0) | _flipped(_flipped(marks).cumprod(1) != 0)


def _flipped(marks: Any) -> Any:
    # A tensor of torch takes no negative steps; an array of NumPy has no method `flip`.
    return marks.flip(1) if hasattr(marks, "flip") else marks[:, ::-1]


def real_of(
    ids: Any, values: Mapping[Any, Any], prefix: str, read: ReadBatch, pad_token_id: int | None
) -> Any:
    """Note in `read` the real tokens of each sample, as a mask, positions or lengths tell them.

    Args:
        ids: (n_rows, width) token ids.
        values: all of the batch by name, where the mask and the like are.
        prefix: of the names that belong to these ids, such as "chosen_".
        read: gets `real` and `by`, if anything tells them.
        pad_token_id: the id that pads; None where it is not known.

    Returns:
        (n_rows, width) which tokens are real, by a mask; None without one.
    """
    shape = shape_of(ids)
    positions: Any = values.get(prefix + "position_ids")
    # A list of positions for each row; None where there are none, or of another shape.
    positions_of_rows = positions.tolist() if shape_of(positions) == shape else None
    # (name, whether it marks real tokens): an attention_mask of transformers does; a padding mask,
    # such as src_key_padding_mask of torch's Transformer, marks padding.
    masks = [(prefix + "attention_mask", True)]
    masks += [(key, False) for key in values if "padding_mask" in str(key)]
    for key, marks_real in masks:
        if shape_of(values.get(key)) == shape:
            keep = values[key] != 0 if marks_real else values[key] == 0
            if pad_token_id is not None:  # LLaMA-Factory marks the padding of packed rows as real
                keep = _without_tail(ids, keep, values.get(prefix + "labels"), pad_token_id)
            read.by, read.real = str(key), each_of(keep.sum(-1).tolist())
            # Packed rows have a mask too, and their positions tell the samples. Not where a row is
            # padded on the left: there positions count the padding as well.
            if positions_of_rows is not None and bool(keep[:, 0].all()):
                _split_rows(positions_of_rows, read)
            return keep
    # Packed rows without a mask: what pads a row at its end looks like samples, which are deleted
    # from `read.real`.
    if _by_ends(values, read) or _by_positions(positions_of_rows, read):
        for lengths, row in zip(read.real or [], ids):
            del lengths[len(lengths) - _padding_at_end(lengths, row, pad_token_id) :]
    else:
        _by_lengths(values, shape, read)
    return None


def _without_tail(ids: Any, keep: Any, labels: Any, pad_token_id: int) -> Any:
    """Return a mask without the padding that it calls real at the end of rows.

    LLaMA-Factory pads packed rows so: flash attention is faster where all tokens are marked as
    real. A single padding token at the end may also be the end of a text; it is taken for padding
    only if its label is ignored.

    Args:
        ids: (n_rows, width) token ids.
        keep: (n_rows, width) which of them are real by the mask.
        labels: (n_rows, width) their labels; anything else where there are none.
        pad_token_id: the id that pads.
    """
    if pad_token_id not in ids[:, -1].tolist():  # as of most batches that are not packed
        return keep
    # Rows whose last token pads, but is real by the mask.
    ends_in_pad = (ids[:, -1] == pad_token_id) & keep[:, -1]
    if not bool(ends_in_pad.any()):
        return keep
    is_pad = ids == pad_token_id
    is_padded = is_pad[:, -2:].sum(1) == 2  # the last two tokens pad
    if shape_of(labels) == shape_of(ids):
        is_padded = is_padded | (labels[:, -1] == IGNORED)
    # Padding tokens at the end of each row, without a gap: not real where the row is padded.
    tail = _flipped(_flipped(is_pad).cumprod(1) != 0)
    return keep & ~(tail & (ends_in_pad & is_padded)[:, None])


def _by_ends(values: Mapping[Any, Any], read: ReadBatch) -> bool:
    """Note the samples of a packed row, as the offsets tell them that kernels of flash attention
    are given: `[0, 3, 8]` is samples of 3 and 5 tokens. Return whether there are any.
    """
    # cu_seq_lens_q is the name in transformers, of DataCollatorWithFlattening.
    for key in ("cu_seq_lens_q", "cu_seqlens", "cu_seq_lens"):
        if read.rows == 1 and values.get(key) is not None:
            offsets = values[key].reshape(-1).tolist()
            read.by, read.real = key, [[b - a for a, b in zip(offsets, offsets[1:])]]
            return True
    return False


def _by_positions(positions: list[list[int]] | None, read: ReadBatch) -> bool:
    """Note the samples of packed rows, each of which begins at position 0; return whether any row
    has several: `0 1 2 0 1` is samples of 3 and 2 tokens.
    """
    if positions is None or not any(row.count(0) > 1 for row in positions):
        # One row of positions 0, 1, 2, ... may be a padding-free batch that has a single sample, or
        # a padded row: the other batches tell which, in `settle`.
        read.is_straight = positions == [list(range(read.width))]
        return False
    # At first a sample that fills each row, which is then split.
    read.by, read.real = POSITIONS, each_of([read.width] * read.rows)
    _split_rows(positions, read)
    return True


def _padding_at_end(lengths: list[int], row: Any, pad_token_id: int | None) -> int:
    """Return how many of the last samples of a packed row are not samples, but its padding.

    TRL gives every padding token position 0, so that each looks like a sample of one token.
    axolotl counts positions of the padding from 0, so that all of it looks like one sample.

    Args:
        lengths: tokens of each sample of the row, by its positions.
        row: token ids of the row.
        pad_token_id: the id that pads; None where it is not known.
    """
    end, last_length = sum(lengths), lengths[-1]
    # axolotl's padding: the last sample, if it repeats one token and is not alone in its row.
    if last_length > 1:
        return int(len(lengths) > 1 and len(set(row[end - last_length : end].tolist())) == 1)
    # TRL's padding. `singles` samples at the end have one token each; of these, the last `same` are
    # the same token.
    singles = next((i for i, length in enumerate(reversed(lengths)) if length != 1), 0)
    if not singles:  # no sample of one token, or no other sample: a row is not padding alone
        return 0
    tail = row[end - singles : end].tolist()[::-1]
    same = next((i for i, token in enumerate(tail) if token != tail[0]), singles)
    # A single token may be a text of one token, unless it is the one that pads.
    return same if same > 1 or tail[0] == pad_token_id else 0


def _by_lengths(values: Mapping[Any, Any], shape: tuple[int, ...], read: ReadBatch) -> None:
    """Note the real tokens of each row that an array of lengths tells, such as "lengths" or
    "seq_len".

    Samples may be columns: recurrent networks of torch take them so by default (batch_first=False).
    Then `read` gets the sizes of the array the other way round.
    """
    for key, value in values.items():
        if "len" not in str(key) or not is_whole(value):
            continue
        # A length for each row, none above the number of columns; or the other way round.
        are_rows = shape_of(value) == shape[:1] and max(value.tolist()) <= shape[1]
        if are_rows or (shape_of(value) == shape[1:] and max(value.tolist()) <= shape[0]):
            read.by, read.real = str(key), each_of(value.tolist())
            if not are_rows:  # a column is a sample: `shape` is (width, number of samples)
                read.width, read.rows = shape
                read.widths = (read.width,)
            return


def _split_rows(positions: list[list[int]], read: ReadBatch) -> None:
    """Split the real tokens of each row into samples, which begin where the position is 0 again.

    `read.real` has one number for each row until then.
    """
    lengths_of_rows = []
    for (real_tokens,), row in zip(read.real or [], positions):
        # The place where each sample begins; place 0 begins one whatever its position is.
        starts = [0, *(place for place in range(1, real_tokens) if row[place] == 0)]
        lengths_of_rows.append([b - a for a, b in zip(starts, [*starts[1:], real_tokens])])
    read.real = lengths_of_rows


def end_of(row: list[int]) -> tuple[int, int]:
    """Return the last token of a row, and how often it repeats there: `5 7 2 2` -> `(2, 2)`."""
    last = start = len(row) - 1
    while start and row[start - 1] == row[last]:
        start -= 1
    return row[last], last - start + 1
