"""Several corpora, or the checks of a configuration, compared one by one in one table."""

import re
from collections.abc import Callable, Collection, Iterator
from pathlib import Path

from batchstat.cli.configuration import CheckSettings
from batchstat.cli.inputs import read_configuration
from batchstat.cli.options import Options
from batchstat.cli.profiles import FoundProfile
from batchstat.cli.records import Output
from batchstat.cli.results import CommandResult, store, warn_of_ignored
from batchstat.cli.streams import emit, say, show, warn, written
from batchstat.documents.base import to_text
from batchstat.errors import OptionError, named_part
from batchstat.render.screens.each import each_screen
from batchstat.render.text import one_line
from batchstat.simulation.compare.comparison import Comparison

Compared = tuple[FoundProfile, Comparison, CommandResult]


def compare_each(
    options: Options,
    export: Path | None,
    compared: Callable[[Options, CheckSettings], Compared],
) -> None:
    """Compare each corpus into a folder of its own, and print one table.

    Args:
        options: those given.
        export: where the batches of the best row are to be written.
        compared: compares the strategies on one corpus.

    Raises:
        OptionError: neither corpora nor checks, or an export or a page, which are of one corpus.
    """
    if export is not None:
        raise OptionError("--export writes the batches of one corpus: remove --each")
    output, rows = options.read(Output), []
    if output.html is not None:
        raise OptionError("--html writes the page of one corpus: remove --each")
    for name, own, check in _corpora(options, output.output):
        found, comparison, result = compared(own, check)
        warn_of_ignored(found.profile)
        warn(*(f"{name}: {warning}" for warning in result.warnings))
        folder = own.read(Output).output
        say(written(store(found, result, own.read(Output)), folder))
        rows.append((name, folder.as_posix(), comparison, result.document))
    if output.as_json:
        emit(to_text([document for *_, document in rows]))
    else:
        show(each_screen([row[:3] for row in rows]))


def _corpora(options: Options, folder: Path) -> Iterator[tuple[str, Options, CheckSettings]]:
    """Yield the name of each corpus, the options with a results folder of its own, and its settings
    in the configuration.
    """
    found = read_configuration(options)
    paths: tuple[str, ...] = options.given.get("corpus", ())
    given = [(_stem(path), {"corpus": (path,)}, found.shared) for path in paths]
    chosen = given or [(check.name, {}, check) for check in found.checks]
    if not chosen:
        raise OptionError("--each compares corpora: name them, or checks in the configuration")
    names: list[str] = []
    folders: list[str] = []
    for name, corpus, check in chosen:
        names.append(_new(name, names))
        # Without dots, so that no name leads out of the folder.
        folders.append(_new(re.sub(r"[^\w-]+", "-", names[-1]).strip("-") or "corpus", folders))
        own = {"output": folder / folders[-1], **corpus}
        yield names[-1], Options({**options.given, **own}), check


def _stem(path: str) -> str:
    """Return the name of a file or folder without its endings."""
    last = re.split(r"[\\/]", named_part(path).rstrip("/\\"))[-1]
    return one_line(last.partition(".")[0] or path)


def _new(name: str, taken: Collection[str]) -> str:
    """Return a name, numbered if it is taken."""
    names = (name, *(f"{name}-{i}" for i in range(2, len(taken) + 3)))
    return next(each for each in names if each not in taken)
