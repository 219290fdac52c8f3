"""What a collated batch computes: its rows, its width, and what of each row is real and trained.

A batch is made of torch tensors, NumPy arrays or lists, which are read by what they have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
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

_NEITHER_WAY = (
    "nothing tells whether samples are the rows or the columns of token ids: give the model a "
    "padding mask of (batch, length), or their lengths"
)
_BOTH_WAYS = (
    "by some modules, masks or lengths samples are the rows of token ids, by others the columns: "
    "give all modules the same batch_first"
)
GUESSED = 0.25  # share of the rows that must end in one token before it is taken for padding


def read_batch(batch: Any, pad_token_id: int | None = None) -> ReadBatch | None:
    """Return what a collated batch computes; None if it holds no token ids.

    Args:
        batch: a mapping, a sequence, or token ids alone; of torch tensors, NumPy arrays or lists.
        pad_token_id: the id that pads, where no mask tells padding; None where it is not known.
    """
    parts = read_parts(batch, pad_token_id)
    if not parts:
        return None
    # Several sets of ids in a batch of a loader, such as the chosen and rejected answers of DPO,
    # are computed together.
    return parts[0] if len(parts) == 1 else _joined(parts)


def read_parts(
    batch: Any,
    pad_token_id: int | None = None,
    has_decoder: bool | None = None,
    inside: Inside | None = None,
) -> list[ReadBatch]:
    """Return what each set of token ids in a batch computes, each at a width of its own.

    Args:
        batch: a mapping, a sequence, or token ids alone; of torch tensors, NumPy arrays or lists.
        pad_token_id: the id that pads, where no mask tells padding; None where it is not known.
        has_decoder: whether the model has a decoder, to which labels of another width then belong.
            None where that is not known: they are taken for a decoder's.
        inside: what was seen inside the model, and gets what arrays tell of the next batches; None
            where there is no model.
    """
    inside = Inside([]) if inside is None else inside
    parts: list[ReadBatch] = []
    for ids_set in sets_of_ids(batch, inside):
        pad = pad_token_id
        if ids_set.is_decoder and pad is None:
            pad = _padding_under(parts[0].ids, parts[0].real_mask)
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
    samples, which token pads, and whether there is a decoder.

    Args:
        batches: all batches of one loader.
        has_decoder: whether the model is known to have an encoder and a decoder.
    """
    batches = list(batches)
    packs_rows = any(batch.padding_source == POSITIONS for batch in batches)
    for batch in batches:
        # Its only row has positions 0, 1, 2 and so on to its end: here that is one sample without
        # padding.
        if packs_rows and batch.is_straight:
            batch.padding_source, batch.real, batch.ends = POSITIONS, [[batch.width]], []
    _guess_padding(batches)
    has_decoder = has_decoder or any(len(batch.widths) > 1 for batch in batches)
    for batch in batches:
        # Where ids and labels of a batch are equally wide, by chance or since both are padded to
        # one width, the batch alone did not show that the labels are those of a decoder.
        if has_decoder and len(batch.widths) == 1 and batch.labelled:
            _set_decoder(batch, batch.width, real=None)


def _guess_padding(batches: list[ReadBatch]) -> None:
    """Guess the padding token of batches that do not tell their padding: the token that rows end in
    most. Note the real tokens of these batches, unless no token is likely enough.
    """
    unknown = [batch for batch in batches if batch.ends]
    # (the last token, how often it repeats at the end) of each row.
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
        # Each row of the ids; then, of a decoder that has ids of its own, each row of these.
        lengths = [
            batch.widths[place // batch.rows] - (count if last == token else 0)
            for place, (last, count) in enumerate(batch.ends)
        ]
        batch.real = single_samples(lengths[: batch.rows])
        batch.decoder = lengths[batch.rows :] or batch.decoder
        if batch.decoder is not None:
            _add_decoder(batch, batch.decoder)


# --- one set of token ids -------------------------------------------------------------------------
def _read_ids(
    ids_set: IdsSet, pad_token_id: int | None, has_decoder: bool | None, inside: Inside
) -> ReadBatch:
    """Return what one set of token ids computes."""
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
    batch = ReadBatch(*shape_of(ids))
    batch.ids, batch.doubt = ids, ids_set.doubt
    if len(told) > 1 or inside.is_doubtful:
        batch.doubt = _BOTH_WAYS
    elif not told and inside.takes_columns and "input_ids" not in values:
        batch.doubt = _NEITHER_WAY
    if batch.doubt:
        return batch
    real_mask = note_real(ids, values, batch, pad_token_id)
    # Neither a mask nor positions or lengths tell which tokens are real.
    if batch.padding_source == NOTHING and pad_token_id is not None:
        real_mask = ~marks_at_ends(ids == pad_token_id)
        batch.padding_source = "pad_token_id %d" % pad_token_id
        batch.real = samples_of(real_mask.sum(-1).tolist())
    elif batch.padding_source == NOTHING:  # `settle` guesses by how the rows of all batches end
        batch.ends = [last_run_of(row) for row in ids.tolist()]
    labels: Any = values.get("labels")
    batch.real_mask = real_mask
    # Labels of the last tokens only, where a model computes no other logits: `logits_to_keep` of
    # transformers. They are not those of a decoder, which this model does not have.
    if has_decoder is False and is_ids(labels) and labels.shape[1] < batch.width:
        labels = _widened_to_left(labels, ids)
    if pad_token_id is None and is_ids(labels):
        pad_token_id = _padding_under(ids, real_mask)
    _note_labels(ids, values, labels, real_mask, batch, bool(has_decoder), pad_token_id)
    return batch


def _told_columns(ids: Any, values: Mapping[Any, Any], inside: Inside) -> set[bool]:
    """Return what is told of whether samples are the columns of token ids, as recurrent networks
    and the Transformer of torch take them by default: by their modules, lengths, and masks of
    (batch, length). Both answers, where these contradict each other.
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


def _padding_under(ids: Any, real_mask: Any) -> int | None:
    tokens = set() if real_mask is None else set(ids[~real_mask].reshape(-1).tolist())
    return tokens.pop() if len(tokens) == 1 else None


def _widened_to_left(labels: Any, ids: Any) -> Any:
    wide = ids.clone() if hasattr(ids, "clone") else ids.copy()  # torch or NumPy
    wide[:] = IGNORED
    wide[:, wide.shape[1] - labels.shape[1] :] = labels
    return wide


# --- what is trained -----------------------------------------------------------------------------
def _note_labels(
    ids: Any,
    values: Mapping[Any, Any],
    labels: Any,
    real_mask: Any,
    batch: ReadBatch,
    has_decoder: bool,
    pad_token_id: int | None,
) -> None:
    """Note in `batch` which tokens carry loss, and the decoder that computes the labels if they are
    not those of the ids.
    """
    # DPOTrainer and the like of TRL make labels of this mask where they compute the loss.
    if labels is None and shape_of(values.get("completion_mask")) == shape_of(ids):
        has_loss = values["completion_mask"] != 0
        batch.labelled, batch.loss = has_loss.sum(-1).tolist(), "shifted"
        _note_trained(has_loss, real_mask, batch)
        return
    shape = shape_of(labels)
    # No labels, or not of tokens: a classification has one for each row, a regression scores.
    if len(shape) != 2 or shape[0] != batch.rows or not is_whole(labels):
        batch.loss = "of rows" if shape[:1] == (batch.rows,) else batch.loss
        return
    has_loss = labels != IGNORED
    batch.labelled = has_loss.sum(-1).tolist()
    # A loop that ignores the padding of its labels has no other padding there.
    if pad_token_id is not None and bool(has_loss.all()):
        is_real = ~marks_at_right_end(labels == pad_token_id)
        if not bool(is_real.all()):
            batch.labelled_real = is_real.sum(-1).tolist()
    # Labels of another width are those of a decoder, as of T5.
    if has_decoder or shape != shape_of(ids) or "decoder_input_ids" in values:
        mask: Any = values.get("decoder_attention_mask")
        # Without a mask of the decoder, its real tokens are the labels that are not ignored.
        real = (mask != 0).sum(-1).tolist() if shape_of(mask) == shape else None
        _set_decoder(batch, shape[1], real)
        return
    # A causal model of transformers is given its own tokens as labels, and shifts them. Where some
    # labels are other ids, as in masked language modelling, they stand where they are predicted.
    is_copy = not bool((has_loss & (labels != ids)).any())
    batch.loss = "shifted" if is_copy else "as they are"
    _note_trained(has_loss, real_mask, batch)


def _note_trained(has_loss: Any, real_mask: Any, batch: ReadBatch) -> None:
    """Note in `batch` how many tokens of each sample carry loss, and how many of padding do."""
    # Where the model shifts labels, nothing predicts the first token of a row: its label does not
    # count.
    is_shifted = batch.loss == "shifted"
    # For each row 1, or True, if its first token has a label that does not count; else 0.
    uncounted = has_loss[:, 0].tolist() if is_shifted else [0] * batch.rows
    batch.trained = _count_trained(has_loss, uncounted, batch)
    if real_mask is not None:
        trained_padding = has_loss > real_mask  # carries loss and is not real
        if bool(trained_padding.any()):  # most batches have none
            uncounted_padding = int(trained_padding[:, 0].sum()) if is_shifted else 0
            batch.trained_padding = int(trained_padding.sum()) - uncounted_padding


def _count_trained(has_loss: Any, uncounted: list[int], batch: ReadBatch) -> list[list[int]]:
    """Return, for each row, how many tokens of each of its samples carry loss."""
    # A sample for each row: its labels were counted already.
    if batch.real is None or all(len(row) < 2 for row in batch.real):
        trained = single_samples([n - first for n, first in zip(batch.labelled, uncounted)])
        return [row if real else [] for row, real in zip(trained, batch.real or trained)]
    trained = []
    for lengths, first, row in zip(batch.real, uncounted, has_loss.tolist()):
        stop, counts = 0, []
        for length in lengths:
            start, stop = stop, stop + length
            counts.append(sum(row[start:stop]))
        if counts:  # a row of padding alone has no sample
            counts[0] -= first
        trained.append(counts)
    return trained


def _set_decoder(batch: ReadBatch, width: int, real: list[int] | None) -> None:
    """Note that labels are those of a decoder, and its real tokens, if a mask tells them: else its
    labels that are not ignored, and no padding.
    """
    batch.decoder = real or batch.labelled_real or batch.labelled
    carrying = zip(batch.labelled, batch.labelled_real or batch.labelled)
    batch.trained_padding = sum(all_labels - real_labels for all_labels, real_labels in carrying)
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
    """Add what a decoder computes, of token ids of its own, to the batch of its encoder."""
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
    """Return one batch of the rows of several, padded to the widest: they are computed together."""
    joined = ReadBatch(sum(each.rows for each in parts), max(each.width for each in parts))
    # Unknown of one, unknown of all.
    if all(each.real is not None for each in parts):
        joined.real = [row for each in parts for row in each.real or ()]
    if all(each.trained is not None for each in parts):
        joined.trained = [row for each in parts for row in each.trained or ()]
    joined.loss, joined.padding_source = parts[0].loss, parts[0].padding_source
    joined.trained_padding = sum(each.trained_padding for each in parts)
    return joined
