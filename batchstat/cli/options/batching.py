"""Options for batching, for distributing batches to ranks and for sampling by class."""

from typing import Annotated

from batchstat.cli.options.base import BATCHING, CLASSES, RANKS, option

Strategies = Annotated[
    list[str] | None,
    option(
        BATCHING,
        "A strategy to compare: NAME or NAME:key=value,key=value. Repeatable.",
        "fixed, static, bucketed, token-budget, packed",
        "SPEC",
        "--strategy",
    ),
]
Presets = Annotated[
    list[str] | None,
    option(
        BATCHING,
        "Add a row that reproduces another library: hf-trainer, hf-group-by-length, fairseq, "
        "lhotse, trl, axolotl, tf-data, infinibatch or asym. Repeatable.",
        False,
        "NAME",
        "--preset",
    ),
]
Every = Annotated[bool, option(BATCHING, "Compare every strategy.", False, None, "--all")]
Seeds = Annotated[
    int | None, option(BATCHING, "Repeat with N seeds and report the spread.", "1", "N")
]
Sample = Annotated[
    str | None,
    option(
        BATCHING,
        "Estimate from this share of the corpus, with a confidence interval; not for check.",
        "the whole corpus",
        "1%",
    ),
]
Model = Annotated[
    str | None,
    option(
        BATCHING,
        "Estimate a transformer's compute: hidden=768,layers=12, or a folder with config.json.",
        False,
        "SHAPE",
    ),
]
Buckets = Annotated[int | None, option(BATCHING, "Number of buckets.", "8", "K")]
Least = Annotated[int | None, option(BATCHING, "Fewest samples per bucket.", "1", "N")]
Cost = Annotated[
    str | None,
    option(
        BATCHING,
        "What to minimise: linear (padding), quadratic (attention) or model (the cost by --model).",
        "model with --model, else linear",
        "COST",
    ),
]
TokensPerBatch = Annotated[
    int | None,
    option(
        BATCHING,
        "Budget: most total tokens per batch, padding included.",
        "batch-size x max-length, else 16384 or max-length",
        "N",
    ),
]
MaxLength = Annotated[
    int | None,
    option(
        BATCHING, "Most tokens per sample.", "the tokenizer's maximum or the longest sample", "N"
    ),
]
Overflow = Annotated[
    str | None,
    option(
        BATCHING, "What happens to longer samples: truncate, drop or split.", "truncate", "RULE"
    ),
]
BatchSize = Annotated[
    int | None,
    option(
        BATCHING,
        "Samples per batch of fixed, static and bucketed.",
        "tokens-per-batch // max-length",
        "N",
    ),
]
ReadAhead = Annotated[
    int | None,
    option(BATCHING, "How many samples are sorted together (the sort window).", "10000", "N"),
]
MaxSamples = Annotated[
    int | None,
    option(BATCHING, "Most samples per batch of a strategy with a token budget.", "no limit", "N"),
]
PadToMultipleOf = Annotated[
    int | None, option(BATCHING, "Round row widths up to a multiple of N.", "1", "N")
]
DropLast = Annotated[
    bool | None,
    option(
        BATCHING,
        "Drop an incomplete last batch.",
        False,
        None,
        "--drop-last/--no-drop-last",
    ),
]
WorldSize = Annotated[int | None, option(RANKS, "Number of ranks.", "1", "N")]
Deal = Annotated[
    str | None,
    option(
        RANKS,
        "What is distributed across ranks: batches of one plan in turn, samples (as torch's "
        "DistributedSampler), independent (samples, with a different seed on each rank), chunks of "
        "the corpus, or balanced (batches of similar cost in each step).",
        "batches",
        "RULE",
    ),
]
Tail = Annotated[
    str | None,
    option(
        RANKS,
        "Batches that do not divide evenly over ranks: repeat, drop, uneven, dummy (steps) or "
        "spread over all.",
        "repeat",
        "RULE",
    ),
]
Accumulate = Annotated[
    int | None, option(RANKS, "Batches per optimizer step, on each rank.", "1", "N")
]
Order = Annotated[
    str | None,
    option(BATCHING, "Order of samples: file, shuffled or blocks.", "shuffled", "ORDER"),
]
Seed = Annotated[int | None, option(BATCHING, "Random seed (combined with --epoch).", "0", "N")]
Epoch = Annotated[int | None, option(BATCHING, "Epoch to simulate, from 0.", "0", "N")]
Sampler = Annotated[
    str | None,
    option(
        CLASSES,
        "How an epoch samples classes: none, downsampling, upsampling, count=N, "
        "weights=A:1,B:3, dynamic, per-batch:classes=P,samples=K or weighted-random.",
        "none",
        "SPEC",
    ),
]
Samplers = Annotated[
    list[str] | None,
    option(
        CLASSES,
        "A sampler to compare: none, downsampling, upsampling, count=N, weights=A:1,B:3, dynamic, "
        "per-batch:classes=P,samples=K or weighted-random. Repeatable.",
        "none, downsampling, upsampling, weighted-random, dynamic",
        "SPEC",
        "--sampler",
    ),
]
KeepLabels = Annotated[
    list[str] | None,
    option(
        CLASSES,
        "Use only samples with these labels: A,B, or a JSON list if labels contain commas. "
        "Repeatable.",
        "all",
        "LABELS",
    ),
]
Epochs = Annotated[
    int | None, option(CLASSES, "Number of epochs over which coverage is tracked.", "10", "N")
]
Strategy = Annotated[
    str | None,
    option(BATCHING, "One strategy: name or name:key=value,key=value.", "token-budget", "SPEC"),
]
