"""The rows of a prepared data set: what of each is stored, real and trained."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, offsets_from_sizes
from batchstat.recording.collators import Collating
from batchstat.recording.recorder.read_batches import IGNORED
from batchstat.recording.recorder.reading import GUESSED

if TYPE_CHECKING:
    import pyarrow as pa


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
    columns = ("input_ids", "attention_mask", "labels", "seq_lengths")
    held = [name for name in columns if name in dataset.column_names]
    table: pa.Table = dataset.select_columns(held).with_format("arrow")[:]
    if not len(table):
        raise InputError("the trainer's data set has no row: check what filters it")
    offsets, ids = _flat(table, "input_ids")
    label_offsets, labels = _labels(table, collating, offsets, ids)
    if not np.array_equal(label_offsets, offsets):
        return None
    is_real = np.ones(len(ids), dtype=bool)
    if collating.reads_mask and "attention_mask" in held:
        is_real = _flat(table, "attention_mask")[1] != 0
    row_offsets: Ints = np.arange(len(offsets))
    lengths, sample_edges = _sums(is_real, offsets), offsets
    # TRL's pack_dataset adds this column: the lengths of the samples in each row.
    if "seq_lengths" in held:
        row_offsets, lengths = _flat(table, "seq_lengths")
        sample_edges = offsets_from_sizes(lengths)
    is_shifted = labels is None or bool(((labels == IGNORED) | (labels == ids)).all())
    trained, trained_padding = None, 0
    if labels is not None:
        has_loss = labels != IGNORED
        if is_shifted:  # nothing predicts the first token of a row, or of a sample in one
            for edges in (offsets, sample_edges):
                has_loss[edges[:-1][np.diff(edges) > 0]] = False
        trained = _sums(has_loss, sample_edges)
        trained_padding = int(np.count_nonzero(has_loss & ~is_real))
    return PreparedRows(
        widths=np.diff(offsets),
        lengths=lengths,
        row_offsets=row_offsets,
        trained=trained,
        is_shifted=is_shifted,
        trained_padding=trained_padding,
        text_lengths=_text_lengths(ids, offsets, collating.pad_token_id),
    )


def _labels(
    table: "pa.Table", collating: Collating, offsets: Ints, ids: Ints
) -> tuple[Ints, Ints | None]:
    """Return (n + 1,) offsets of the labels of rows, and these; None where nothing says them."""
    if collating.labels == "ids but padding":
        # DataCollatorForLanguageModeling of transformers ignores that id wherever it stands, in
        # texts too.
        return offsets, np.where(ids == collating.pad_token_id, IGNORED, ids)
    # A column of numbers has labels of rows.
    if collating.labels != "random" and "labels" in table.column_names:
        kind = str(table.schema.field("labels").type)
        if kind.startswith(("list<", "large_list<")):
            return _flat(table, "labels")
    return offsets, ids if collating.labels == "column or ids" else None


def _text_lengths(ids: Ints, offsets: Ints, pad_token_id: int | None) -> Ints:
    """Return (n,) tokens of each row, without those but one that it ends in if they are all what
    pads: one may end a text.
    """
    sizes = np.diff(offsets)
    if pad_token_id is None or not len(ids):
        return sizes
    # The place of the last other token before each place, or -1.
    others = np.where(ids == pad_token_id, -1, np.arange(len(ids)))
    last = np.maximum.accumulate(others)[np.maximum(offsets[1:] - 1, 0)]
    without_padding = np.maximum(last + 1 - offsets[:-1], 0)
    found: Ints = np.minimum(without_padding + 1, sizes)
    return found


def _flat(table: "pa.Table", name: str) -> tuple[Ints, Ints]:
    """Return (n + 1,) offsets of the lists of a column, and their numbers."""
    import pyarrow.compute as pc

    sizes = pc.list_value_length(table[name]).fill_null(0).to_numpy()
    values = pc.list_flatten(table[name]).to_numpy()
    return offsets_from_sizes(sizes.astype(np.int64)), values.astype(np.int64)


def _sums(marks: npt.NDArray[np.bool_], offsets: Ints) -> Ints:
    """Return (n,) how many are set in each group, which may be empty."""
    ends = offsets_from_sizes(marks.astype(np.int64))
    found: Ints = ends[offsets[1:]] - ends[offsets[:-1]]
    return found
