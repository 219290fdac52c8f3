"""A profile for a command: counted, reused, or the one in the results folder; and its files."""

import os
import sys
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import typer

from batchstat.cli.inputs import Inputs
from batchstat.cli.options import READING, was_given
from batchstat.cli.progress import shown
from batchstat.cli.results import Writer, write_files
from batchstat.cli.streams import console, emit, render, say
from batchstat.corpus import STANDARD_INPUT, find_sources
from batchstat.errors import InputError, OptionError
from batchstat.profiling import (
    LENGTHS_FILE,
    Cache,
    Profile,
    build,
    changes,
    counter,
    default_folder,
    load_profile,
    same_input,
    save_lengths,
)
from batchstat.render.json import profile_json, to_text
from batchstat.render.terminal import identity
from batchstat.render.words import counted
from batchstat.threads import worker_count

if TYPE_CHECKING:
    from rich.console import RenderableType

PLOTS = ("plots/lengths.png", "plots/classes.png", "plots/lengths_by_class.png")


def count(
    given: Inputs, workers: int | None, *, use_cache: bool, reuse_from: Path | None = None
) -> tuple[Profile, bool]:
    """The profile of a corpus, and whether it is the one of `reuse_from`, counted before.

    It is that one only where nothing that could change it differs.
    """
    threads, options = worker_count(workers), given.reading
    if workers is not None:
        # The tokenizers library has threads of its own, and is told so only here.
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    sources = find_sources(given.corpus, options.input_format, _warn)
    if options.input_format is None and any(each.path == STANDARD_INPUT for each in sources):
        _warn("standard input is read as lines of text: --input-format says what else it is")
    loaded = counter(options, given.get("tokenizer"), given.get("chat_template"), sources)
    if reuse_from is not None:
        try:
            kept = load_profile(reuse_from)
            if same_input(kept, sources, options, loaded):
                return kept, True
        except InputError:
            pass  # there is none, or none that this batchstat can read: count
    folder = default_folder() if use_cache else None
    with shown() as on_progress:
        profile = build(
            sources,
            options,
            loaded,
            workers=threads,
            cache=None if folder is None else Cache(folder),
            on_progress=on_progress,
            on_warning=_warn,
        )
    return profile, False


def found(
    context: typer.Context, given: Inputs
) -> tuple[Profile, dict[str, bytes | Writer], tuple[str, ...]]:
    """The profile that a command works from: of the corpus, or the one in the results folder.

    Returns it with the files to write for it, and what has changed since it was counted.

    Raises:
        OptionError: options that say how to count, where nothing is counted.
        InputError: no corpus and no profile.
    """
    options = context.params
    if given.corpus:
        reuse_from = None if options["no_cache"] else options["output"]
        profile, kept = count(
            given,
            options["workers"],
            use_cache=not options["no_cache"],
            reuse_from=reuse_from,
        )
        return profile, {} if kept else profile_files(profile, options["plots"]), ()
    refuse_counting(context)
    profile = load_profile(options["output"])
    return profile, {}, tuple(changes(profile))


def publish(
    context: typer.Context,
    profile: Profile,
    files: dict[str, bytes | Writer],
    screen: "RenderableType",
    result: tuple[str, str],
    plots: tuple[dict[str, bytes], Sequence[str]],
) -> None:
    """Writes what a command found, and prints it under whose profile it is.

    Args:
        context: its options.
        profile: the one it works from.
        files: those of the profile that are to be written.
        screen: what it prints.
        result: the name and text of its JSON.
        plots: those it drew, and all that it may draw.
    """
    options = context.params
    drawn, known = plots
    files |= {result[0]: encoded(result[1])}
    files |= {f"plots/{name}": png for name, png in drawn.items()}
    replaced = {f"plots/{name}" for name in known}
    if "profile.json" in files:
        replaced |= set(PLOTS)
    write_files(options["output"], files, remove=replaced - set(files))
    on = console()
    whose = render(identity(profile, datetime.now(UTC)), on)
    if options["as_json"]:
        say(whose.rstrip())
        emit(result[1])
    else:
        emit(whose + render(screen, on), sys.stdout.encoding)


def refuse_counting(context: typer.Context) -> None:
    """Raises OptionError where an option says how to count, and nothing is counted."""
    for name in READING:
        if was_given(context, name):
            raise OptionError(
                f"--{name.replace('_', '-')} is for counting, and no corpus is named: name one, "
                "or leave it out to use the profile in the results folder"
            )


def _warn(message: str) -> None:
    say(f"warning: {message}")


def above_maximum(profile: Profile) -> str | None:
    """The line for samples that are longer than the tokenizer's maximum; None where none is."""
    limit = profile.stated_max
    if limit is None:
        return None
    samples, _ = profile.stats.above(limit)
    if samples == 0:
        return None
    return (
        f"longer than the {limit:,} tokens that the tokenizer states as its maximum: {samples:,} "
        f"of {counted(len(profile), 'sample')}, counted whole here; compare cuts there unless "
        "--max-length or --overflow says otherwise"
    )


def encoded(json_text: str) -> bytes:
    """JSON text as UTF-8; half a surrogate, as in an undecodable file name, as JSON's escape."""
    return json_text.encode("utf-8", "backslashreplace")


def profile_files(profile: Profile, plots: bool) -> dict[str, bytes | Writer]:
    """The files of a profile by their names in the results folder."""
    files: dict[str, bytes | Writer] = {
        "profile.json": encoded(to_text(profile_json(profile))),
        LENGTHS_FILE: lambda file: save_lengths(profile, file),
    }
    if plots:
        from batchstat.render.plots import profile_plots

        files |= {f"plots/{name}": png for name, png in profile_plots(profile).items()}
    return files
