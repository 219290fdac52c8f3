"""What a collated batch computes: its rows, its width, and what of each row is real and trained.

A batch is made of torch tensors, NumPy arrays or lists, which are read by what they have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .arguments import MOST_DEPTH, values_by_name
from .padding import at_ends, end_of, real_of
from .read_batches import IGNORED, NOTHING, POSITIONS, ReadBatch, each_of, is_whole, shape_of

GUESS = "a guess"
"""How what is said of a token that is taken for padding begins."""

GUESSED = 0.25
"""Share of the rows that must end in a token before that is taken for padding."""
_NOT_TOKENS = ("label", "mask", "position", "type_ids", "len", "offset", "_index", "_idx", "target")
"""Parts of names that token ids do not have; nanoGPT and others call them `idx`."""


def read_batch(batch: Any, pad_token_id: int | None = None) -> ReadBatch | None:
    """Return what a collated batch computes; None if it holds no token ids.

    Args:
        batch: a mapping, a sequence, or token ids alone; of torch tensors, NumPy arrays or lists.
        pad_token_id: what pads where no mask says so; None where that is not known.
    """
    parts = read_parts(batch, pad_token_id)
    if not parts:
        return None
    # Several in one batch, such as chosen and rejected answers, are computed together.
    return parts[0] if len(parts) == 1 else _joined(parts)


def read_parts(
    batch: Any, pad_token_id: int | None = None, has_decoder: bool | None = None
) -> list[ReadBatch]:
    """Return what each set of token ids in a batch computes, each at a width of its own.

    Args:
        batch: as of `read_batch`.
        pad_token_id: likewise.
        has_decoder: whether labels of another width are those of a decoder; None where that is not
            known, and they are taken for that.
    """
    return [_part(*found, pad_token_id, has_decoder) for found in _tokens_of(batch)]


def token_ids(batch: Any) -> Any:
    """Return the token ids of a collated batch, the first of several; None if it holds none."""
    parts = _tokens_of(batch)
    return parts[0][0] if parts else None


def settle(batches: Iterable[ReadBatch], has_decoder: bool = False) -> None:
    """Settle what a batch does not say by itself, but others that belong to it do.

    Args:
        batches: of one loader.
        has_decoder: whether the model is known to have an encoder and a decoder.
    """
    batches = list(batches)
    if any(batch.by == POSITIONS for batch in batches):
        # Where others hold several samples in a row, this one holds a single one.
        for batch in batches:
            if batch.is_straight:
                batch.by, batch.real, batch.ends = POSITIONS, [[batch.width]], []
    _guess_padding(batches)
    if has_decoder or any(len(batch.widths) > 1 for batch in batches):
        # The widths of both may be equal by chance, or since both are padded to the same.
        for batch in batches:
            if len(batch.widths) == 1 and batch.labelled:
                _set_decoder(batch, batch.width, batch.labelled, batch.labelled)


def _guess_padding(batches: list[ReadBatch]) -> None:
    """Take for padding, where no batch says what is, the token that a quarter of the rows end in.

    A text may end in a token too. One that ends every row is taken for padding only if it always
    stands there more than once.
    """
    unknown = [batch for batch in batches if batch.ends]
    ends = [end for batch in unknown for end in batch.ends]
    if not ends:
        return
    counts: Counter[int] = Counter()
    for last, run in ends:
        counts[last] += run
    token = counts.most_common(1)[0][0]
    count = sum(last == token for last, _ in ends)
    runs = [run for last, run in ends if last == token]
    always = count == len(ends) and min(runs) == 1
    # Rows of equal length may end in a frequent token, such as a space, once each.
    if always or max(runs) == 1 or count < 2 or count < GUESSED * len(ends):
        return
    for batch in unknown:
        batch.by = "%s: token %d, in which %d of %d rows end" % (GUESS, token, count, len(ends))
        runs = [run if last == token else 0 for last, run in batch.ends]
        batch.real = [[batch.widths[0] - run] for run in runs]
        if batch.decoder is not None:
            _add_decoder(batch, batch.decoder)


# --- token ids -----------------------------------------------------------------------------------
def _tokens_of(batch: Any, depth: int = 0) -> list[tuple[Any, Mapping[Any, Any], str]]:
    """Return (ids, names, prefix) of each set of token ids in a batch."""
    if _is_ids(batch):
        return [(batch, {}, "")]
    named = _named(batch)
    if named is None or depth > MOST_DEPTH:
        return []
    ends = [key for key in named if isinstance(key, str) and key.endswith("input_ids")]
    # What a decoder is given are the labels moved by one, and no samples of their own.
    ends = [key for key in ends if _is_ids(named[key]) and not key.startswith("decoder_")]
    if "input_ids" in ends:
        ends = ["input_ids"]
    if ends:
        return [(named[key], named, key[: -len("input_ids")]) for key in ends]
    nested = []
    for value in named.values():
        if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and not _is_ids(value)):
            nested += _tokens_of(value, depth + 1)
    flat = [
        value
        for key, value in named.items()
        if _is_ids(value) and not any(part in str(key) for part in _NOT_TOKENS)
    ]
    return [(flat[0], named, "")] if flat else nested


def _named(batch: Any) -> Mapping[Any, Any] | None:
    """Return the values of a batch by their names or places; None if it has none."""
    named = values_by_name(batch)
    if named is not None:
        return named
    if isinstance(batch, (list, tuple)):
        return dict(enumerate(batch))
    return vars(batch) if hasattr(batch, "__dict__") and not hasattr(batch, "shape") else None


def _is_ids(value: Any) -> bool:
    """Return whether a value is whole numbers in rows: token ids have two dimensions."""
    shape = shape_of(value)
    return len(shape) == 2 and 0 not in shape and is_whole(value)


# --- one set of token ids -------------------------------------------------------------------------
def _part(
    ids: Any,
    values: Mapping[Any, Any],
    prefix: str,
    pad_token_id: int | None,
    has_decoder: bool | None,
) -> ReadBatch:
    """Return what one set of token ids computes."""
    read = ReadBatch(*shape_of(ids))
    keep = real_of(ids, values, prefix, read, pad_token_id)
    if read.by == NOTHING and pad_token_id is not None:
        keep = ~at_ends(ids == pad_token_id)
        read.by, read.real = "pad_token_id %d" % pad_token_id, each_of(keep.sum(-1).tolist())
    elif read.by == NOTHING:
        read.ends = [end_of(row) for row in ids.tolist()]
    labels = values.get(prefix + "labels", values.get("labels"))
    if read.rows != shape_of(ids)[0]:  # columns are samples
        labels = labels.T if shape_of(labels) == shape_of(ids) else None
        ids = ids.T
    read.ids, read.keep = ids, keep
    if has_decoder is False and _is_ids(labels) and labels.shape[1] < read.width:
        labels = _at_right(labels, ids)  # of the last logits alone, which `logits_to_keep` keeps
    _note_trained(ids, values, labels, keep, read)
    return read


def _at_right(labels: Any, ids: Any) -> Any:
    """Return labels as wide as the ids, whose last tokens they belong to."""
    wide = ids.clone() if hasattr(ids, "clone") else ids.copy()
    wide[:] = IGNORED
    wide[:, wide.shape[1] - labels.shape[1] :] = labels
    return wide


# --- what is trained -----------------------------------------------------------------------------
def _note_trained(
    ids: Any, values: Mapping[Any, Any], labels: Any, keep: Any, read: ReadBatch
) -> None:
    """Note the tokens that carry loss, and the width of a decoder."""
    if labels is None and shape_of(values.get("completion_mask")) == shape_of(ids):
        # TRL's trainers of preferences make labels of it where they compute the loss.
        has_loss = values["completion_mask"] != 0
        read.labelled, read.loss = has_loss.sum(-1).tolist(), "shifted"
        _set_trained(has_loss, keep, read)
        return
    shape = shape_of(labels)
    # Labels of rows, as of a classification, or scores are not labels of tokens.
    if len(shape) != 2 or shape[0] != read.rows or not is_whole(labels):
        return
    has_loss = labels != IGNORED
    read.labelled = has_loss.sum(-1).tolist()
    if shape != shape_of(ids) or "decoder_input_ids" in values:
        mask: Any = values.get("decoder_attention_mask")
        real = read.labelled if shape_of(mask) != shape else (mask != 0).sum(-1).tolist()
        _set_decoder(read, shape[1], read.labelled, real)
        return
    # A causal model is given its own tokens as labels, and shifts them by itself; where labels are
    # others, they stand where they are predicted.
    is_copy = not bool((has_loss & (labels != ids)).any())
    read.loss = "shifted" if is_copy else "as they are"
    _set_trained(has_loss, keep, read)


def _set_trained(has_loss: Any, keep: Any, read: ReadBatch) -> None:
    """Note the tokens that carry loss of each sample, and how many of them are padding; nothing
    predicts the first one of a row whose labels the model shifts.
    """
    firsts = has_loss[:, 0].tolist() if read.loss == "shifted" else [False] * read.rows
    read.trained = _trained_of(has_loss, firsts, read)
    if keep is not None:
        wasted = has_loss > keep
        if bool(wasted.any()):  # most often there are none
            first_wasted = int(wasted[:, 0].sum()) if read.loss == "shifted" else 0
            read.trained_padding = int(wasted.sum()) - first_wasted


def _trained_of(has_loss: Any, firsts: list[bool], read: ReadBatch) -> list[list[int]]:
    """Return the tokens that carry loss of each sample."""
    if read.real is None or all(len(row) == 1 for row in read.real):
        return each_of([number - first for number, first in zip(read.labelled, firsts)])
    trained = []
    for lengths, first, row in zip(read.real, firsts, has_loss.tolist()):
        stop, counts = 0, []
        for length in lengths:
            start, stop = stop, stop + length
            counts.append(sum(row[start:stop]))
        if counts:
            counts[0] -= first
        trained.append(counts)
    return trained


def _set_decoder(read: ReadBatch, width: int, trained: list[int], real: list[int]) -> None:
    """Take the labels of a batch for those of a decoder of its own."""
    read.trained, read.loss, read.trained_padding = each_of(trained), "as they are", 0
    read.widths, read.width = (read.width, width), read.width + width
    read.decoder = real
    _add_decoder(read, real)


def _add_decoder(read: ReadBatch, decoder: list[int]) -> None:
    """Add what is real in a decoder to what is in the encoder of the same row."""
    if read.real is not None:
        read.real = [[row[0] + more] for row, more in zip(read.real, decoder)]


def _joined(parts: list[ReadBatch]) -> ReadBatch:
    """Return one batch of several that are computed together."""
    joined = ReadBatch(sum(each.rows for each in parts), max(each.width for each in parts))
    if all(each.real is not None for each in parts):
        joined.real = [row for each in parts for row in each.real or ()]
    if all(each.trained is not None for each in parts):
        joined.trained = [row for each in parts for row in each.trained or ()]
    joined.loss, joined.by = parts[0].loss, parts[0].by
    joined.trained_padding = sum(each.trained_padding for each in parts)
    return joined
