"""The rows of a prepared data set: what of each is stored, real and trained."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.recording.collators import Collating
from batchstat.recording.recorder.read_batches import IGNORED
from batchstat.recording.recorder.reading import GUESSED

if TYPE_CHECKING:
    import pyarrow as pa

_AT_ONCE = 10_000
"""Rows of a data set that are read together."""


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRows:
    """Rows of token ids as a trainer holds them.

    Attributes:
        widths: (n_rows,) tokens that are stored of each.
        lengths: (n_samples,) real tokens of each sample; several of a packed row.
        row_offsets: (n_rows + 1,) samples of each row.
        trained: (n_samples,) tokens that carry loss; None where no labels say so, or those of a
            batch are drawn again.
        is_shifted: whether the model shifts the labels.
        trained_padding: tokens that are padding by the mask and carry loss.
        text_lengths: (n_rows,) tokens of each without padding at its end that the mask calls real;
            of a token that ends texts too, one remains.
    """

    widths: Ints
    lengths: Ints
    row_offsets: Ints
    trained: Ints | None
    is_shifted: bool
    trained_padding: int
    text_lengths: Ints

    @property
    def is_packed(self) -> bool:
        """Whether a row holds several samples."""
        return len(self.lengths) > len(self.widths)

    @property
    def padded_tokens(self) -> int:
        """Tokens of padding that are stored."""
        return int(self.widths.sum() - self.lengths.sum())

    @property
    def ends_in_padding(self) -> int:
        """Rows that end in padding tokens which the mask calls real; 0 where few do: a text may end
        in several tokens that pad elsewhere.
        """
        rows = int(np.count_nonzero(self.text_lengths < self.widths))
        return 0 if self.is_masked or rows < GUESSED * len(self.widths) else rows

    @property
    def is_masked(self) -> bool:
        """Whether a mask leaves padding out, or rows hold samples."""
        return self.is_packed or bool(self.padded_tokens)

    @property
    def constant_width(self) -> int | None:
        """Tokens to which every row is padded; None if they differ, or none is."""
        width = int(self.widths[0])
        return width if self.padded_tokens and bool((self.widths == width).all()) else None


def why_unreadable(dataset: Any) -> str:
    """Return why the rows of a data set cannot be read without iterating it; empty if they can."""
    if type(dataset).__module__.partition(".")[0] != "datasets":
        return "the data set makes its samples itself"
    if not hasattr(dataset, "data"):
        return "the data set is a stream"
    if (dataset.format or {}).get("type") == "custom":
        return "the data set transforms its samples on the fly"
    if "input_ids" not in dataset.column_names:
        return "the data set has no column input_ids"
    return ""


def prepared_rows(dataset: Any, collating: Collating) -> PreparedRows | None:
    """Return the rows of a `datasets.Dataset`; None where labels and ids have other lengths, as an
    encoder and a decoder have.

    Raises:
        InputError: there is no row.
    """
    parts = [_part(table, collating) for table in _tables(dataset)]
    if not parts:
        raise InputError("the trainer's data set has no row: check what filters it")
    if any(part is None for part in parts):
        return None
    found = [part for part in parts if part is not None]
    is_shifted = all(part.is_copy for part in found)
    first = 1 if is_shifted else 0
    trained = [part.trained(first) for part in found]
    known = [each for each in trained if each is not None]
    return PreparedRows(
        widths=np.concatenate([np.diff(part.offsets) for part in found]),
        lengths=np.concatenate([part.lengths for part in found]),
        row_offsets=offsets_from_sizes(np.concatenate([part.samples for part in found])),
        trained=np.concatenate(known) if len(known) == len(found) else None,
        is_shifted=is_shifted,
        trained_padding=sum(part.trained_padding(first) for part in found),
        text_lengths=np.concatenate([part.without(collating.pad_token_id) for part in found]),
    )


def _tables(dataset: Any) -> Iterator["pa.Table"]:
    columns = ("input_ids", "attention_mask", "labels", "seq_lengths")
    held = [name for name in columns if name in dataset.column_names]
    yield from dataset.select_columns(held).with_format("arrow").iter(batch_size=_AT_ONCE)


@dataclass(frozen=True, eq=False)
class _Part:
    """Some rows, token by token.

    Attributes:
        offsets: (n_rows + 1,) tokens of each row.
        ids: (offsets[-1],) the tokens.
        keep: (offsets[-1],) whether each is real; None if all are.
        labels: (offsets[-1],) the label of each; None where they are not known.
        samples: (n_rows,) samples of each row.
        lengths: (n_samples,) real tokens of each.
    """

    offsets: Ints
    ids: Ints
    keep: Ints | None
    labels: Ints | None
    samples: Ints
    lengths: Ints

    @property
    def is_copy(self) -> bool:
        """Whether every label is its own token, or none."""
        if self.labels is None:
            return True
        return bool(((self.labels == IGNORED) | (self.labels == self.ids)).all())

    def _has_loss(self, first: int) -> Ints:
        assert self.labels is not None
        has_loss: Ints = (self.labels != IGNORED).astype(np.int64)
        if first:
            starts = self.offsets[:-1]
            has_loss[starts[np.diff(self.offsets) > 0]] = 0
        return has_loss

    def trained(self, first: int) -> Ints | None:
        """Return (n_samples,) the tokens from the `first` one on that carry loss."""
        if self.labels is None:
            return None
        has_loss = self._has_loss(first)
        if len(self.samples) == len(self.lengths):
            return _sums(has_loss, self.offsets)
        edges = offsets_from_sizes(self.lengths)
        if first:  # of packed rows, the first token of every sample follows another one
            has_loss[edges[:-1][self.lengths > 0]] = 0
        return _sums(has_loss, edges)

    def trained_padding(self, first: int) -> int:
        """Return how many tokens are padding and carry loss."""
        if self.labels is None or self.keep is None:
            return 0
        return int((self._has_loss(first) * (self.keep == 0)).sum())

    def without(self, token: int | None) -> Ints:
        """Return (n_rows,) tokens of each row, without those but one that it ends in if they are
        all the same `token`: one may end a text.
        """
        sizes = np.diff(self.offsets)
        if token is None or not len(self.ids):
            return sizes
        # The place of the last other token before each place, or -1.
        others = np.where(self.ids == token, -1, np.arange(len(self.ids)))
        last = np.maximum.accumulate(others)[np.maximum(self.offsets[1:] - 1, 0)]
        kept = np.maximum(last + 1 - self.offsets[:-1], 0)
        found: Ints = np.minimum(kept + 1, sizes)
        return found


def _part(table: "pa.Table", collating: Collating) -> _Part | None:
    offsets, ids = _flat(table, "input_ids")
    keep = labels = None
    names = table.column_names
    if collating.reads_mask and "attention_mask" in names:
        keep = _flat(table, "attention_mask")[1]
    if collating.labels == "ids but padding":
        # DataCollatorForLanguageModeling of transformers ignores that id wherever it stands, in
        # texts too.
        labels = np.where(ids == collating.pad_token_id, IGNORED, ids)
    elif collating.labels != "random" and "labels" in names and _is_list(table, "labels"):
        edges, labels = _flat(table, "labels")
        if not np.array_equal(edges, offsets):
            return None
    elif collating.labels == "column or ids":
        labels = ids
    real = np.diff(offsets) if keep is None else _sums((keep != 0).astype(np.int64), offsets)
    samples, lengths = np.ones(len(real), dtype=np.int64), real
    # TRL's pack_dataset adds this column: the lengths of the samples in each row.
    if "seq_lengths" in names:
        edges, lengths = _flat(table, "seq_lengths")
        samples = np.diff(edges)
    return _Part(offsets, ids, keep, labels, samples, lengths)


def _is_list(table: "pa.Table", name: str) -> bool:
    import pyarrow as pa

    kind = table.schema.field(name).type
    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind))


def _flat(table: "pa.Table", name: str) -> tuple[Ints, Ints]:
    """Return (n + 1,) offsets of the lists of a column, and their numbers."""
    import pyarrow as pa
    import pyarrow.compute as pc

    column = table[name].combine_chunks()
    if isinstance(column, pa.ChunkedArray):
        column = pa.concat_arrays(column.chunks)
    sizes = pc.list_value_length(column).fill_null(0).to_numpy(zero_copy_only=False)
    values = pc.list_flatten(column).to_numpy(zero_copy_only=False)
    return offsets_from_sizes(sizes.astype(np.int64)), values.astype(np.int64)


def _sums(numbers: Ints, offsets: Ints) -> Ints:
    """Return (n,) the sum of each group, which may be empty."""
    ends = offsets_from_sizes(numbers)
    found: Ints = ends[offsets[1:]] - ends[offsets[:-1]]
    return found
