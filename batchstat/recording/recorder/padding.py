"""What of a batch is padding, as its mask, its positions, its lengths or a padding id say. Arrays
are NumPy's or tensors of torch: what is done with them here both can do.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import takewhile
from typing import Any

from .read_batches import IGNORED, POSITIONS, ReadBatch, is_whole, samples_of, shape_of

# Offsets of samples, as kernels of flash attention take them; first that of transformers.
_OFFSETS = ("cu_seq_lens_q", "cu_seqlens", "cu_seq_lens")
# How names of masks begin that are of other tokens, or of what carries loss.
_OTHER_MASKS = ("decoder", "special", "loss", "completion", "prompt", "assistant")


def marks_at_ends(marks: Any) -> Any:
    """Return (n_rows, width) the marks in an unbroken run from the beginning or to the end of their
    row: `1 0 1 0 1 1` -> `1 0 0 0 1 1`. So padding is told from the same token inside a text.
    """
    # The product of marks from the beginning of the row is not 0 until the first that is unset.
    return (marks.cumprod(1) != 0) | marks_at_right_end(marks)


def marks_at_right_end(marks: Any) -> Any:
    """Return (n_rows, width) the marks in an unbroken run to the end of their row."""
    n_unset = (~marks).cumsum(1)  # up to each place
    return marks & (n_unset == n_unset[:, -1:])


def real_by(name: Any, mask: Any, ids: Any) -> Any:
    """Return (n_rows, width) which tokens are real by an array; None where it marks no padding."""
    if "mask" not in str(name) or shape_of(mask) != shape_of(ids):
        return None
    # An attention_mask of transformers marks real tokens. A padding mask, such as
    # src_key_padding_mask of torch's Transformer, marks padding.
    if name == "attention_mask":
        return mask != 0
    if "padding_mask" in str(name):
        return mask == 0
    # Others, as `mask`, may mark either, or what is predicted: padding is one token, at row ends.
    if str(name).startswith(_OTHER_MASKS) or not bool(((mask == 0) | (mask == 1)).all()):
        return None
    for mark in (1, 0) if "pad" in str(name) else (0, 1):
        is_padding = mask == mark
        is_at_ends = bool((marks_at_ends(is_padding) == is_padding).all())
        if is_at_ends and len(set(ids[is_padding].reshape(-1).tolist())) < 2:
            return ~is_padding
    return None


def note_real(batch: ReadBatch, values: Mapping[Any, Any], pad_token_id: int | None) -> None:
    """Note in `batch` its real tokens by what belongs to its token ids: a mask, or else offsets,
    positions or lengths. `pad_token_id` is the id that pads, if it is known.
    """
    ids, labels = batch.ids, values.get("labels")
    shape, positions = shape_of(ids), values.get("position_ids")
    # A list of positions for each row; None where there are none, or of another shape.
    positions_of_rows = values[POSITIONS].tolist() if shape_of(positions) == shape else None
    # First the masks whose names say what they mark.
    for name in sorted(
        values, key=lambda name: (name != "attention_mask", "padding" not in str(name))
    ):
        real_mask = real_by(name, values[name], ids)
        if real_mask is None:
            continue
        if pad_token_id is not None:
            real_mask = _without_padding_at_end(ids, real_mask, labels, pad_token_id)
        batch.real_mask = real_mask
        batch.padding_source, batch.real = str(name), samples_of(real_mask.sum(-1).tolist())
        # The positions of packed rows tell the samples. Not where a row is padded on the left:
        # there they count the padding as well.
        begins_or_is_empty = real_mask[:, 0] | ~real_mask.any(1)
        if positions_of_rows is not None and bool(begins_or_is_empty.all()):
            _split_rows(positions_of_rows, batch)
        return
    if _note_offsets(values, batch) or _note_positions(positions_of_rows, batch):
        # The padding at the end of a packed row looks like samples, which are deleted.
        ignored: Any = labels == IGNORED if shape_of(labels) == shape else [None] * batch.rows
        for lengths, row, without_loss in zip(batch.real or [], ids, ignored):
            padding = _count_padding_samples(lengths, row, without_loss, batch, pad_token_id)
            del lengths[len(lengths) - padding :]
        return
    for name, lengths in values.items():
        if are_lengths(name, lengths, *shape):
            batch.padding_source, batch.real = str(name), samples_of(lengths.tolist())
            return


def _without_padding_at_end(ids: Any, real_mask: Any, labels: Any, pad_token_id: int) -> Any:
    """Return a mask in which the padding at the end of rows, that it called real, is not real."""
    # LLaMA-Factory marks all tokens of packed rows as real, since flash attention is then faster. A
    # single padding token at the end of a row may also be the end of a text: it is taken for
    # padding only if its label is ignored.
    # (n_rows,) whether the last token of each row pads, and the mask calls it real.
    ends_in_pad = (ids[:, -1] == pad_token_id) & real_mask[:, -1]
    if not bool(ends_in_pad.any()):  # as of most batches that are not packed
        return real_mask
    is_pad = ids == pad_token_id  # (n_rows, width)
    is_padded = is_pad[:, -2:].sum(1) == 2  # (n_rows,) the last two tokens pad
    if shape_of(labels) == shape_of(ids):
        is_padded = is_padded | (labels[:, -1] == IGNORED)
    called_real = marks_at_right_end(is_pad) & (ends_in_pad & is_padded)[:, None]
    return real_mask & ~called_real


def _note_offsets(values: Mapping[Any, Any], batch: ReadBatch) -> bool:
    """Note the samples of a packed row by the offsets that kernels of flash attention are given:
    `[0, 3, 8]` is samples of 3 and 5 tokens. Return whether the batch has such offsets.
    """
    for name in _OFFSETS:
        has_name = batch.rows == 1 and values.get(name) is not None
        offsets = values[name].reshape(-1).tolist() if has_name else []
        if len(offsets) > 1:  # a single offset is the begin of no sample
            batch.padding_source = name
            batch.real = [[stop - start for start, stop in zip(offsets, offsets[1:])]]
            return True
    return False


def _note_positions(positions: list[list[int]] | None, batch: ReadBatch) -> bool:
    """Note the samples of packed rows, which begin at position 0: `0 1 2 0 1` is samples of 3 and 2
    tokens. Return whether any row has several.
    """
    if positions is None or not any(row.count(0) > 1 for row in positions):
        # Of a padding-free batch of a single sample, or of a padded row: `settle` knows.
        batch.is_straight = positions == [list(range(batch.width))]
        return False
    # At first a sample that fills each row, which is then split.
    batch.padding_source, batch.real = POSITIONS, [[batch.width]] * batch.rows
    _split_rows(positions, batch)
    return True


def _count_padding_samples(
    lengths: list[int], row: Any, ignored: Any, batch: ReadBatch, pad_token_id: int | None
) -> int:
    """Return how many samples at the end of a packed row are no samples, but padding. `ignored` is
    which of its tokens have labels without loss; None without labels.
    """
    end = sum(lengths)
    # axolotl numbers the positions of all padding from 0, so that it looks like one longer sample:
    # the last, which repeats the token that pads, or any without loss, and is not alone in its row.
    if lengths[-1] > 1:
        start = end - lengths[-1]
        tokens_of_last = set(row[start:end].tolist())
        pads = tokens_of_last == {pad_token_id} or (
            ignored is not None and bool(ignored[start:end].all())
        )
        return 1 if len(lengths) > 1 and len(tokens_of_last) == 1 and pads else 0
    # TRL gives every padding token position 0, so that each looks like a sample of one token: those
    # at the end of the row, as far as they are equal.
    _, n_singles = last_run_of(lengths)
    # A row is not padding alone, and a sample without a token does not pad.
    if n_singles == len(lengths) or lengths[-1] == 0:
        return 0
    token, n_equal = last_run_of(row[end - n_singles : end].tolist())
    # A single token may be a text of one token, unless it is the one that pads; offsets name it.
    is_told = token == pad_token_id or (n_equal > 1 and batch.padding_source == POSITIONS)
    return n_equal if is_told else 0


def are_lengths(name: Any, lengths: Any, n_samples: int, most: int) -> bool:
    """Return whether an array is the lengths of samples of at most so many tokens."""
    if "len" not in str(name) or name in _OFFSETS or not is_whole(lengths):
        return False
    return shape_of(lengths) == (n_samples,) and max(lengths.tolist()) <= most


def _split_rows(positions: list[list[int]], batch: ReadBatch) -> None:
    """Split the real tokens of each row into samples, which begin where the position is 0 again."""
    lengths_of_rows = []
    for lengths, row in zip(batch.real or [], positions):
        real_tokens = sum(lengths)
        # Where each sample begins, the first at place 0 whatever its position is; and the end.
        edges = [0, *(place for place in range(1, real_tokens) if row[place] == 0), real_tokens]
        lengths_of_rows.append([stop - start for start, stop in zip(edges, edges[1:]) if lengths])
    batch.real = lengths_of_rows


def last_run_of(row: list[int]) -> tuple[int, int]:
    """Return the last number of a row, and how often it repeats there: `5 7 2 2` -> `(2, 2)`."""
    run = takewhile(lambda each: each == row[-1], reversed(row))
    return row[-1], len([*run])
