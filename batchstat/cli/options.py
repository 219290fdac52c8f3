"""Options that several commands share, and what they say in `--help`.

They are named as the fields they end in, and None where they are not given, so that every default
is stated once, where the field is.
"""

import inspect
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Annotated, Any

import typer

DEFAULT_FOLDER = Path("batchstat-results")

_BATCHING, _CORPUS, _LIMITS, _OUTPUT = "Batching", "Corpus", "Limits", "Output"

Options = Mapping[str, Any]
"""By the names of a command's parameters: types that say how they are written."""

Command = Callable[..., None]


def takes(*groups: Options) -> Callable[[Command], Command]:
    """Gives a command options, each None unless its type says otherwise or it is required."""

    def given(command: Command) -> Command:
        signature = inspect.signature(command)
        own = [each for each in signature.parameters.values() if each.kind != each.VAR_KEYWORD]
        added = [
            inspect.Parameter(
                name,
                inspect.Parameter.KEYWORD_ONLY,
                default=_DEFAULTS.get(name),
                annotation=annotation,
            )
            for group in groups
            for name, annotation in group.items()
        ]
        command.__signature__ = signature.replace(parameters=[*own, *added])  # type: ignore[attr-defined]
        return command

    return given


def was_given(context: typer.Context, name: str) -> bool:
    """Whether the user gave an option of `takes`."""
    value = context.params.get(name)
    return value not in (None, [], ()) and value is not _DEFAULTS.get(name)


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
    list[Path] | None,
    typer.Argument(
        metavar="CORPUS",
        readable=False,  # which is for the reader to find out: exit code 3, not 2
        help="Files, folders or patterns, - for standard input: .txt .csv .tsv .jsonl .json "
        ".parquet .arrow .npy, each also .gz .bz2 .xz .zst; else the configuration's.",
    ),
]
OptionalCorpus = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="CORPUS",
        readable=False,
        help="As of profile; else the configuration's; else the profile in the results folder.",
    ),
]

Output = Annotated[Path, _option(_OUTPUT, "Results folder.", True, "DIR", "-o", "--output")]
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
    _option(_CORPUS, "Threads that count.", "as many as there are cores", "N"),
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
        "fixed, static, bucketed, token-budget",
        "SPEC",
        "--strategy",
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
    int | None, _option(_BATCHING, "Most samples a batch of token-budget.", "no limit", "N")
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
Accumulate = Annotated[int | None, _option(_BATCHING, "Batches a step.", "1", "N")]
Order = Annotated[
    str | None,
    _option(_BATCHING, "Sequence of samples: file, shuffled or blocks.", "shuffled", "ORDER"),
]
Seed = Annotated[int | None, _option(_BATCHING, "Of all randomness, with --epoch.", "0", "N")]
Epoch = Annotated[int | None, _option(_BATCHING, "Which epoch.", "0", "N")]

Strategy = Annotated[
    str | None,
    _option(
        _BATCHING, "The one to check: name or name:key=value,key=value.", "token-budget", "SPEC"
    ),
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


def _limit(help: str, metavar: str) -> Any:
    return Annotated[str | None, _option(_LIMITS, help, False, metavar)]


CORPUS: Options = {"corpus": Corpus}
OPTIONAL_CORPUS: Options = {"corpus": OptionalCorpus}
READING: Options = {
    "tokenizer": Tokenizer,
    "input_format": InputFormat,
    "text_column": TextColumn,
    "messages_column": MessagesColumn,
    "chat_template": ChatTemplate,
    "tokens_column": TokensColumn,
    "length_column": LengthColumn,
    "label_column": LabelColumn,
    "header": Header,
    "quote": Quote,
    "strip": Strip,
    "min_chars": MinChars,
    "on_error": OnError,
    "workers": Workers,
    "no_cache": NoCache,
}
BATCHING: Options = {
    "tokens_per_batch": TokensPerBatch,
    "max_length": MaxLength,
    "overflow": Overflow,
    "batch_size": BatchSize,
    "read_ahead": ReadAhead,
    "max_samples": MaxSamples,
    "pad_to_multiple_of": PadToMultipleOf,
    "drop_last": DropLast,
    "accumulate": Accumulate,
    "order": Order,
    "seed": Seed,
    "epoch": Epoch,
}
STRATEGIES: Options = {"strategy": Strategies}
STRATEGY: Options = {"strategy": Strategy}
LIMITS: Options = {
    "max_padding": _limit("Padding tokens of all tokens computed.", "5%"),
    "min_fill": _limit("How full the batches are.", "90%"),
    "max_batches": _limit("Batches an epoch.", "N"),
    "max_truncated": _limit("Tokens that max_length cuts, of the corpus.", "1%"),
    "max_dropped": _limit("Tokens that no batch holds, of the corpus.", "0.1%"),
    "max_over_budget": _limit("Batches above tokens_per_batch.", "N"),
    "max_class_ratio": _limit("Largest class / smallest.", "X"),
    "max_p99": _limit("Length that 99% of the samples do not exceed.", "N"),
    "baseline": Baseline,
    "max_increase": _limit("Padding above the baseline's; 0 unless set.", "0.5pp"),
}
CONFIGURATION: Options = {"config": ConfigFile, "no_config": NoConfig}
CHECKS: Options = {"check": CheckNames}
BASELINE: Options = {
    "baseline": Annotated[
        Path | None,
        _option(_OUTPUT, "The file.", "the configuration's, or batchstat-baseline.json", "FILE"),
    ]
}
GATE: Options = {"format": Formats, "warn_only": WarnOnly}
FOLDER: Options = {"output": Output}
FILES: Options = {"output": Output, "as_json": AsJson, "plots": Plots}

_DEFAULTS: Mapping[str, Any] = {
    "output": DEFAULT_FOLDER,
    "as_json": False,
    "plots": True,
    "no_cache": False,
    "no_config": False,
    "warn_only": False,
}
