"""What a collated batch computes: its rows, its width, and what of each row is real and trained."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from itertools import accumulate
from typing import Any

from .padding import are_lengths, last_run_of, marks_at_ends, marks_at_right_end, note_real, real_by
from .read_batches import (
    IGNORED,
    NOTHING,
    POSITIONS,
    ReadBatch,
    is_whole,
    samples_of,
    shape_of,
    single_samples,
)
from .token_ids import IdsSet, Inside, is_ids, sets_of_ids

GUESS = "a guess"
"""How `ReadBatch.padding_source` begins where padding was guessed by the ends of rows."""
GUESSED = 0.25  # share of the rows that must end in one token before it is taken for padding
_NEITHER_WAY = (
    "nothing tells whether samples are the rows or the columns of token ids: give the model a "
    "padding mask of (batch, length), or their lengths"
)
_BOTH_WAYS = (
    "by some modules, masks or lengths samples are the rows of token ids, by others the columns: "
    "give all modules the same batch_first"
)


def read_batch(batch: Any, pad_token_id: int | None = None) -> ReadBatch | None:
    """Return what a collated batch (a mapping, a sequence, or token ids alone; of torch tensors,
    NumPy arrays or lists) computes; None if it holds no token ids. `pad_token_id`, where known, is
    the id that pads where no mask tells padding.
    """
    parts = read_parts(batch, pad_token_id)
    # Several sets of ids, such as the chosen and rejected answers of DPO, are computed together.
    return _joined(parts) if len(parts) > 1 else next(iter(parts), None)


def read_parts(
    batch: Any,
    pad_token_id: int | None = None,
    has_decoder: bool | None = None,
    inside: Inside | None = None,
) -> list[ReadBatch]:
    """Return what each set of token ids in a batch, as of `read_batch`, computes, each at a width
    of its own. Where it is not known whether the model has a decoder, labels of another width are
    those of one. `inside` is what was seen in the model, and gets what arrays tell.
    """
    inside = Inside([]) if inside is None else inside
    parts: list[ReadBatch] = []
    for ids_set in sets_of_ids(batch, inside):
        pad = pad_token_id
        if ids_set.is_decoder and pad is None:
            pad = _padding_under(parts[0])
        part = _read_ids(ids_set, pad, has_decoder, inside)
        if ids_set.is_decoder and part.rows == parts[0].rows:
            _join_decoder(parts[0], part)
        else:
            parts.append(part)
    return parts


def token_ids(batch: Any) -> Any:
    """Return the token ids of a collated batch, the first of several; None if it holds none."""
    sets = sets_of_ids(batch, Inside([]))
    return sets[0].ids if sets else None


def settle(batches: Iterable[ReadBatch], has_decoder: bool = False) -> None:
    """Note in each batch what only all batches of its loader together tell: whether positions mark
    samples, which token pads, and whether there is a decoder where `has_decoder` is false.
    """
    batches = list(batches)
    # Several samples in some rows; or a single one in each, of its own length, as of one row.
    has_positions = any(batch.padding_source == POSITIONS for batch in batches) or (
        all(batch.is_straight for batch in batches) and len({each.width for each in batches}) > 1
    )
    for batch in batches:
        if has_positions and batch.is_straight:  # here that is one sample without padding
            batch.padding_source, batch.real, batch.ends = POSITIONS, [[batch.width]], []
    _guess_padding(batches)
    has_decoder = has_decoder or any(len(batch.widths) > 1 for batch in batches)
    for batch in batches:
        # Where ids and labels are equally wide, the batch alone did not show whose labels they are.
        if has_decoder and len(batch.widths) == 1 and batch.labelled:
            _set_decoder(batch, batch.width, real=None)


def _guess_padding(batches: list[ReadBatch]) -> None:
    """Note the real tokens of batches that do not tell their padding, by the token that their rows
    end in most, if it is likely enough that this pads.
    """
    unknown = [batch for batch in batches if batch.ends]
    ends = [end for batch in unknown for end in batch.ends]
    if not ends:
        return
    # Counted as often as they repeat: padding repeats, the end of a text does not.
    counts: Counter[int] = Counter()
    for last, repeats in ends:
        counts[last] += repeats
    token = counts.most_common(1)[0][0]
    repeats_of_token = [repeats for last, repeats in ends if last == token]
    n_padded = len(repeats_of_token)  # rows that end in the token
    # Every row ends in it, most in one alone: it ends texts, as <eos> does. Rows that are padded
    # beyond the longest text end in it too, and a text that is one token shorter in one alone.
    n_repeated = sum(repeats > 1 for repeats in repeats_of_token)
    ends_texts = n_padded == len(ends) and n_repeated < GUESSED * len(ends)
    # Rows of equal length may end in a frequent token, such as a space, once each.
    if ends_texts or max(repeats_of_token) == 1 or n_padded < max(2, GUESSED * len(ends)):
        return
    source = f"{GUESS}: token {token}, in which {n_padded} of {len(ends)} rows end"
    for batch in unknown:
        batch.padding_source = source
        # Of each row; then, of a decoder that has ids of its own, of each row of these.
        lengths = [
            batch.widths[place // batch.rows] - (count if last == token else 0)
            for place, (last, count) in enumerate(batch.ends)
        ]
        batch.real = single_samples(lengths[: batch.rows])
        batch.decoder = lengths[batch.rows :] or batch.decoder
        if batch.decoder is not None:
            _add_decoder(batch, batch.decoder)


def _read_ids(
    ids_set: IdsSet, pad_token_id: int | None, has_decoder: bool | None, inside: Inside
) -> ReadBatch:
    ids, values = ids_set.ids, ids_set.values
    told = _told_columns(ids, values, inside)
    # From here on samples are rows. What has the shape of the ids is turned with them.
    if told == {True}:
        shape, is_square = shape_of(ids), len(set(shape_of(ids))) == 1
        values = {
            # torch's Transformer takes a padding mask of (batch, length) whatever its ids are.
            name: value
            if shape_of(value) != shape or (is_square and "padding" in str(name))
            else value.T
            for name, value in values.items()
        }
        ids = ids.T
    batch = ReadBatch(*ids.shape)
    batch.ids, batch.doubt = ids, ids_set.doubt
    if len(told) > 1 or inside.is_doubtful:
        batch.doubt = _BOTH_WAYS
    elif not told and inside.takes_columns and "input_ids" not in values:
        batch.doubt = _NEITHER_WAY
    if batch.doubt:
        return batch
    note_real(batch, values, pad_token_id)
    if batch.padding_source == NOTHING and pad_token_id is not None:
        batch.real_mask = ~marks_at_ends(ids == pad_token_id)
        batch.padding_source = "pad_token_id %d" % pad_token_id
        batch.real = samples_of(batch.real_mask.sum(-1).tolist())
    elif batch.padding_source == NOTHING:  # `settle` guesses by how the rows of all batches end
        batch.ends = [last_run_of(row) for row in ids.tolist()]
    _note_labels(batch, values, has_decoder, pad_token_id)
    return batch


def _told_columns(ids: Any, values: Mapping[Any, Any], inside: Inside) -> set[bool]:
    """Return whether samples are the columns of token ids, as nn.LSTM takes them by default, by
    modules, lengths and masks; both answers, where these contradict each other.
    """
    rows, width = shape_of(ids)
    told = set() if inside.columns is None else {inside.columns}
    for name, value in values.items() if rows != width else ():
        if are_lengths(name, value, rows, width):
            told.add(False)
        elif are_lengths(name, value, width, rows) or real_by(name, value, ids.T) is not None:
            told.add(True)
    if len(told) == 1:  # for batches without such a mask, and square ones
        [inside.columns] = told
    return told


def _padding_under(batch: ReadBatch) -> int | None:
    mask: Any = batch.real_mask
    tokens = set() if mask is None else set(batch.ids[~mask].reshape(-1).tolist())
    return tokens.pop() if len(tokens) == 1 else None


def _widened_to_left(labels: Any, ids: Any) -> Any:
    wide = ids.clone() if hasattr(ids, "clone") else ids.copy()  # torch or NumPy
    wide[:] = IGNORED
    wide[:, wide.shape[1] - labels.shape[1] :] = labels
    return wide


def _note_labels(
    batch: ReadBatch, values: Mapping[Any, Any], has_decoder: bool | None, pad_token_id: int | None
) -> None:
    """Note in `batch` which tokens carry loss, and the decoder whose labels they are, if any."""
    labels: Any = values.get("labels")
    # DPOTrainer and the like of TRL make labels of this mask where they compute the loss.
    if labels is None and shape_of(values.get("completion_mask")) == shape_of(batch.ids):
        has_loss = values["completion_mask"] != 0
        batch.labelled, batch.loss = has_loss.sum(-1).tolist(), "shifted"
        _note_trained(has_loss, batch)
        return
    # Labels of the last tokens only, where a model without a decoder computes no other logits:
    # `logits_to_keep` of transformers.
    if has_decoder is False and is_ids(labels) and labels.shape[1] < batch.width:
        labels = _widened_to_left(labels, batch.ids)
    shape = shape_of(labels)
    # No labels, or not of tokens: a classification has one for each row, a regression scores.
    if len(shape) != 2 or shape[0] != batch.rows or not is_whole(labels):
        batch.loss = "of rows" if shape[:1] == (batch.rows,) else batch.loss
        return
    has_loss = labels != IGNORED
    batch.labelled = has_loss.sum(-1).tolist()
    # A loop that ignores the padding of its labels has no other padding there.
    pad = _padding_under(batch) if pad_token_id is None else pad_token_id
    if pad is not None and bool(has_loss.all()):
        is_real = ~marks_at_right_end(labels == pad)
        if not bool(is_real.all()):
            batch.labelled_real = is_real.sum(-1).tolist()
    # Labels of another width are those of a decoder, as of T5.
    if has_decoder or shape != shape_of(batch.ids) or "decoder_input_ids" in values:
        mask: Any = values.get("decoder_attention_mask")
        real = (mask != 0).sum(-1).tolist() if shape_of(mask) == shape else None
        _set_decoder(batch, shape[1], real)
        return
    # A causal model of transformers is given its own tokens as labels, and shifts them. Where some
    # labels are other ids, as in masked language modelling, they stand where they are predicted.
    is_copy = not bool((has_loss & (labels != batch.ids)).any())
    batch.loss = "shifted" if is_copy else "as they are"
    _note_trained(has_loss, batch)


def _note_trained(has_loss: Any, batch: ReadBatch) -> None:
    """Note in `batch` how many tokens of each sample carry loss, and how many of padding do."""
    # Where the model shifts labels, nothing predicts the first token of a row.
    first = int(batch.loss == "shifted")
    if batch.real is None or all(len(row) < 2 for row in batch.real):
        trained = single_samples(has_loss[:, first:].sum(-1).tolist())
        batch.trained = [row if real else [] for row, real in zip(trained, batch.real or trained)]
    else:
        batch.trained = []
        for lengths, row in zip(batch.real, has_loss.tolist()):
            row[:first] = [False] * first
            stops = zip(accumulate(lengths), lengths)
            batch.trained.append([sum(row[stop - length : stop]) for stop, length in stops])
    if batch.real_mask is not None:
        batch.trained_padding = int((has_loss > batch.real_mask)[:, first:].sum())


def _set_decoder(batch: ReadBatch, width: int, real: list[int] | None) -> None:
    """Note that labels are those of a decoder. Its real tokens are those with labels that are not
    ignored, and no padding, if no mask tells them.
    """
    batch.decoder = real or batch.labelled_real or batch.labelled
    batch.trained_padding = sum(batch.labelled) - sum(batch.labelled_real or batch.labelled)
    # A row is computed at both widths: its tokens are those of the encoder and of the decoder.
    batch.widths, batch.width = (batch.width, width), batch.width + width
    batch.trained, batch.loss = single_samples(batch.labelled), "as they are"
    _add_decoder(batch, batch.decoder)


def _add_decoder(batch: ReadBatch, decoder: list[int]) -> None:
    if batch.real is None:  # `_guess_padding` adds them once it has guessed
        return
    batch.real = samples_of([sum(row) + tokens for row, tokens in zip(batch.real, decoder)])
    if batch.trained is not None:  # a row of padding alone has no sample
        batch.trained = [row if real else [] for row, real in zip(batch.trained, batch.real)]


def _join_decoder(batch: ReadBatch, decoder: ReadBatch) -> None:
    """Add what a decoder computes of token ids of its own to the batch of its encoder."""
    batch.widths, batch.width = (batch.width, decoder.width), batch.width + decoder.width
    batch.doubt = batch.doubt or decoder.doubt
    if batch.doubt:
        return
    batch.trained, batch.loss = decoder.trained, decoder.loss
    batch.labelled, batch.trained_padding = decoder.labelled, decoder.trained_padding
    if batch.real is not None and decoder.real is not None:
        batch.decoder = list(map(sum, decoder.real))
        _add_decoder(batch, batch.decoder)
    else:  # both are guessed
        batch.real, batch.padding_source = None, NOTHING
        batch.ends = [last_run_of(row) for each in (batch, decoder) for row in each.ids.tolist()]


def _joined(parts: list[ReadBatch]) -> ReadBatch:
    """Return one batch of the rows of several, padded to the widest."""
    joined = ReadBatch(sum(each.rows for each in parts), max(each.width for each in parts))
    # Unknown of one, unknown of all.
    if all(each.real is not None for each in parts):
        joined.real = [row for each in parts for row in each.real or ()]
    if all(each.trained is not None for each in parts):
        joined.trained = [row for each in parts for row in each.trained or ()]
    joined.loss, joined.padding_source = parts[0].loss, parts[0].padding_source
    joined.trained_padding = sum(each.trained_padding for each in parts)
    return joined
