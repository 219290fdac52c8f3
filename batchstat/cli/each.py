"""Several corpora, or the checks of a configuration, compared one by one in one table."""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from batchstat.cli.configuration import CheckSettings
from batchstat.cli.inputs import read_configuration
from batchstat.cli.options import Options
from batchstat.cli.profiles import FoundProfile
from batchstat.cli.records import Output
from batchstat.cli.results import CommandResult, store
from batchstat.cli.streams import emit, say, show, warn, wrote_line
from batchstat.documents.base import to_text
from batchstat.errors import OptionError
from batchstat.hidden_secrets import named_part
from batchstat.render.screens.each import each_screen
from batchstat.render.text import one_line
from batchstat.simulation.compare.comparison import Comparison

Compared = tuple[FoundProfile, Comparison, CommandResult]
"""The profile of a corpus, the numbers of its strategies, and what is written and shown of them."""


def compare_each(
    options: Options,
    compare_corpus: Callable[[Options, CheckSettings], Compared],
) -> None:
    """Compare the strategies on each corpus, with a results folder for each, and print one table.
    Raises OptionError: neither corpora nor checks are named; or a page is.
    """
    output = options.read(Output)
    if output.html is not None:
        raise OptionError("--html writes the page of one corpus", "remove --each")
    rows, documents = [], []  # one of both for each corpus: for the table, and for JSON
    for name, corpus_options, check in _corpora(options, output.output):
        found, comparison, result = compare_corpus(corpus_options, check)
        warn(*result.warnings, prefix=f"{name}: ")
        corpus_output = corpus_options.read(Output)
        say(wrote_line(store(found, result, corpus_output), corpus_output.output))
        rows.append((name, corpus_output.output.as_posix(), comparison))
        documents.append(result.document)
    if output.as_json:
        emit(to_text(documents))
    else:
        show(each_screen(rows))


def _corpora(options: Options, folder: Path) -> Iterator[tuple[str, Options, CheckSettings]]:
    """Yield each corpus on the command line, else that of each check in the configuration."""
    configuration = read_configuration(options)
    paths: tuple[str, ...] = options.given.get("corpus", ())
    corpora = [(_stem(path), {"corpus": (path,)}, configuration.shared) for path in paths]
    corpora = corpora or [(check.name, {}, check) for check in configuration.checks]
    if not corpora:
        raise OptionError("--each compares corpora", "name them, or checks in the configuration")
    names: list[str] = []  # of the corpora so far
    folders: list[str] = []
    for usual_name, own_corpus, check in corpora:
        name = _unused(usual_name, names)  # with a number, if an earlier corpus has this name
        # Without dots, so that no name leads out of the folder.
        folder_name = _unused(re.sub(r"[^\w-]+", "-", name).strip("-") or "corpus", folders)
        names.append(name)
        folders.append(folder_name)
        yield name, Options({**options.given, **own_corpus, "output": folder / folder_name}), check


def _stem(path: str) -> str:
    last = re.split(r"[\\/]", named_part(path).rstrip("/\\"))[-1]
    # A name such as .data has nothing before its first dot.
    return one_line(last.partition(".")[0] or path)


def _unused(name: str, taken: Collection[str]) -> str:
    names = (name, *(f"{name}-{i}" for i in range(2, len(taken) + 3)))
    return next(candidate for candidate in names if candidate not in taken)
