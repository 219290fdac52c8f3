"""How samples are batched, dealt to ranks and drawn by class."""

from typing import Annotated

from batchstat.cli.options.base import BATCHING, CLASSES, RANKS, option

Strategies = Annotated[
    list[str] | None,
    option(
        BATCHING,
        "A row: name or name:key=value,key=value. Repeatable.",
        "fixed, static, bucketed, token-budget, packed",
        "SPEC",
        "--strategy",
    ),
]
Presets = Annotated[
    list[str] | None,
    option(
        BATCHING,
        "A row more, as others batch: hf-trainer, hf-group-by-length, fairseq, lhotse, trl, "
        "axolotl, tf-data, infinibatch or asym. Repeatable.",
        False,
        "NAME",
        "--preset",
    ),
]
Every = Annotated[bool, option(BATCHING, "A row for every strategy.", False, None, "--all")]
Seeds = Annotated[
    int | None, option(BATCHING, "Try so many seeds, and say how padding varies.", "1", "N")
]
Sample = Annotated[
    str | None,
    option(
        BATCHING,
        "An estimate by so much of the corpus, with a confidence interval; not for check.",
        "all of it",
        "1%",
    ),
]
Model = Annotated[
    str | None,
    option(
        BATCHING,
        "Estimate a transformer's cost: hidden=768,layers=12, or a folder with its config.json.",
        False,
        "SHAPE",
    ),
]
Buckets = Annotated[int | None, option(BATCHING, "How many buckets.", "8", "K")]
Least = Annotated[int | None, option(BATCHING, "Samples in each bucket, at least.", "1", "N")]
Cost = Annotated[
    str | None,
    option(
        BATCHING,
        "What to minimise: linear is padding, quadratic is attention, model is --model's.",
        "linear, or model where there is one",
        "COST",
    ),
]
TokensPerBatch = Annotated[
    int | None,
    option(
        BATCHING,
        "Budget: most total tokens per batch, padding counted.",
        "batch-size x max-length, else 16384 or max-length",
        "N",
    ),
]
MaxLength = Annotated[
    int | None,
    option(BATCHING, "Most tokens a sample.", "the tokenizer's maximum or the longest sample", "N"),
]
Overflow = Annotated[
    str | None,
    option(BATCHING, "Longer samples: truncate, drop or split.", "truncate", "RULE"),
]
BatchSize = Annotated[
    int | None,
    option(
        BATCHING,
        "Samples a batch of fixed, static, bucketed.",
        "tokens-per-batch // max-length",
        "N",
    ),
]
ReadAhead = Annotated[
    int | None, option(BATCHING, "Samples looked at together for sorting.", "10000", "N")
]
MaxSamples = Annotated[
    int | None, option(BATCHING, "Most samples a batch where a budget decides.", "no limit", "N")
]
PadToMultipleOf = Annotated[
    int | None, option(BATCHING, "Round widths up to a multiple.", "1", "N")
]
DropLast = Annotated[
    bool | None,
    option(
        BATCHING,
        "Leave an incomplete last batch out.",
        False,
        None,
        "--drop-last/--no-drop-last",
    ),
]
WorldSize = Annotated[int | None, option(RANKS, "How many ranks.", "1", "N")]
Deal = Annotated[
    str | None,
    option(
        RANKS,
        "What is dealt to them: batches of one plan in turn, samples as torch's "
        "DistributedSampler, unsynced where each rank has random numbers of its own, chunks of "
        "the corpus, or balanced: batches of like cost at a time.",
        "batches",
        "RULE",
    ),
]
Tail = Annotated[
    str | None,
    option(
        RANKS,
        "What does not go round: repeat, drop, uneven, empty (steps) or spread over all.",
        "repeat",
        "RULE",
    ),
]
Accumulate = Annotated[int | None, option(RANKS, "Batches a step, on each rank.", "1", "N")]
Order = Annotated[
    str | None,
    option(BATCHING, "Sequence of samples: file, shuffled or blocks.", "shuffled", "ORDER"),
]
Seed = Annotated[int | None, option(BATCHING, "Of all randomness, with --epoch.", "0", "N")]
Epoch = Annotated[int | None, option(BATCHING, "Which epoch.", "0", "N")]
Balance = Annotated[
    str | None,
    option(
        CLASSES,
        "Which samples an epoch visits, by class: none, downsampling, upsampling, count=N, "
        "weights=A:1,B:3, dynamic, per-batch:classes=P,samples=K or weighted-random.",
        "none",
        "SPEC",
    ),
]
Samplers = Annotated[
    list[str] | None,
    option(
        CLASSES,
        "A row: none, downsampling, upsampling, count=N, weights=A:1,B:3, dynamic, "
        "per-batch:classes=P,samples=K or weighted-random. Repeatable.",
        "none, downsampling, upsampling, weighted-random, dynamic",
        "SPEC",
        "--balance",
    ),
]
KeepLabels = Annotated[
    list[str] | None,
    option(
        CLASSES,
        "Only samples of these labels: A,B, or a JSON list where labels have commas. Repeatable.",
        "all",
        "LABELS",
    ),
]
Epochs = Annotated[
    int | None, option(CLASSES, "Follow what is seen over so many epochs.", "10", "N")
]
Strategy = Annotated[
    str | None,
    option(BATCHING, "One strategy: name or name:key=value,key=value.", "token-budget", "SPEC"),
]
