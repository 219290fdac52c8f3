"""What a corpus is, and how it is read."""

from pathlib import Path
from typing import Annotated

import typer

from batchstat.cli.options.base import CORPUS, local_path, option

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
Tokenizer = Annotated[
    str | None,
    option(CORPUS, "Hub name, local folder or tokenizer.json.", "builtin", "NAME"),
]
InputFormat = Annotated[
    str | None,
    option(CORPUS, "How to read it, whatever the files' names.", "by name", "FORMAT"),
]
TextColumn = Annotated[
    list[str] | None,
    option(
        CORPUS,
        "Column of the text; twice for a pair; a number from 0 with --no-header.",
        "the only text column, or text, content, sentence, review, prompt",
        "COLUMN",
    ),
]
MessagesColumn = Annotated[
    str | None, option(CORPUS, "Column of a chat, instead of text.", False, "COLUMN")
]
ChatTemplate = Annotated[
    Path | None,
    option(CORPUS, "Jinja template of chats.", "the tokenizer's", "FILE", parser=local_path),
]
TokensColumn = Annotated[
    str | None, option(CORPUS, "Column of lists of token ids, instead of text.", False, "COLUMN")
]
LengthColumn = Annotated[
    str | None, option(CORPUS, "Column of numbers of tokens, instead of text.", False, "COLUMN")
]
LabelColumn = Annotated[
    str | None, option(CORPUS, "Column of the class, or of lists of them.", False, "COLUMN")
]
Header = Annotated[
    bool | None,
    option(CORPUS, "Whether .csv and .tsv name columns.", "header", None, "--header/--no-header"),
]
Quote = Annotated[
    bool | None,
    option(
        CORPUS,
        "Whether fields may be quoted.",
        "quoted in .csv, not in .tsv",
        None,
        "--quote/--no-quote",
    ),
]
Strip = Annotated[
    bool | None,
    option(CORPUS, "Take white space off both ends of a text.", False, None, "--strip/--no-strip"),
]
MinChars = Annotated[
    int | None,
    option(CORPUS, "Skip samples of fewer characters; blank ones always are.", False, "N"),
]
OnError = Annotated[
    str | None,
    option(CORPUS, "A record that cannot be read: fail, or skip and count.", "fail", "RULE"),
]
NoCache = Annotated[
    bool,
    option(
        CORPUS,
        "Count again what was counted before, and keep nothing in the cache.",
        False,
        None,
        "--no-cache",
    ),
]
