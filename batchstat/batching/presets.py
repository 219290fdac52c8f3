"""What people run, by the name of who wrote it: a strategy, and what it does at the edges."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from batchstat.errors import unknown


@dataclass(frozen=True, kw_only=True)
class Preset:
    """A strategy as another library has it.

    Attributes:
        spec: the strategy as it is written, for a `max_length`.
        what: what it is, where it stands.
        tail: what becomes of samples that fill no batch.
        long: what becomes of samples above the maximum or the budget, there; here overflow comes
            before all strategies.
        budget: what its batches hold to.
    """

    spec: Callable[[int], str]
    what: str
    tail: str
    long: str
    budget: str


def preset_spec(name: str, max_length: int) -> str:
    """The strategy of a preset for samples of at most `max_length` tokens.

    Raises:
        OptionError: no preset has this name; the message says the nearest.
    """
    if name not in PRESETS:
        raise unknown("preset", name, PRESETS)
    return PRESETS[name].spec(max_length)


def _tensor2tensor(max_length: int) -> str:
    """Edges from 8, each a tenth above the last, and the `max_length`."""
    edges, edge = [], 8
    while edge < max_length:
        edges.append(edge)
        edge = max(edge + 1, int(edge * 1.1))
    written = ",".join(map(str, [*edges, max_length]))
    return f"boundaries:boundaries={written},exclusive=true,shuffle_batches=false"


PRESETS: Mapping[str, Preset] = {
    "hf-trainer": Preset(
        spec=lambda _: "length-grouped",
        what="Hugging Face Trainer with train_sampling_strategy='group_by_length': mega-batches of "
        "50 steps, or fewer so that there are four of them, sorted longest first; the longest "
        "sample of all begins",
        tail="kept: the last batch is short, unless dataloader_drop_last",
        long="truncated by the tokenizer",
        budget="none: batch_size samples, whatever their length",
    ),
    "fairseq": Preset(
        spec=lambda _: "max-tokens:required_batch_size_multiple=8",
        what="fairseq with --max-tokens: all samples sorted, batches of a multiple of 8 samples or "
        "of fewer than 8",
        tail="the last batch is dropped where its size is no multiple of 8 "
        "(--required-batch-size-multiple)",
        long="an error, or left out with --skip-invalid-size-inputs-valid-test",
        budget="rows x longest is at most --max-tokens",
    ),
    "lhotse": Preset(
        spec=lambda _: "dynamic-buckets",
        what="lhotse's DynamicBucketingSampler with shuffle=True: 10 buckets with as many tokens "
        "each, a buffer of 20,000 samples, a random bucket for every batch",
        tail="kept as short batches; drop_last drops what all buckets have left",
        long="a batch of one, with a warning",
        budget="asked for after a sample has joined: a longer last one takes the batch over it",
    ),
    "trl": Preset(
        spec=lambda _: "packed:method=bfd,read_ahead=1000,within_samples=true",
        what="TRL's SFTTrainer with packing=True: best fit decreasing, 1,000 samples at a time; "
        "padding_free comes with it, so that attention keeps samples apart",
        tail="each 1,000 samples leave rows that are not full",
        long="truncated to max_length (bfd), or cut into parts: --overflow split (bfd_split)",
        budget="rows of max_length",
    ),
    "axolotl": Preset(
        spec=lambda _: (
            "packed:method=first-fit,read_ahead=100000,max_samples_per_row=200,within_samples=true"
        ),
        what="axolotl with sample_packing: first fit in the sampler's sequence, 100,000 samples at "
        "a time, at most 200 in a row; its attention keeps samples apart",
        tail="kept; over ranks the shortest one decides",
        long="dropped before packing; what slips through has a row alone, over its length",
        budget="rows of sequence_len",
    ),
    "tf-data": Preset(
        spec=_tensor2tensor,
        what="tf.data's bucket_by_sequence_length with tensor2tensor's edges, from 8, each a tenth "
        "above the last",
        tail="kept: what each bucket has left comes last; drop_remainder is leftovers=drop",
        long="the last bucket takes them",
        budget="budget // upper edge samples; tensor2tensor rounds that down to divisors of a "
        "number with many, which is left out here",
    ),
    "infinibatch": Preset(
        spec=lambda _: "token-budget:read_ahead=10000",
        what="infinibatch's BucketedReadaheadBatchIterator with read_ahead=10000 and a batch_size "
        "that divides the budget by the longest",
        tail="kept: each window ends with a short batch",
        long="a batch of one, over the budget, silently",
        budget="rows x longest is at most the budget",
    ),
    "asym": Preset(
        spec=lambda _: "grouped:rule=equal-cost",
        what="asym's batch grouping: each step split by length into four batches of about equal "
        "cost, their gradients summed",
        tail="kept: the last step is short",
        long="the last group takes them",
        budget="none: batch_size samples a step",
    ),
}
