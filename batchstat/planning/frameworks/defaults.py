"""Frameworks whose batching is one of batchstat's own strategies with other parameters."""

from dataclasses import dataclass
from typing import ClassVar

from batchstat.parameters import described
from batchstat.planning.strategies.boundaries import Boundaries
from batchstat.planning.strategies.static import Static
from batchstat.planning.strategies.token_budget import TokenBudget


@described(
    """Hugging Face Trainer with its defaults (transformers 5: per_device_train_batch_size=8,
    train_sampling_strategy='random' and a padding collator): shuffled samples, padded to the
    longest of their batch. The order is that of its `seed`.

    Ranks: accelerate distributes batches in turn, and fills up the last ones with the first samples
    (even_batches), or with dataloader_drop_last drops them. Last batch: kept; with one rank it is
    short. Longer samples: truncated by the tokenizer. Budget: none; `batch_size` samples (8 unless
    one is given), whatever their length.
    """
)
@dataclass(frozen=True, kw_only=True)
class HfTrainer(Static):
    order: ClassVar[str | None] = "torch"
    distribute: ClassVar[str | None] = "batches"
    remainder: ClassVar[str | None] = "fill"
    usual_batch_size: ClassVar[int | None] = 8
    loss: ClassVar[str] = "num-items-in-batch"
    samples_per_second: ClassVar[int] = 1_000_000


@described(
    """tf.data's bucket_by_sequence_length with tensor2tensor's edges: from 8 below `max_length`,
    each a tenth above the last.

    Ranks: shard() distributes samples in turn, each rank batches its own. Last batch: kept; samples
    left in each bucket come last; drop_remainder is leftovers=drop. Longer samples: in the last
    bucket. Budget: `tokens_per_batch` // upper edge samples; tensor2tensor also rounds that down to
    divisors of a highly composite number, which is not reproduced here.
    """
)
@dataclass(frozen=True, kw_only=True)
class TfData(Boundaries):
    distribute: ClassVar[str | None] = "samples"
    remainder: ClassVar[str | None] = "uneven"

    max_length: int
    exclusive: bool = True
    shuffle_batches: bool = False

    def __post_init__(self) -> None:
        super().__post_init__()
        # tensor2tensor's edges: from 8, each a tenth, at least 1, above the last, to `max_length`.
        if not self.boundaries and self.buckets is None:
            edges, edge = [], 8
            while edge < self.max_length:
                edges.append(edge)
                edge = max(edge + 1, int(edge * 1.1))
            object.__setattr__(self, "boundaries", (*edges, self.max_length))


@described(
    """infinibatch's BucketedReadaheadBatchIterator with read_ahead=10000 and a batch_size that
    divides the budget by the longest.

    Ranks: chunked_dataset_iterator distributes chunks of the corpus, each rank batches its own.
    Last batch: kept; each window ends with a short batch. Longer samples: a batch of one, over the
    budget, silently. Budget: rows × longest is at most the budget.
    """
)
@dataclass(frozen=True, kw_only=True)
class Infinibatch(TokenBudget):
    distribute: ClassVar[str | None] = "chunks"
    remainder: ClassVar[str | None] = "uneven"
    own_parameters: ClassVar[tuple[str, ...]] = ("read_ahead",)

    read_ahead: int = 10_000
