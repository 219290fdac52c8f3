"""Options that name a corpus and say how to read it."""

from pathlib import Path
from typing import Annotated

import typer

from batchstat.cli.options.base import CORPUS, local_path, option

Corpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CORPUS",
        help="Files, folders, glob patterns, URLs, or - for standard input: .txt .csv .tsv .jsonl "
        ".json .parquet .arrow .npy, each also .gz .bz2 .xz .zst. Default: the configuration's.",
    ),
]
OptionalCorpus = Annotated[
    list[str] | None,
    typer.Argument(
        metavar="CORPUS",
        help="As for batchstat profile. Default: the configuration's, else the profile in the "
        "results folder.",
    ),
]
Tokenizer = Annotated[
    str | None,
    option(
        CORPUS, "Name on the Hugging Face Hub, local folder or tokenizer.json.", "builtin", "NAME"
    ),
]
InputFormat = Annotated[
    str | None,
    option(CORPUS, "Format of the corpus, whatever the file names.", "by file name", "FORMAT"),
]
TextColumn = Annotated[
    list[str] | None,
    option(
        CORPUS,
        "Column with the text; give it twice for pairs; a number from 0 with --no-header.",
        "the only text column, or text, content, sentence, review, prompt",
        "COLUMN",
    ),
]
MessagesColumn = Annotated[
    str | None, option(CORPUS, "Column with chat messages, instead of text.", False, "COLUMN")
]
ChatTemplate = Annotated[
    Path | None,
    option(CORPUS, "Jinja chat template.", "the tokenizer's", "FILE", parser=local_path),
]
TokensColumn = Annotated[
    str | None, option(CORPUS, "Column with lists of token ids, instead of text.", False, "COLUMN")
]
LengthColumn = Annotated[
    str | None, option(CORPUS, "Column with token counts, instead of text.", False, "COLUMN")
]
LabelColumn = Annotated[
    str | None,
    option(CORPUS, "Column with the class label, or with a list of labels.", False, "COLUMN"),
]
Header = Annotated[
    bool | None,
    option(
        CORPUS,
        "Whether .csv and .tsv files begin with column names.",
        "header",
        None,
        "--header/--no-header",
    ),
]
Quote = Annotated[
    bool | None,
    option(
        CORPUS,
        "Whether fields of .csv and .tsv may be quoted.",
        "quoted in .csv, not in .tsv",
        None,
        "--quote/--no-quote",
    ),
]
Strip = Annotated[
    bool | None,
    option(
        CORPUS, "Strip whitespace from both ends of each text.", False, None, "--strip/--no-strip"
    ),
]
MinChars = Annotated[
    int | None,
    option(
        CORPUS, "Skip samples with fewer characters; blank ones are always skipped.", False, "N"
    ),
]
OnError = Annotated[
    str | None,
    option(CORPUS, "What to do with a bad record: fail, or skip and count it.", "fail", "RULE"),
]
NoCache = Annotated[
    bool,
    option(
        CORPUS,
        "Do not read or write the cache.",
        False,
        None,
        "--no-cache",
    ),
]
