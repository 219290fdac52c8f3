"""A profile for a command: counted, reused, or the one in the results folder; and its files."""

import shlex
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.engines import check_engine, engine_of, parts_of_folder, store_of
from batchstat.cli.inputs import Inputs
from batchstat.cli.options import DEFAULT_FOLDER, READING, was_given
from batchstat.cli.part_log import OnOutcome, part_log
from batchstat.cli.progress import shown
from batchstat.cli.results import Writer, write_files
from batchstat.cli.streams import console, emit, render, say, written
from batchstat.corpus import STANDARD_INPUT, CorpusOptions, Source, find_sources, parts_of
from batchstat.engines import Engine
from batchstat.errors import InputError, OptionError
from batchstat.profiling import (
    LENGTHS_FILE,
    Conduct,
    PartStore,
    Profile,
    Shard,
    Share,
    build,
    changes,
    count_shard,
    counter,
    load_profile,
    same_input,
    save_lengths,
)
from batchstat.render.json import profile_json, to_text
from batchstat.render.terminal import identity, profile_screen
from batchstat.render.words import counted
from batchstat.tokens import Tokenizer

if TYPE_CHECKING:
    from rich.console import RenderableType

PLOTS = ("plots/lengths.png", "plots/classes.png", "plots/lengths_by_class.png")


def count(
    context: typer.Context, given: Inputs, *, folder: Path | None = None, reuse: bool = False
) -> tuple[Profile, bool]:
    """The profile of a corpus, and whether it is the one in the results folder, counted before.

    It is that one only where nothing that could change it differs.

    Args:
        context: the options of the command.
        given: what it goes by.
        folder: of its results; None where it has none.
        reuse: whether a profile there may be taken.
    """
    use_cache = not context.params["no_cache"]
    sources, options, loaded = _prepared(context, given)
    if reuse and use_cache and folder is not None:
        try:
            kept = load_profile(folder)
            if same_input(kept, sources, options, loaded):
                return kept, True
        except (InputError, OSError):
            pass  # there is none, or none that this batchstat can read: count
    store, is_cache = store_of(context, folder)
    parts = parts_of(sources, options)
    engine = engine_of(context, parts)
    # What became of a single part is what became of the run.
    log = part_log(folder if len(parts) > 1 else None, len(parts), engine, loaded)
    with _conduct(context, engine, store, log) as conduct:
        profile = build(sources, options, loaded, replace(conduct, may_do_without=is_cache))
    if is_cache and store is not None:
        store.make_room()
    return profile, False


def shard(context: typer.Context, given: Inputs, share: Share, folder: Path) -> Shard:
    """A share of a corpus, counted into a folder of its own."""
    sources, options, loaded = _prepared(context, given)
    if any(each.path == STANDARD_INPUT for each in sources):
        raise OptionError("standard input has no shards: name files")
    if context.params["parts"] is not None:
        raise OptionError("a shard keeps its counts in its own folder: leave --parts out")
    own = [part for i, part in enumerate(parts_of(sources, options)) if share.takes(i)]
    store, engine = parts_of_folder(folder), engine_of(context, own)
    log = part_log(folder, len(own), engine, loaded)
    with _conduct(context, engine, store, log) as conduct:
        return count_shard(sources, options, loaded, share, conduct)


def _prepared(
    context: typer.Context, given: Inputs
) -> tuple[tuple[Source, ...], CorpusOptions, Tokenizer | None]:
    """The sources, how they are read, and what counts them."""
    options = given.reading
    check_engine(context)
    partial = context.params.get("allow_partial", False)
    sources = find_sources(given.corpus, options.input_format, _warn, allow_empty=partial)
    if options.input_format is None and any(each.path == STANDARD_INPUT for each in sources):
        _warn("standard input is read as lines of text: --input-format says what else it is")
    return (
        sources,
        options,
        counter(options, given.get("tokenizer"), given.get("chat_template"), sources),
    )


@contextmanager
def _conduct(
    context: typer.Context,
    engine: Engine,
    store: PartStore | None,
    log: AbstractContextManager[OnOutcome],
) -> Iterator[Conduct]:
    with shown() as on_progress, log as on_outcome:
        yield Conduct(
            engine=engine,
            store=store,
            anew=context.params["no_cache"],
            allow_partial=context.params.get("allow_partial", False),
            on_progress=on_progress,
            on_outcome=on_outcome,
            on_warning=_warn,
        )


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
        profile, kept = count(context, given, folder=options["output"], reuse=True)
        return profile, {} if kept else profile_files(profile, options["plots"]), ()
    refuse_counting(context)
    profile = load_profile(options["output"])
    return profile, {}, tuple(changes(profile))


def publish_profile(profile: Profile, options: Mapping[str, Any]) -> None:
    """Writes a profile, and shows it."""
    output = options["output"]
    files = profile_files(profile, options["plots"])
    write_files(output, files, remove=set(PLOTS) - set(files))
    if options["as_json"]:
        emit(to_text(profile_json(profile)))
    else:
        there = "" if output == DEFAULT_FOLDER else f" -o {shlex.quote(str(output))}"
        on = console()
        next_command = f"batchstat compare --tokens-per-batch 16384{there}"
        emit(render(profile_screen(profile, on, next_command), on), sys.stdout.encoding)
    if longer := above_maximum(profile):
        say(f"warning: {longer}")
    if partial := incomplete(profile):
        say(f"warning: {partial}")
    say(written(files, output))


def incomplete(profile: Profile) -> str | None:
    """The line for a profile of which parts are missing; None where none is."""
    failed = profile.corpus.failed
    if not failed:
        return None
    more = f", and {len(failed) - 1:,} more" if len(failed) > 1 else ""
    return (
        f"the profile is partial, and all numbers are of the rest: {failed[0]}{more}; records are "
        "numbered as if what is missing held none"
    )


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
    if result[0] != "compare.json" and (partial := incomplete(profile)):
        say(f"warning: {partial}")
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
