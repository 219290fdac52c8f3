"""What a collated batch computes: its rows, its width, and what of each row is real and trained.

A batch is made of torch tensors, NumPy arrays or lists, which are read by what they have in common.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any

from .arguments import MOST_DEPTH, values_by_name
from .padding import last_run_of, marks_at_ends, note_real
from .read_batches import IGNORED, NOTHING, POSITIONS, ReadBatch, is_whole, shape_of, single_samples

GUESS = "a guess"
"""How `ReadBatch.padding_source` begins where padding was guessed by the ends of rows."""

GUESSED = 0.25  # share of the rows that must end in one token before it is taken for padding
_NOT_TOKENS = ("label", "mask", "position", "type_ids", "len", "offset", "_index", "_idx", "target")
"""Parts of the names of arrays that are not token ids. `idx` alone may be: nanoGPT calls its token
ids so.
"""


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
    batch: Any, pad_token_id: int | None = None, has_decoder: bool | None = None
) -> list[ReadBatch]:
    """Return what each set of token ids in a batch computes, each at a width of its own.

    Args:
        batch: a mapping, a sequence, or token ids alone; of torch tensors, NumPy arrays or lists.
        pad_token_id: the id that pads, where no mask tells padding; None where it is not known.
        has_decoder: whether the model has a decoder, to which labels of another width then belong.
            None where that is not known: they are taken for a decoder's.
    """
    # A set is its ids, the mapping that holds them, and the prefix of their names.
    return [_read_ids(*ids_set, pad_token_id, has_decoder) for ids_set in _sets_of_ids(batch)]


def token_ids(batch: Any) -> Any:
    """Return the token ids of a collated batch, the first of several; None if it holds none."""
    parts = _sets_of_ids(batch)
    return parts[0][0] if parts else None


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
            # All of its labels that are not ignored are real, and carry loss.
            _set_decoder(batch, batch.width, trained=batch.labelled, real=batch.labelled)


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
    # Every row ends in it, some in one alone: it ends texts, as <eos> does.
    ends_texts = n_padded == len(ends) and min(repeats_of_token) == 1
    # Rows of equal length may end in a frequent token, such as a space, once each.
    if ends_texts or max(repeats_of_token) == 1 or n_padded < max(2, GUESSED * len(ends)):
        return
    source = f"{GUESS}: token {token}, in which {n_padded} of {len(ends)} rows end"
    for batch in unknown:
        batch.padding_source = source
        width = batch.widths[0]  # of the ids, without that of a decoder
        batch.real = [[width - (count if last == token else 0)] for last, count in batch.ends]
        if batch.decoder is not None:
            _add_decoder(batch, batch.decoder)


# --- token ids -----------------------------------------------------------------------------------
def _sets_of_ids(batch: Any, depth: int = 0) -> list[tuple[Any, Mapping[Any, Any], str]]:
    """Find the sets of token ids in a batch."""
    if _is_ids(batch):  # token ids alone, without a mask, labels or a name
        return [(batch, {}, "")]
    values = _values_by_key(batch)
    if values is None or depth > MOST_DEPTH:
        return []
    names = [name for name in values if isinstance(name, str) and name.endswith("input_ids")]
    # decoder_input_ids of transformers are the labels moved by one, and no samples of their own.
    names = [name for name in names if _is_ids(values[name]) and not name.startswith("decoder_")]
    # A plain input_ids is the only set. Without it each is one, as chosen_input_ids and
    # rejected_input_ids of a DPO loader are.
    if "input_ids" in names:
        names = ["input_ids"]
    if names:
        return [(values[name], values, name[: -len("input_ids")]) for name in names]
    # Nothing is named so, as in loops of plain torch: the first array that may be token ids.
    for key, value in values.items():
        if _is_ids(value) and not any(part in str(key) for part in _NOT_TOKENS):
            return [(value, values, "")]
    # No token ids at this level: those nested in the batch, as in the net_input of fairseq.
    inner_sets = []
    for value in values.values():
        if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and not _is_ids(value)):
            inner_sets += _sets_of_ids(value, depth + 1)
    return inner_sets


def _values_by_key(batch: Any) -> Mapping[Any, Any] | None:
    """Return the values of a batch by their names, or by their places in a sequence; None if it has
    neither.
    """
    by_name = values_by_name(batch)
    if by_name is not None:
        return by_name
    if isinstance(batch, (list, tuple)):
        return dict(enumerate(batch))
    # An object of the user's own, such as a Batch with attributes; an array has a shape.
    return vars(batch) if hasattr(batch, "__dict__") and not hasattr(batch, "shape") else None


def _is_ids(value: Any) -> bool:
    shape = shape_of(value)
    return len(shape) == 2 and 0 not in shape and is_whole(value)


# --- one set of token ids -------------------------------------------------------------------------
def _read_ids(
    ids: Any,
    values: Mapping[Any, Any],
    prefix: str,
    pad_token_id: int | None,
    has_decoder: bool | None,
) -> ReadBatch:
    """Return what one set of token ids computes."""
    batch = ReadBatch(*shape_of(ids))
    real_mask = note_real(ids, values, prefix, batch, pad_token_id)
    # Neither a mask nor positions or lengths tell which tokens are real.
    if batch.padding_source == NOTHING and pad_token_id is not None:
        real_mask = ~marks_at_ends(ids == pad_token_id)
        batch.padding_source = "pad_token_id %d" % pad_token_id
        batch.real = single_samples(real_mask.sum(-1).tolist())
    elif batch.padding_source == NOTHING:  # `settle` guesses by how the rows of all batches end
        batch.ends = [last_run_of(row) for row in ids.tolist()]
    labels = values.get(prefix + "labels", values.get("labels"))
    # Lengths told that columns are samples: from here on they are rows. Labels of another shape are
    # not turned with the ids, and not read.
    if batch.rows != shape_of(ids)[0]:
        labels = labels.T if shape_of(labels) == shape_of(ids) else None
        ids = ids.T
    batch.ids, batch.real_mask = ids, real_mask
    # Labels of the last tokens only, where a model computes no other logits: `logits_to_keep` of
    # transformers. They are not those of a decoder, which this model does not have.
    if has_decoder is False and _is_ids(labels) and labels.shape[1] < batch.width:
        labels = _widened_to_left(labels, ids)
    _note_labels(ids, values, labels, real_mask, batch)
    return batch


def _widened_to_left(labels: Any, ids: Any) -> Any:
    wide = ids.clone() if hasattr(ids, "clone") else ids.copy()  # torch or NumPy
    wide[:] = IGNORED
    wide[:, wide.shape[1] - labels.shape[1] :] = labels
    return wide


# --- what is trained -----------------------------------------------------------------------------
def _note_labels(
    ids: Any, values: Mapping[Any, Any], labels: Any, real_mask: Any, batch: ReadBatch
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
    # Labels of another width are those of a decoder, as of T5.
    if shape != shape_of(ids) or "decoder_input_ids" in values:
        mask: Any = values.get("decoder_attention_mask")
        # Without a mask of the decoder, its real tokens are the labels that are not ignored.
        real = (mask != 0).sum(-1).tolist() if shape_of(mask) == shape else batch.labelled
        _set_decoder(batch, shape[1], trained=batch.labelled, real=real)
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
    if batch.real is None or all(len(row) == 1 for row in batch.real):
        return single_samples([n - first for n, first in zip(batch.labelled, uncounted)])
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


def _set_decoder(batch: ReadBatch, width: int, trained: list[int], real: list[int]) -> None:
    batch.trained, batch.loss, batch.trained_padding = single_samples(trained), "as they are", 0
    # A row is computed at both widths: its tokens are those of the encoder and of the decoder.
    batch.widths, batch.width = (batch.width, width), batch.width + width
    batch.decoder = real
    _add_decoder(batch, real)


def _add_decoder(batch: ReadBatch, decoder: list[int]) -> None:
    if batch.real is not None:  # else `_guess_padding` adds them once it has guessed
        batch.real = [[row[0] + decoder_tokens] for row, decoder_tokens in zip(batch.real, decoder)]


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
