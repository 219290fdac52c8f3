"""Options that several commands share, and what they say in `--help`.

They are named as the fields they end in, and None where they are not given, so that every default
is stated once, where the field is.
"""

from dataclasses import fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

if TYPE_CHECKING:
    from _typeshed import DataclassInstance

DEFAULT_FOLDER = Path("batchstat-results")

_BATCHING, _CORPUS, _OUTPUT = "Batching", "Corpus", "Output"


def given(context: typer.Context, record: "type[DataclassInstance]") -> dict[str, Any]:
    """The options that the user gave, among those that are fields of `record`."""
    names = [field.name for field in fields(record)]
    values = {name: context.params.get(name) for name in names}
    return {
        name: tuple(value) if isinstance(value, list) else value
        for name, value in values.items()
        if value not in (None, [], ())
    }


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
    list[Path],
    typer.Argument(
        metavar="CORPUS",
        readable=False,  # which is for the reader to find out: exit code 3, not 2
        help="Files, folders or patterns, - for standard input: .txt .csv .tsv .jsonl .json "
        ".parquet .arrow .npy, each also .gz .bz2 .xz .zst.",
    ),
]
OptionalCorpus = Annotated[
    list[Path] | None,
    typer.Argument(
        metavar="CORPUS",
        readable=False,
        help="As of profile; without any, the profile in the results folder.",
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
    _option(_CORPUS, "Take white space off both ends of a text.", False, None, "--strip"),
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
    _option(_BATCHING, "Leave an incomplete last batch out.", False, None, "--drop-last"),
]
Accumulate = Annotated[int | None, _option(_BATCHING, "Batches a step.", "1", "N")]
Order = Annotated[
    str | None,
    _option(_BATCHING, "Sequence of samples: file, shuffled or blocks.", "shuffled", "ORDER"),
]
Seed = Annotated[int | None, _option(_BATCHING, "Of all randomness, with --epoch.", "0", "N")]
Epoch = Annotated[int | None, _option(_BATCHING, "Which epoch.", "0", "N")]
