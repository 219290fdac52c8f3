"""The rows of a data set that is tokenized already: their stored, real and trained tokens."""

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np

from batchstat.errors import InputError
from batchstat.lengths.arrays import Ints, first_of_groups, offsets_from_sizes, sum_groups
from batchstat.recording.collators import Collating
from batchstat.recording.recorder.read_batches import IGNORED
from batchstat.recording.recorder.reading import GUESSED

if TYPE_CHECKING:
    import pyarrow as pa


@dataclass(frozen=True, kw_only=True, eq=False)
class PreparedRows:
    """The rows of token ids in a trainer's data set."""

    widths: Ints
    lengths: Ints
    row_offsets: Ints
    trained: Ints | None  # (n_samples,) tokens of each sample that carry loss
    is_shifted: bool
    trained_padding: int
    text_lengths: Ints

    @property
    def is_packed(self) -> bool:
        """Whether any row holds several samples."""
        return len(self.lengths) > len(self.widths)

    @property
    def padded_tokens(self) -> int:
        """Tokens of padding that are stored."""
        return int(self.widths.sum() - self.lengths.sum())

    @property
    def ends_in_padding(self) -> int:
        """Number of rows that end in several padding tokens although the mask calls them real. 0
        where less than a quarter do: a text may end in several of that token.
        """
        n_rows = int(np.count_nonzero(self.text_lengths < self.widths))
        return 0 if self.is_masked or n_rows < GUESSED * len(self.widths) else n_rows

    @property
    def is_masked(self) -> bool:
        """Whether real tokens are told apart from padding: by a mask, or by packed samples."""
        return self.is_packed or bool(self.padded_tokens)

    @property
    def constant_width(self) -> int | None:
        """Tokens to which every row is padded; None if widths differ, or nothing is padded."""
        width = int(self.widths[0])
        return width if self.padded_tokens and bool((self.widths == width).all()) else None


def why_unreadable(dataset: Any) -> str:
    """Return why the rows of a data set cannot be read from its table; empty if they can. They are
    read from the Arrow table of a `datasets.Dataset`: to iterate takes longer.
    """
    if type(dataset).__module__.partition(".")[0] != "datasets":  # a class of the user's own
        return "the data set makes its samples itself"
    if not hasattr(dataset, "data"):  # an IterableDataset has no table
        return "the data set is a stream"
    if (dataset.format or {}).get("type") == "custom":  # by set_transform
        return "the data set transforms its samples on the fly"
    if "input_ids" not in dataset.column_names:
        return "the data set has no column input_ids"
    return ""


def prepared_rows(dataset: Any, collating: Collating) -> PreparedRows | None:
    """Return the rows of a `datasets.Dataset`. Raises InputError where there is none. None where
    labels and ids of a row differ in number, as those of a decoder and an encoder do.
    """
    known_columns = ("input_ids", "attention_mask", "labels", "seq_lengths")
    columns = [name for name in known_columns if name in dataset.column_names]
    # `[:]` applies a selection or shuffling of the data set, which its bare table does not have.
    table: pa.Table = dataset.select_columns(columns).with_format("arrow")[:]
    if not len(table):
        raise InputError("the trainer's data set has no row", "check what filters it")
    # (n_rows + 1,) row i has the token ids ids[id_offsets[i] : id_offsets[i + 1]].
    id_offsets, ids = _flattened(table, "input_ids")
    label_offsets, labels = _labels(table, collating, id_offsets, ids)
    if not np.array_equal(label_offsets, id_offsets):
        return None
    is_real = np.ones(len(ids), dtype=bool)  # of each token id
    if collating.reads_mask and "attention_mask" in columns:
        is_real = _flattened(table, "attention_mask")[1] != 0
    # A sample for each row: its real tokens. It has the same ids as the row, padding included.
    row_offsets: Ints = np.arange(len(id_offsets))
    lengths, sample_offsets = sum_groups(is_real.astype(np.int64), id_offsets), id_offsets
    # TRL's pack_dataset adds this column: the lengths of the samples in each row.
    if "seq_lengths" in columns:
        row_offsets, lengths = _flattened(table, "seq_lengths")
        sample_offsets = offsets_from_sizes(lengths)
    is_shifted = labels is None or bool(((labels == IGNORED) | (labels == ids)).all())
    trained, trained_padding = None, 0
    if labels is not None:
        has_loss = labels != IGNORED
        # Nothing predicts the first token of a row, or of a sample in it: its label does not count.
        if is_shifted:
            for offsets in (id_offsets, sample_offsets):
                has_loss[first_of_groups(offsets)] = False
        trained = sum_groups(has_loss.astype(np.int64), sample_offsets)
        trained_padding = int(np.count_nonzero(has_loss & ~is_real))
    return PreparedRows(
        widths=np.diff(id_offsets),
        lengths=lengths,
        row_offsets=row_offsets,
        trained=trained,
        is_shifted=is_shifted,
        trained_padding=trained_padding,
        text_lengths=_text_lengths(ids, id_offsets, collating.pad_token_id),
    )


def _labels(
    table: "pa.Table", collating: Collating, offsets: Ints, ids: Ints
) -> tuple[Ints, Ints | None]:
    """Find the labels of rows, by the rules of the collator."""
    if collating.labels == "ids but padding":
        # DataCollatorForLanguageModeling of transformers ignores that id also within texts.
        return offsets, np.where(ids == collating.pad_token_id, IGNORED, ids)
    # Lists are labels of tokens; a column of numbers has one for each row, as of a classification.
    # "random" ones are drawn when a batch is made, whatever the column holds.
    if collating.labels != "random" and "labels" in table.column_names:
        kind = str(table.schema.field("labels").type)
        if kind.startswith(("list<", "large_list<")):
            return _flattened(table, "labels")
    return offsets, ids if collating.labels == "column or ids" else None


def _text_lengths(ids: Ints, offsets: Ints, pad_token_id: int | None) -> Ints:
    """Return (n_rows,) the tokens of each row up to its last token that is not the padding token,
    and one more: a text may end in that token once. `7 8 0 0 0` with pad_token_id 0 -> 3.
    """
    widths = np.diff(offsets)
    if pad_token_id is None or not len(ids):
        return widths
    # (n_ids + 1,) for each place, the end of the last text token before it; 0 without any.
    ends = np.where(ids == pad_token_id, 0, np.arange(1, len(ids) + 1))
    last_ends = np.maximum.accumulate(np.concatenate([[0], ends]))
    # Where a row has no text token, that is before its beginning: its text has 0 tokens.
    without_padding = np.maximum(last_ends[offsets[1:]] - offsets[:-1], 0)
    text_lengths: Ints = np.minimum(without_padding + 1, widths)
    return text_lengths


def _flattened(table: "pa.Table", name: str) -> tuple[Ints, Ints]:
    import pyarrow.compute as pc

    sizes = pc.list_value_length(table[name]).fill_null(0).to_numpy()
    values = pc.list_flatten(table[name]).to_numpy()
    return offsets_from_sizes(sizes.astype(np.int64)), values.astype(np.int64)
