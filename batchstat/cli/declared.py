"""Options of the command line, each as typer has it: how it is written, what `--help` says."""

from pathlib import Path
from typing import Annotated, Any

import typer

from batchstat.storage import as_path

_BATCHING, _RANKS, _CORPUS = "Batching", "Ranks", "Corpus"
_LIMITS, _OUTPUT, _CLASSES, _ENGINE = "Limits", "Output", "Classes", "Engine"


def _option(panel: str, help: str, default: str | bool, metavar: str | None, *flags: str) -> Any:
    return typer.Option(
        *flags,
        help=help,
        show_default=default,
        metavar=metavar,
        rich_help_panel=panel,
        readable=False,
    )


Corpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CORPUS",
        help="Files, folders, patterns or addresses of them, - for standard input: .txt .csv .tsv "
        ".jsonl .json .parquet .arrow .npy, each also .gz .bz2 .xz .zst; else the configuration's.",
    ),
]
OptionalCorpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CORPUS",
        help="As of profile; else the configuration's; else the profile in the results folder.",
    ),
]

Output = Annotated[
    Path,
    typer.Option(
        *("-o", "--output"),
        help="Results folder, or an address of one.",
        parser=as_path,
        metavar="DIR",
        rich_help_panel=_OUTPUT,
    ),
]
AsJson = Annotated[bool, _option(_OUTPUT, "Print the JSON that is written.", False, None, "--json")]
Plots = Annotated[bool, _option(_OUTPUT, "Draw plots.", True, None, "--plots/--no-plots")]

Tokenizer = Annotated[
    str | None,
    _option(_CORPUS, "Hub name, local folder or tokenizer.json.", "builtin", "NAME"),
]
InputFormat = Annotated[
    str | None,
    _option(_CORPUS, "How to read it, whatever the files' names.", "by name", "FORMAT"),
]
TextColumn = Annotated[
    list[str] | None,
    _option(
        _CORPUS,
        "Column of the text; twice for a pair; a number from 0 with --no-header.",
        "the only text column, or text, content, sentence, review, prompt",
        "COLUMN",
    ),
]
MessagesColumn = Annotated[
    str | None, _option(_CORPUS, "Column of a chat, instead of text.", False, "COLUMN")
]
ChatTemplate = Annotated[
    Path | None, _option(_CORPUS, "Jinja template of chats.", "the tokenizer's", "FILE")
]
TokensColumn = Annotated[
    str | None, _option(_CORPUS, "Column of lists of token ids, instead of text.", False, "COLUMN")
]
LengthColumn = Annotated[
    str | None, _option(_CORPUS, "Column of numbers of tokens, instead of text.", False, "COLUMN")
]
LabelColumn = Annotated[
    str | None, _option(_CORPUS, "Column of the class, or of lists of them.", False, "COLUMN")
]
Header = Annotated[
    bool | None,
    _option(_CORPUS, "Whether .csv and .tsv name columns.", "header", None, "--header/--no-header"),
]
Quote = Annotated[
    bool | None,
    _option(
        _CORPUS,
        "Whether fields may be quoted.",
        "quoted in .csv, not in .tsv",
        None,
        "--quote/--no-quote",
    ),
]
Strip = Annotated[
    bool | None,
    _option(
        _CORPUS, "Take white space off both ends of a text.", False, None, "--strip/--no-strip"
    ),
]
MinChars = Annotated[
    int | None,
    _option(_CORPUS, "Skip samples of fewer characters; blank ones always are.", False, "N"),
]

OnError = Annotated[
    str | None,
    _option(_CORPUS, "A record that cannot be read: fail, or skip and count.", "fail", "RULE"),
]

Workers = Annotated[
    int | None,
    _option(_ENGINE, "Threads or processes that count.", "as many as there are cores", "N"),
]
Engine = Annotated[
    str | None,
    _option(
        _ENGINE,
        "Who counts: threads or processes of this machine, or dask.",
        "processes for a large corpus",
        "NAME",
    ),
]
Scheduler = Annotated[
    str | None, _option(_ENGINE, "Address of the Dask scheduler.", False, "tcp://HOST:PORT")
]
Parts = Annotated[
    str | None,
    _option(
        _ENGINE,
        "Where the counts of parts are kept, so that a run begun again does what is missing; all "
        "workers must reach it.",
        "the cache; with dask, parts in the results folder",
        "DIR",
    ),
]
Shard = Annotated[
    str | None,
    _option(
        _ENGINE,
        "Count the I-th of N shares of the corpus, 1 ≤ I ≤ N, for batchstat merge.",
        False,
        "I/N",
    ),
]
AllowPartial = Annotated[
    bool,
    _option(
        _ENGINE,
        "Leave out what cannot be read, and mark the profile as partial.",
        False,
        None,
        "--allow-partial",
    ),
]

NoCache = Annotated[
    bool,
    _option(
        _CORPUS, "Count again what was counted before, and keep nothing.", False, None, "--no-cache"
    ),
]

Strategies = Annotated[
    list[str] | None,
    _option(
        _BATCHING,
        "A row: name or name:key=value,key=value. Repeatable.",
        "fixed, static, bucketed, token-budget, packed",
        "SPEC",
        "--strategy",
    ),
]
Presets = Annotated[
    list[str] | None,
    _option(
        _BATCHING,
        "A row more, as others batch: hf-trainer, fairseq, lhotse, trl, axolotl, tf-data, "
        "infinibatch or asym. Repeatable.",
        False,
        "NAME",
        "--preset",
    ),
]
Every = Annotated[bool, _option(_BATCHING, "A row for every strategy.", False, None, "--all")]
Seeds = Annotated[
    int | None, _option(_BATCHING, "Try so many seeds, and say how padding varies.", "1", "N")
]
Sample = Annotated[
    str | None,
    _option(
        _BATCHING,
        "An estimate by so much of the corpus, with a confidence interval; not for check.",
        "all of it",
        "1%",
    ),
]
Export = Annotated[
    Path | None,
    typer.Option(
        help="Write the batches of the row in bold, of all ranks, for BatchSampler.from_plan.",
        parser=as_path,
        show_default=False,
        metavar="FILE",
        rich_help_panel=_OUTPUT,
    ),
]
Model = Annotated[
    str | None,
    _option(
        _BATCHING,
        "Estimate a transformer's cost: hidden=768,layers=12, or a folder with its config.json.",
        False,
        "SHAPE",
    ),
]
Buckets = Annotated[int | None, _option(_BATCHING, "How many buckets.", "8", "K")]
Least = Annotated[int | None, _option(_BATCHING, "Samples in each bucket, at least.", "1", "N")]
Cost = Annotated[
    str | None,
    _option(
        _BATCHING,
        "What to minimise: linear is padding, quadratic is attention, model is --model's.",
        "linear, or model where there is one",
        "COST",
    ),
]
TokensPerBatch = Annotated[
    int | None, _option(_BATCHING, "Budget: most tokens a batch, padding counted.", "16384", "N")
]
MaxLength = Annotated[
    int | None,
    _option(
        _BATCHING, "Most tokens a sample.", "the tokenizer's maximum or the longest sample", "N"
    ),
]
Overflow = Annotated[
    str | None,
    _option(_BATCHING, "Longer samples: truncate, drop or split.", "truncate", "RULE"),
]
BatchSize = Annotated[
    int | None,
    _option(
        _BATCHING,
        "Samples a batch of fixed, static, bucketed.",
        "tokens-per-batch // max-length",
        "N",
    ),
]
ReadAhead = Annotated[
    int | None, _option(_BATCHING, "Samples looked at together for sorting.", "10000", "N")
]
MaxSamples = Annotated[
    int | None, _option(_BATCHING, "Most samples a batch where a budget decides.", "no limit", "N")
]
PadToMultipleOf = Annotated[
    int | None, _option(_BATCHING, "Round widths up to a multiple.", "1", "N")
]
DropLast = Annotated[
    bool | None,
    _option(
        _BATCHING,
        "Leave an incomplete last batch out.",
        False,
        None,
        "--drop-last/--no-drop-last",
    ),
]
WorldSize = Annotated[int | None, _option(_RANKS, "How many ranks.", "1", "N")]
Deal = Annotated[
    str | None,
    _option(
        _RANKS,
        "What is dealt to them: batches of one plan in turn, samples as torch's "
        "DistributedSampler, unsynced where each rank has random numbers of its own, chunks of "
        "the corpus, or balanced: batches of like cost at a time.",
        "batches",
        "RULE",
    ),
]
Tail = Annotated[
    str | None,
    _option(
        _RANKS,
        "What does not go round: repeat, drop, uneven, empty (steps) or spread over all.",
        "repeat",
        "RULE",
    ),
]
Accumulate = Annotated[int | None, _option(_RANKS, "Batches a step, on each rank.", "1", "N")]
Order = Annotated[
    str | None,
    _option(_BATCHING, "Sequence of samples: file, shuffled or blocks.", "shuffled", "ORDER"),
]
Seed = Annotated[int | None, _option(_BATCHING, "Of all randomness, with --epoch.", "0", "N")]
Epoch = Annotated[int | None, _option(_BATCHING, "Which epoch.", "0", "N")]

Balance = Annotated[
    str | None,
    _option(
        _CLASSES,
        "Which samples an epoch visits, by class: none, downsampling, upsampling, count=N, "
        "weights=A:1,B:3, dynamic, per-batch:classes=P,samples=K or weighted-random.",
        "none",
        "SPEC",
    ),
]
Samplers = Annotated[
    list[str] | None,
    _option(
        _CLASSES,
        "A row: none, downsampling, upsampling, count=N, weights=A:1,B:3, dynamic, "
        "per-batch:classes=P,samples=K or weighted-random. Repeatable.",
        "none, downsampling, upsampling, weighted-random, dynamic",
        "SPEC",
        "--balance",
    ),
]
KeepLabels = Annotated[
    list[str] | None,
    _option(
        _CLASSES,
        "Only samples of these labels: A,B, or a JSON list where labels have commas. Repeatable.",
        "all",
        "LABELS",
    ),
]
Epochs = Annotated[
    int | None, _option(_CLASSES, "Follow what is seen over so many epochs.", "10", "N")
]

Strategy = Annotated[
    str | None,
    _option(_BATCHING, "One strategy: name or name:key=value,key=value.", "token-budget", "SPEC"),
]

CheckNames = Annotated[
    list[str] | None,
    _option(_OUTPUT, "Only this check of the configuration. Repeatable.", "all", "NAME", "--check"),
]
ConfigFile = Annotated[
    Path | None,
    _option(
        _OUTPUT,
        "batchstat.toml or pyproject.toml.",
        "the nearest here or above",
        "FILE",
        "--config",
    ),
]
NoConfig = Annotated[
    bool, _option(_OUTPUT, "Leave the configuration out.", False, None, "--no-config")
]
WarnOnly = Annotated[
    bool, _option(_OUTPUT, "Report what is exceeded, and exit with 0.", False, None, "--warn-only")
]
Formats = Annotated[
    list[str] | None,
    _option(
        _OUTPUT,
        "text, json, markdown, junit or github; with =FILE into a file. Repeatable.",
        "text",
        "NAME[=FILE]",
        "--format",
    ),
]
Baseline = Annotated[
    Path | None, _option(_LIMITS, "Hold the numbers against those of a baseline.", False, "FILE")
]


def limit(help: str, metavar: str) -> Any:
    """An option for a limit, as text: 5% is no number yet."""
    return Annotated[str | None, _option(_LIMITS, help, False, metavar)]


EqualSteps = Annotated[
    bool | None,
    _option(_LIMITS, "Every rank has as many steps.", False, None, "--equal-steps"),
]
BaselineFile = Annotated[
    Path | None,
    _option(_OUTPUT, "The file.", "the configuration's, or batchstat-baseline.json", "FILE"),
]
