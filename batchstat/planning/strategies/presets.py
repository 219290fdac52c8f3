"""Presets: what other libraries run, as a strategy with their behaviour at the edges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from batchstat.errors import unknown


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A strategy that reproduces another library.

    Attributes:
        spec: the strategy as it is written, for a `max_length`.
        what: the library's feature and its settings.
        order: the order of samples; None for that of the settings.
        distribute: how it distributes across ranks; None to use the settings.
        remainder: what it does with batches that do not divide evenly: a `remainder` of the
            settings.
        ranks: how it distributes across ranks, in words.
        last_batch: what happens to samples that do not fill a batch.
        long: what the library does with samples above the maximum or the budget; in batchstat,
            overflow is applied before any strategy.
        budget: the limit on the size of its batches.
    """

    spec: Callable[[int], str]
    what: str
    order: str | None = None
    distribute: str | None
    remainder: str | None
    ranks: str
    last_batch: str
    long: str
    budget: str


def find_preset(name: str) -> Preset:
    """Return the preset with this name. Raises OptionError with the nearest, if there is none."""
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name]


def preset_spec(name: str, max_length: int) -> str:
    """Return the strategy of a preset for samples of at most `max_length` tokens.

    Raises:
        OptionError: no preset has this name; the message suggests the nearest.
    """
    return find_preset(name).spec(max_length)


def _tensor2tensor(max_length: int) -> str:
    """Return tensor2tensor's edges: from 8, each a tenth above the last, and the `max_length`."""
    edges, edge = [], 8
    while edge < max_length:
        edges.append(edge)
        edge = max(edge + 1, int(edge * 1.1))
    written = ",".join(map(str, [*edges, max_length]))
    return f"boundaries:boundaries={written},exclusive=true,shuffle_batches=false"


_ACCELERATE: Mapping[str, str] = {
    "distribute": "batches",
    "remainder": "repeat",
    "ranks": "accelerate: batches in turn, filled up with the first ones (even_batches)",
    "last_batch": "kept: the last batch is short, unless dataloader_drop_last",
    "long": "truncated by the tokenizer",
    "budget": "none: batch_size samples, whatever their length",
}
"""Behaviour of the Trainer with any sampler."""

PRESETS: Mapping[str, Preset] = {
    "hf-trainer": Preset(
        spec=lambda _: "static:batch_size=8",
        what="Hugging Face Trainer with its defaults (transformers 5: "
        "per_device_train_batch_size=8, train_sampling_strategy='random' and a padding collator): "
        "shuffled samples, padded to the longest of their batch",
        order="shuffled",
        **_ACCELERATE,
    ),
    "hf-group-by-length": Preset(
        spec=lambda _: "length-grouped:batch_size=8",
        what="Hugging Face Trainer with train_sampling_strategy='group_by_length' (transformers 5; "
        "group_by_length=True before): mega-batches of 50 steps, or fewer so that there are four "
        "of them, sorted longest first; the longest sample of all comes first",
        order="shuffled",
        **_ACCELERATE,
    ),
    "fairseq": Preset(
        spec=lambda _: "max-tokens:required_batch_size_multiple=8",
        what="fairseq with --max-tokens: all samples sorted, batches of a multiple of 8 samples, "
        "or of fewer than 8",
        distribute="batches",
        remainder="dummy",
        ranks="batches in turn; ranks without a batch left run an empty step",
        last_batch="the last batch is dropped if its size is not a multiple of 8 "
        "(--required-batch-size-multiple)",
        long="an error, or dropped with --skip-invalid-size-inputs-valid-test",
        budget="rows x longest is at most --max-tokens",
    ),
    "lhotse": Preset(
        spec=lambda _: "dynamic-buckets",
        what="lhotse's DynamicBucketingSampler with shuffle=True: 10 buckets with as many tokens "
        "each, a buffer of 20,000 samples, a random bucket for every batch",
        distribute="batches",
        remainder="spread",
        ranks="batches in turn; the samples of the last ones are spread over all ranks, and "
        "repeated if there are fewer samples than ranks",
        last_batch="kept as short batches; drop_last drops the samples left in all buckets",
        long="a batch of one, with a warning",
        budget="checked after a sample has joined: a longer last one takes the batch over it",
    ),
    "trl": Preset(
        spec=lambda _: "packed:method=bfd,read_ahead=1000,within_samples=true",
        what="TRL's SFTTrainer with packing=True: best fit decreasing, 1,000 samples at a time; "
        "padding_free is implied, so attention keeps samples apart",
        distribute="batches",
        remainder="repeat",
        ranks=_ACCELERATE["ranks"],
        last_batch="each 1,000 samples leave rows that are not full",
        long="truncated to max_length (bfd), or split: --overflow split (bfd_split)",
        budget="rows of max_length",
    ),
    "axolotl": Preset(
        spec=lambda _: (
            "packed:method=first-fit,read_ahead=100000,max_samples_per_row=200,within_samples=true"
        ),
        what="axolotl with sample_packing: first fit in the sampler's order, 100,000 samples at a "
        "time, at most 200 per row; its attention keeps samples apart",
        distribute="batches",
        remainder="drop",
        ranks="batches in turn; all ranks stop with the shortest",
        last_batch="kept",
        long="dropped before packing; any that remain get a row of their own, over its length",
        budget="rows of sequence_len",
    ),
    "tf-data": Preset(
        spec=_tensor2tensor,
        what="tf.data's bucket_by_sequence_length with tensor2tensor's edges, from 8, each a tenth "
        "above the last",
        distribute="samples",
        remainder="uneven",
        ranks="shard(): samples in turn, each rank batches its own",
        last_batch="kept: samples left in each bucket come last; drop_remainder is leftovers=drop",
        long="go into the last bucket",
        budget="budget // upper edge samples; tensor2tensor also rounds that down to divisors of "
        "a highly composite number, which is not reproduced here",
    ),
    "infinibatch": Preset(
        spec=lambda _: "token-budget:read_ahead=10000",
        what="infinibatch's BucketedReadaheadBatchIterator with read_ahead=10000 and a batch_size "
        "that divides the budget by the longest",
        distribute="chunks",
        remainder="uneven",
        ranks="chunked_dataset_iterator: chunks of the corpus, each rank batches its own",
        last_batch="kept: each window ends with a short batch",
        long="a batch of one, over the budget, silently",
        budget="rows x longest is at most the budget",
    ),
    "asym": Preset(
        spec=lambda _: "grouped:rule=equal-cost",
        what="asym's batch grouping: each step split by length into four batches of about equal "
        "cost, their gradients summed",
        distribute=None,
        remainder=None,
        ranks="not defined: as set by --distribute and --remainder",
        last_batch="kept: the last step is short",
        long="go into the last group",
        budget="none: batch_size samples per step",
    ),
}
