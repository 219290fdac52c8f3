"""What a collated batch computes: its rows, its width, and what of each row is real and trained.

This file runs wherever a batch is: on the standard library and on what the batch itself is made of
(torch, NumPy or lists), in the grammar of Python 3.8. It imports nothing of batchstat, so that a
recorder can take it along into an environment that has none.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

IGNORED = -100
"""The label of a token without loss, in torch and transformers."""

TIME_MAJOR = "time-major"
NOTHING = "nothing"
"""What is said of token ids whose columns are the samples, and of those without any mask."""

POSITIONS = "position_ids"
"""What says which tokens are real where samples begin again in a row."""

GUESS = "a guess"
"""How what is said of a token that is taken for padding begins."""

_DEEPEST = 3
"""Mappings in sequences in mappings that are looked into."""
GUESSED = 0.25
"""Share of the rows that must end in a token before that is taken for padding."""
_NOT_TOKENS = ("label", "mask", "position", "type_ids", "len", "offset", "index", "idx", "target")
"""Parts of names that token ids do not have."""


class ReadBatch:
    """One forward pass.

    Attributes:
        rows: number of rows.
        width: tokens to which every row is padded; of an encoder and a decoder, both together.
        widths: the width of each of them.
        real: real tokens of each sample of each row; None where nothing says which are padding.
        trained: tokens that carry loss, of the same; None where that is not known.
        loss: how labels and tokens belong together: "shifted" by the model, "as they are", or
            "unknown".
        labelled: labels of each row that are not ignored; empty without labels of tokens.
        decoder: real tokens of each row in a decoder; None without one.
        by: what says which tokens are real.
        is_straight: whether it is one row whose positions count its tokens.
        ends: the last token of each row and how often it stands there in a row, where nothing says
            which are padding.
        trained_padding: tokens that are padding and carry loss.
    """

    def __init__(self, rows: int, width: int) -> None:
        """Start with what every batch has."""
        self.rows, self.width = rows, width
        self.widths: tuple[int, ...] = (width,)
        self.real: list[list[int]] | None = None
        self.trained: list[list[int]] | None = None
        self.labelled: list[int] = []
        self.decoder: list[int] | None = None
        self.is_straight = False
        self.ends: list[tuple[int, int]] = []
        self.loss, self.by, self.trained_padding = "unknown", NOTHING, 0


def read_batch(batch: Any, pad_token_id: int | None = None) -> ReadBatch | None:
    """Return what a collated batch computes; None if it holds no token ids.

    Args:
        batch: a mapping, a sequence, or token ids alone; of torch tensors, NumPy arrays or lists.
        pad_token_id: what pads where no mask says so; None where that is not known.
    """
    parts = [_part(*found, pad_token_id) for found in _tokens_of(batch)]
    if not parts:
        return None
    # Several in one batch, such as chosen and rejected answers, are computed together.
    return parts[0] if len(parts) == 1 else _joined(parts)


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
    always = count == len(ends) and min(run for _, run in ends) == 1
    if always or count < 2 or count < GUESSED * len(ends):
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
    if named is None or depth > _DEEPEST:
        return []
    ends = [key for key in named if isinstance(key, str) and key.endswith("input_ids")]
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
    """Return the values of a batch by their names; None if it has none."""
    if isinstance(batch, Mapping):
        return batch
    if hasattr(batch, "_asdict"):
        named: Mapping[Any, Any] = batch._asdict()
        return named
    if isinstance(batch, (list, tuple)):
        return dict(enumerate(batch))
    return vars(batch) if hasattr(batch, "__dict__") and not hasattr(batch, "shape") else None


def _is_ids(value: Any) -> bool:
    """Return whether a value is whole numbers in rows: token ids have two dimensions."""
    return len(_shape(value)) == 2 and _is_whole(value) and 0 not in _shape(value)


def _shape(value: Any) -> tuple[int, ...]:
    """Return the sizes of an array; () for anything else."""
    return tuple(int(each) for each in getattr(value, "shape", ()))


def _is_whole(value: Any) -> bool:
    """Return whether an array holds whole numbers, and not only true and false."""
    kind = getattr(getattr(value, "dtype", None), "kind", None)
    return kind in ("i", "u") if kind is not None else "int" in str(getattr(value, "dtype", ""))


# --- what is real --------------------------------------------------------------------------------
def _part(ids: Any, named: Mapping[Any, Any], prefix: str, pad_token_id: int | None) -> ReadBatch:
    """Return what one set of token ids computes."""
    made = ReadBatch(*_shape(ids))
    keep = _kept(ids, named, prefix, made)
    if made.by == NOTHING and pad_token_id is not None:
        keep = ids != pad_token_id
        made.by, made.real = "pad_token_id %d" % pad_token_id, _each(keep.sum(-1).tolist())
    elif made.by == NOTHING:
        made.ends = [_end_of(row) for row in ids.tolist()]
    _note_trained(ids, named, prefix, keep, made)
    return made


def _each(numbers: list[int]) -> list[list[int]]:
    """Return the numbers of rows that hold one sample."""
    return [[number] for number in numbers]


def _kept(ids: Any, named: Mapping[Any, Any], prefix: str, made: ReadBatch) -> Any:
    """Note the real tokens that a mask, lengths or positions tell; return which are, if that is
    known of each.
    """
    shape = _shape(ids)
    positions: Any = named.get(prefix + "position_ids")
    listed = positions.tolist() if _shape(positions) == shape else None
    masks = [(prefix + "attention_mask", True)]
    masks += [(key, False) for key in named if "padding_mask" in str(key)]
    for key, marks_real in masks:
        if _shape(named.get(key)) == shape:
            keep = named[key] != 0 if marks_real else named[key] == 0
            made.by, made.real = str(key), _each(keep.sum(-1).tolist())
            # Positions of rows that are padded on the left begin before the first real token.
            if listed is not None and bool(keep[:, 0].all()):
                _split_rows(listed, made)
            return keep
    if not _by_ends(named, made) and not _by_positions(listed, made):
        _by_lengths(named, shape, made)
    return None


def _by_ends(named: Mapping[Any, Any], made: ReadBatch) -> bool:
    """Note the samples of one long row, whose ends a kernel is given; return whether there are."""
    for key in ("cu_seq_lens_q", "cu_seqlens", "cu_seq_lens"):
        if made.rows == 1 and named.get(key) is not None:
            ends = named[key].reshape(-1).tolist()
            made.by, made.real = key, [[b - a for a, b in zip(ends, ends[1:])]]
            return True
    return False


def _by_positions(positions: list[list[int]] | None, made: ReadBatch) -> bool:
    """Note the samples of rows whose positions begin again; return whether any do."""
    if positions is None or not any(row.count(0) > 1 for row in positions):
        made.is_straight = positions == [list(range(made.width))]
        return False
    made.by, made.real = POSITIONS, _each([made.width] * made.rows)
    _split_rows(positions, made)
    return True


def _by_lengths(named: Mapping[Any, Any], shape: tuple[int, ...], made: ReadBatch) -> None:
    """Note the real tokens that lengths of rows tell, or that the lengths are of columns."""
    for key, value in named.items():
        if "len" not in str(key) or not _is_whole(value):
            continue
        if _shape(value) == shape[:1] and max(value.tolist()) <= shape[1]:
            made.by, made.real = str(key), _each(value.tolist())
            return
        if _shape(value) == shape[1:]:
            made.by = TIME_MAJOR
            return


def _split_rows(positions: list[list[int]], made: ReadBatch) -> None:
    """Split rows into the samples whose positions begin again."""
    found = []
    for (real,), row in zip(made.real or [], positions):
        begins = [0, *(place for place in range(1, real) if row[place] == 0)]
        found.append([b - a for a, b in zip(begins, [*begins[1:], real])])
    made.real = found


def _end_of(row: list[int]) -> tuple[int, int]:
    """Return the last token of a row, and how often it stands there."""
    last = first = len(row) - 1
    while first and row[first - 1] == row[last]:
        first -= 1
    return row[last], last - first + 1


# --- what is trained -----------------------------------------------------------------------------
def _note_trained(
    ids: Any, named: Mapping[Any, Any], prefix: str, keep: Any, made: ReadBatch
) -> None:
    """Note the tokens that carry loss, and the width of a decoder."""
    labels: Any = named.get(prefix + "labels", named.get("labels"))
    shape = _shape(labels)
    if len(shape) != 2 or shape[0] != made.rows or not _is_whole(labels):
        return
    made.labelled = (labels != IGNORED).sum(-1).tolist()
    if shape != _shape(ids) or "decoder_input_ids" in named:
        mask: Any = named.get("decoder_attention_mask")
        real = made.labelled if _shape(mask) != shape else (mask != 0).sum(-1).tolist()
        _set_decoder(made, shape[1], made.labelled, real)
        return
    # A causal model is given its own tokens as labels, and shifts them by itself; where labels are
    # others, they stand where they are predicted.
    is_copy = bool(((labels == IGNORED) | (labels == ids)).all())
    made.loss = "shifted" if is_copy else "as they are"
    first = 1 if is_copy else 0
    has_loss = labels[:, first:] != IGNORED
    made.trained = _trained_of(has_loss, first, made)
    if keep is not None:
        made.trained_padding = int((has_loss & ~keep[:, first:]).sum())


def _trained_of(has_loss: Any, first: int, made: ReadBatch) -> list[list[int]]:
    """Return the tokens that carry loss of each sample, given which do from the `first` one on."""
    if made.real is None or all(len(row) == 1 for row in made.real):
        return _each(has_loss.sum(-1).tolist())
    found = []
    for lengths, row in zip(made.real, has_loss.tolist()):
        stop, counts = 0, []
        for length in lengths:
            start, stop = stop, stop + length
            counts.append(sum(row[max(start - first, 0) : stop - first]))
        found.append(counts)
    return found


def _set_decoder(made: ReadBatch, width: int, trained: list[int], real: list[int]) -> None:
    """Take the labels of a batch for those of a decoder of its own."""
    made.trained, made.loss, made.trained_padding = _each(trained), "as they are", 0
    made.widths, made.width = (made.width, width), made.width + width
    made.decoder = real
    _add_decoder(made, real)


def _add_decoder(made: ReadBatch, decoder: list[int]) -> None:
    """Add what is real in a decoder to what is in the encoder of the same row."""
    if made.real is not None:
        made.real = [[row[0] + more] for row, more in zip(made.real, decoder)]


def _joined(parts: list[ReadBatch]) -> ReadBatch:
    """Return one batch of several that are computed together."""
    made = ReadBatch(sum(each.rows for each in parts), max(each.width for each in parts))
    if all(each.real is not None for each in parts):
        made.real = [row for each in parts for row in each.real or ()]
    if all(each.trained is not None for each in parts):
        made.trained = [row for each in parts for row in each.trained or ()]
    made.loss, made.by = parts[0].loss, parts[0].by
    made.trained_padding = sum(each.trained_padding for each in parts)
    return made
