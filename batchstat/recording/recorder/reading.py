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
"""How `ReadBatch.by` begins where padding was guessed by the tokens that rows end in."""

GUESSED = 0.25
"""Share of the rows that must end in one token before it is taken for padding."""
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
    # A set: its ids, the mapping that holds them, and the prefix of their names.
    return [_read_ids(*ids_set, pad_token_id, has_decoder) for ids_set in _sets_of_ids(batch)]


def token_ids(batch: Any) -> Any:
    """Return the token ids of a collated batch, the first of several; None if it holds none."""
    parts = _sets_of_ids(batch)
    return parts[0][0] if parts else None


def settle(batches: Iterable[ReadBatch], has_decoder: bool = False) -> None:
    """Decide what a single batch cannot tell, by all batches of its loader, and note it in them.

    Args:
        batches: all batches of one loader.
        has_decoder: whether the model is known to have an encoder and a decoder.
    """
    batches = list(batches)
    # The loader packs rows, as other batches show by their positions: a batch of one row whose
    # positions count through is one sample without padding.
    if any(batch.by == POSITIONS for batch in batches):
        for batch in batches:
            if batch.is_straight:
                batch.by, batch.real, batch.ends = POSITIONS, [[batch.width]], []
    _guess_padding(batches)
    # The model has a decoder. Where ids and labels of a batch are equally wide, by chance or since
    # both are padded to one width, the batch alone did not show it.
    if has_decoder or any(len(batch.widths) > 1 for batch in batches):
        for batch in batches:
            if len(batch.widths) == 1 and batch.labelled:
                # All of its labels that are not ignored are real, and carry loss.
                _set_decoder(batch, batch.width, trained=batch.labelled, real=batch.labelled)


def _guess_padding(batches: list[ReadBatch]) -> None:
    """Guess the padding token of batches that do not tell it: the token that rows end in most.

    At least two rows, and a quarter of them, must end in it; one of these must end in several of
    it. Where every row ends in it, each must end in several: a text may end in a token of its own.
    """
    unknown = [batch for batch in batches if batch.ends]
    # (token, how often it repeats there) at the end of each row.
    ends = [end for batch in unknown for end in batch.ends]
    if not ends:
        return
    # Counted as often as they repeat: padding repeats, the end of a text does not.
    counts: Counter[int] = Counter()
    for last, run in ends:
        counts[last] += run
    token = counts.most_common(1)[0][0]
    rows_with_token = sum(last == token for last, _ in ends)
    runs = [run for last, run in ends if last == token]
    # Every row ends in it, some in one alone: it ends texts, as <eos> does.
    ends_texts = rows_with_token == len(ends) and min(runs) == 1
    # No run above 1: rows of equal length may end in a frequent token, such as a space, once each.
    if ends_texts or max(runs) == 1 or rows_with_token < max(2, GUESSED * len(ends)):
        return
    for batch in unknown:
        batch.by = f"{GUESS}: token {token}, in which {rows_with_token} of {len(ends)} rows end"
        runs = [run if last == token else 0 for last, run in batch.ends]
        # `widths[0]` is the width of the ids, without that of a decoder.
        batch.real = [[batch.widths[0] - run] for run in runs]
        if batch.decoder is not None:
            _add_decoder(batch, batch.decoder)


# --- token ids -----------------------------------------------------------------------------------
def _sets_of_ids(batch: Any, depth: int = 0) -> list[tuple[Any, Mapping[Any, Any], str]]:
    """Find the sets of token ids in a batch.

    Returns:
        For each set: the ids, the mapping that holds them with their mask and labels, and the
        prefix of their names, such as "chosen_" of "chosen_input_ids".
    """
    if _is_ids(batch):  # token ids alone, without a mask, labels or a name
        return [(batch, {}, "")]
    by_key = _by_key(batch)
    if by_key is None or depth > MOST_DEPTH:
        return []
    ids_keys = [key for key in by_key if isinstance(key, str) and key.endswith("input_ids")]
    # decoder_input_ids of transformers are the labels moved by one, and no samples of their own.
    ids_keys = [key for key in ids_keys if _is_ids(by_key[key]) and not key.startswith("decoder_")]
    # A plain input_ids is the only set. Without it each is one, as chosen_input_ids and
    # rejected_input_ids of a DPO loader are.
    if "input_ids" in ids_keys:
        ids_keys = ["input_ids"]
    if ids_keys:
        return [(by_key[key], by_key, key[: -len("input_ids")]) for key in ids_keys]
    # Nothing is named so, as in loops of plain torch: the first array that may be token ids, or
    # else what is nested in the batch, as in the net_input of fairseq.
    inner_sets = []
    for value in by_key.values():
        if isinstance(value, Mapping) or (isinstance(value, (list, tuple)) and not _is_ids(value)):
            inner_sets += _sets_of_ids(value, depth + 1)
    token_arrays = [
        value
        for key, value in by_key.items()
        if _is_ids(value) and not any(part in str(key) for part in _NOT_TOKENS)
    ]
    return [(token_arrays[0], by_key, "")] if token_arrays else inner_sets


def _by_key(batch: Any) -> Mapping[Any, Any] | None:
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
    """Return whether a value may be token ids: an array of whole numbers with two dimensions."""
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
    """Return what one set of token ids computes.

    Args:
        ids: (n_rows, width) token ids.
        values: all of the batch by name: masks, positions, labels.
        prefix: of the names that belong to these ids, such as "chosen_".
        pad_token_id: the id that pads; None where it is not known.
        has_decoder: whether the model has a decoder; None where that is not known.
    """
    read = ReadBatch(*shape_of(ids))
    # Notes in `read` which tokens are real; `by` stays NOTHING where the batch does not tell.
    keep = real_of(ids, values, prefix, read, pad_token_id)
    if read.by == NOTHING and pad_token_id is not None:
        keep = ~at_ends(ids == pad_token_id)
        read.by, read.real = "pad_token_id %d" % pad_token_id, each_of(keep.sum(-1).tolist())
    elif read.by == NOTHING:  # `settle` guesses the padding by how the rows of all batches end
        read.ends = [end_of(row) for row in ids.tolist()]
    labels = values.get(prefix + "labels", values.get("labels"))
    # Lengths told that columns are samples: from here on they are rows. Labels of another shape are
    # not turned with the ids, and not read.
    if read.rows != shape_of(ids)[0]:
        labels = labels.T if shape_of(labels) == shape_of(ids) else None
        ids = ids.T
    read.ids, read.keep = ids, keep
    # Labels of the last tokens only, where a model computes no other logits: `logits_to_keep` of
    # transformers. They are not those of a decoder, which this model does not have.
    if has_decoder is False and _is_ids(labels) and labels.shape[1] < read.width:
        labels = _at_right(labels, ids)
    _note_trained(ids, values, labels, keep, read)
    return read


def _at_right(labels: Any, ids: Any) -> Any:
    """Return labels as wide as the ids: given those of the last tokens, the others are ignored."""
    wide = ids.clone() if hasattr(ids, "clone") else ids.copy()  # torch or NumPy
    wide[:] = IGNORED
    wide[:, wide.shape[1] - labels.shape[1] :] = labels
    return wide


# --- what is trained -----------------------------------------------------------------------------
def _note_trained(
    ids: Any, values: Mapping[Any, Any], labels: Any, keep: Any, read: ReadBatch
) -> None:
    """Note in `read` the tokens that carry loss, and the width of a decoder, by the labels.

    Args:
        ids: (n_rows, width) token ids.
        values: all of the batch by name.
        labels: those of these ids; None without any.
        keep: (n_rows, width) which ids are real; None where no mask says so.
        read: gets what is noted.
    """
    # DPOTrainer and the like of TRL make labels of this mask where they compute the loss.
    if labels is None and shape_of(values.get("completion_mask")) == shape_of(ids):
        has_loss = values["completion_mask"] != 0
        read.labelled, read.loss = has_loss.sum(-1).tolist(), "shifted"
        _set_trained(has_loss, keep, read)
        return
    shape = shape_of(labels)
    # Not labels of tokens: a classification has one for each row, a regression scores.
    if len(shape) != 2 or shape[0] != read.rows or not is_whole(labels):
        return
    has_loss = labels != IGNORED
    read.labelled = has_loss.sum(-1).tolist()
    # Labels of another width are those of a decoder, as of T5. Its mask, if there is one, tells its
    # real tokens; else those are the labels that are not ignored.
    if shape != shape_of(ids) or "decoder_input_ids" in values:
        mask: Any = values.get("decoder_attention_mask")
        real = read.labelled if shape_of(mask) != shape else (mask != 0).sum(-1).tolist()
        _set_decoder(read, shape[1], trained=read.labelled, real=real)
        return
    # A causal model of transformers is given its own tokens as labels, and shifts them. Where some
    # labels are other ids, as in masked language modelling, they stand where they are predicted.
    is_copy = not bool((has_loss & (labels != ids)).any())
    read.loss = "shifted" if is_copy else "as they are"
    _set_trained(has_loss, keep, read)


def _set_trained(has_loss: Any, keep: Any, read: ReadBatch) -> None:
    """Note in `read` how many tokens of each sample carry loss, and how many of padding do.

    Where the model shifts labels, nothing predicts the first token of a row: its label does not
    count.

    Args:
        has_loss: (n_rows, width) which labels are not ignored.
        keep: (n_rows, width) which tokens are real; None where no mask says so.
        read: gets what is noted.
    """
    # Whether the first token of each row has a label that does not count.
    firsts = has_loss[:, 0].tolist() if read.loss == "shifted" else [False] * read.rows
    read.trained = _trained_of(has_loss, firsts, read)
    if keep is not None:
        trained_padding = has_loss > keep  # carries loss and is not real
        if bool(trained_padding.any()):  # most batches have none
            # Labels of first tokens do not count where the model shifts labels.
            uncounted = int(trained_padding[:, 0].sum()) if read.loss == "shifted" else 0
            read.trained_padding = int(trained_padding.sum()) - uncounted


def _trained_of(has_loss: Any, firsts: list[bool], read: ReadBatch) -> list[list[int]]:
    """Return, for each row, how many tokens of each of its samples carry loss.

    Args:
        has_loss: (n_rows, width) which labels are not ignored.
        firsts: whether the first token of each row has a label that does not count.
        read: has the lengths of the samples.
    """
    # A sample for each row: its labels were counted already. A `first` of True counts as 1.
    if read.real is None or all(len(row) == 1 for row in read.real):
        return each_of([number - first for number, first in zip(read.labelled, firsts)])
    trained = []
    for lengths, first, row in zip(read.real, firsts, has_loss.tolist()):
        stop, counts = 0, []
        for length in lengths:
            start, stop = stop, stop + length
            counts.append(sum(row[start:stop]))
        if counts:  # a row of padding alone has no sample
            counts[0] -= first
        trained.append(counts)
    return trained


def _set_decoder(read: ReadBatch, width: int, trained: list[int], real: list[int]) -> None:
    """Note in `read` a decoder that computes the labels, beside the encoder that computes the ids.

    Args:
        read: gets what is noted.
        width: tokens to which the labels of each row are padded.
        trained: tokens of each row of the decoder that carry loss.
        real: real tokens of each row of the decoder.
    """
    read.trained, read.loss, read.trained_padding = each_of(trained), "as they are", 0
    # A row is computed at both widths: its tokens are those of the encoder and of the decoder.
    read.widths, read.width = (read.width, width), read.width + width
    read.decoder = real
    _add_decoder(read, real)


def _add_decoder(read: ReadBatch, decoder: list[int]) -> None:
    """Add the real tokens of each row of a decoder to those of the row in the encoder, which is
    one sample.
    """
    if read.real is not None:  # else `_guess_padding` adds them once it has guessed
        read.real = [[row[0] + decoder_tokens] for row, decoder_tokens in zip(read.real, decoder)]


def _joined(parts: list[ReadBatch]) -> ReadBatch:
    """Return one batch of the rows of several, padded to the widest: they are computed together."""
    joined = ReadBatch(sum(each.rows for each in parts), max(each.width for each in parts))
    # Unknown of one, unknown of all.
    if all(each.real is not None for each in parts):
        joined.real = [row for each in parts for row in each.real or ()]
    if all(each.trained is not None for each in parts):
        joined.trained = [row for each in parts for row in each.trained or ()]
    joined.loss, joined.by = parts[0].loss, parts[0].by
    joined.trained_padding = sum(each.trained_padding for each in parts)
    return joined
