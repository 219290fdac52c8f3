"""The profile that a command works from: counted, reused, or loaded from the results folder; and
its files.
"""

import sys
from collections.abc import Collection, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.executors import check_engine, engine_of, parts_of_folder, store_of
from batchstat.cli.inputs import Inputs
from batchstat.cli.options.groups import READING, was_given
from batchstat.cli.profile_log import OnOutcome, part_log
from batchstat.cli.progress import shown
from batchstat.cli.streams import console, emit, render, say, written
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import parts_of
from batchstat.corpus.sources import STANDARD_INPUT, Source, find_sources
from batchstat.documents.base import to_text
from batchstat.documents.profile import profile_json
from batchstat.errors import InputError, OptionError
from batchstat.profiling.build import counter
from batchstat.profiling.cache import PartStore
from batchstat.profiling.conduct import Conduct, build, count_shard
from batchstat.profiling.executors.executor import Engine
from batchstat.profiling.parquet import load_profile, save_lengths
from batchstat.profiling.profile import Profile
from batchstat.profiling.shards import Shard, Share
from batchstat.profiling.staleness import changes, same_input
from batchstat.render.screens.profile import identity, profile_screen
from batchstat.render.text import counted
from batchstat.storage.result_files import LENGTHS_FILE, PROFILE_FILE, outdated, profile_version
from batchstat.storage.results import Writer, only_writer, write_files
from batchstat.tokenization.tokenizer import Tokenizer

if TYPE_CHECKING:
    from rich.console import RenderableType


def count(
    context: typer.Context, given: Inputs, *, folder: Path | None = None, reuse: bool = False
) -> tuple[Profile, bool]:
    """Return the profile of a corpus, and whether it was reused from the results folder.

    It is reused only if nothing that could change it differs.

    It is that one only where nothing that could change it differs.

    Args:
        context: the options of the command.
        given: the settings in force.
        folder: the results folder; None if it has none.
        reuse: whether a profile there may be reused.
    """
    use_cache = not context.params["no_cache"]
    sources, options, loaded = _prepared(context, given)
    if reuse and use_cache and folder is not None:
        try:
            kept = load_profile(folder)
            if same_input(kept, sources, options, loaded):
                return kept, True
        except (InputError, OSError):
            pass  # there is none that this version can read
    store, is_cache = store_of(context, folder)
    parts = parts_of(sources, options)
    engine = engine_of(context, parts)
    # For a single part, the outcome of the run says it all.
    log = part_log(folder if len(parts) > 1 else None, len(parts), engine, loaded)
    with _conduct(context, engine, store, log) as conduct:
        profile = build(sources, options, loaded, replace(conduct, may_do_without=is_cache))
    if is_cache and store is not None:
        store.make_room()
    return profile, False


def shard(context: typer.Context, given: Inputs, share: Share, folder: Path) -> Shard:
    """Count a shard of a corpus into a folder of its own."""
    sources, options, loaded = _prepared(context, given)
    if any(each.path == STANDARD_INPUT for each in sources):
        raise OptionError("standard input cannot be sharded: name files")
    if context.params["count_cache"] is not None:
        raise OptionError("a shard stores its counts in its own folder: remove --count-cache")
    own = [part for i, part in enumerate(parts_of(sources, options)) if share.takes(i)]
    store, engine = parts_of_folder(folder), engine_of(context, own)
    log = part_log(folder, len(own), engine, loaded)
    with _conduct(context, engine, store, log) as conduct:
        return count_shard(sources, options, loaded, share, conduct)


def _prepared(
    context: typer.Context, given: Inputs
) -> tuple[tuple[Source, ...], CorpusOptions, Tokenizer | None]:
    """Return the sources, how to read them, and the tokenizer that counts them."""
    options = given.reading
    check_engine(context)
    partial = context.params.get("allow_partial", False)
    sources = find_sources(given.corpus, options.input_format, _warn, allow_empty=partial)
    if options.input_format is None and any(each.path == STANDARD_INPUT for each in sources):
        _warn("standard input is read as lines of text; use --input-format for another format")
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
            recount=context.params["no_cache"],
            allow_partial=context.params.get("allow_partial", False),
            on_progress=on_progress,
            on_outcome=on_outcome,
            on_warning=_warn,
        )


@dataclass(frozen=True)
class Found:
    """The profile that a command works from.

    Attributes:
        profile: the profile of the corpus, or the one in the results folder.
        version: `profile_version` of the one in the folder; empty if it was counted now.
        changes: what has changed since it was counted.
    """

    profile: Profile
    version: str
    changes: tuple[str, ...] = ()


def found(context: typer.Context, given: Inputs) -> Found:
    """Return the profile that a command works from.

    Raises:
        OptionError: options for counting where nothing is counted.
        InputError: no corpus and no profile.
    """
    folder = context.params["output"]
    version = profile_version(folder)
    if given.corpus:
        profile, kept = count(context, given, folder=folder, reuse=True)
        return Found(profile, version if kept else "")
    refuse_counting(context)
    profile = load_profile(folder)
    return Found(profile, version, tuple(changes(profile)))


def publish_profile(profile: Profile, options: Mapping[str, Any], next_command: str) -> None:
    """Write a profile and show it with the command to run next."""
    output = options["output"]
    files = profile_files(profile, options["plots"])
    with only_writer(output):
        write_files(output, files, remove=outdated(output, files))
    if options["as_json"]:
        emit(to_text(profile_json(profile)))
    else:
        on = console()
        emit(render(profile_screen(profile, on, next_command), on), sys.stdout.encoding)
    if longer := above_maximum(profile):
        say(f"warning: {longer}")
    if partial := incomplete(profile):
        say(f"warning: {partial}")
    warn_of_left_out(profile)
    say(written(files, output))


def incomplete(profile: Profile) -> str | None:
    """Return the warning for a profile with missing parts; None if none is missing."""
    failed = profile.corpus.failed
    if not failed:
        return None
    more = f", and {len(failed) - 1:,} more" if len(failed) > 1 else ""
    return (
        f"the profile is partial and covers only what could be read: {failed[0]}{more}; records "
        "are numbered as if the missing parts were empty"
    )


def warn_of_left_out(profile: Profile) -> None:
    """Warn about contents of chats that the chat template does not use."""
    found = [
        f"{name.replace('_', ' ')} of {counted(chats, 'chat')}"
        for name, chats in profile.corpus.left_out.items()
    ]
    if found:
        _warn(
            f"the chat template ignores {', '.join(found)}; they are not counted, as training with "
            "this template does not see them; use --chat-template FILE for another template"
        )


def publish(
    context: typer.Context,
    found: Found,
    screen: "RenderableType",
    result: tuple[str, str],
    drawn: Mapping[str, bytes],
) -> Collection[str]:
    """Write the results of a command, and print them below the profile that they describe.

    The profile is written too if the folder does not have it: if it was counted now, or if another
    run has replaced it meanwhile.

    Args:
        context: the options of the command.
        found: the profile it works from.
        screen: the screen to print.
        result: the name and text of its JSON.
        drawn: its plots.

    Returns:
        The names of the files that were written.
    """
    options, profile = context.params, found.profile
    output = options["output"]
    files = {} if found.version else profile_files(profile, options["plots"])
    own = {result[0]: encoded(result[1]), **{f"plots/{name}": png for name, png in drawn.items()}}
    with only_writer(output):
        if found.version and found.version != profile_version(output):
            files = profile_files(profile, options["plots"])
        files |= own
        write_files(output, files, remove=outdated(output, files))
    on = console()
    whose = render(identity(profile, datetime.now(UTC)), on)
    if result[0] != "compare.json" and (partial := incomplete(profile)):
        say(f"warning: {partial}")
    warn_of_left_out(profile)
    if options["as_json"]:
        say(whose.rstrip())
        emit(result[1])
    else:
        emit(whose + render(screen, on), sys.stdout.encoding)
    return files


def refuse_counting(context: typer.Context) -> None:
    """Raise OptionError for an option for counting where nothing is counted."""
    for name in READING:
        if was_given(context, name):
            raise OptionError(
                f"--{name.replace('_', '-')} needs a corpus to count: name one, or remove the "
                "option to use the profile in the results folder"
            )


def _warn(message: str) -> None:
    say(f"warning: {message}")


def above_maximum(profile: Profile) -> str | None:
    """Return the warning for samples longer than the tokenizer's maximum; None without any."""
    limit = profile.stated_max
    if limit is None:
        return None
    samples, _ = profile.stats.above(limit)
    if samples == 0:
        return None
    return (
        f"{samples:,} of {counted(len(profile), 'sample')} exceed the tokenizer's maximum of "
        f"{limit:,} tokens; profile counts them in full, compare truncates them unless "
        "--max-length or --overflow says otherwise"
    )


def encoded(json_text: str) -> bytes:
    """Return JSON text as UTF-8; lone surrogates, as in an undecodable file name, become JSON
    escapes.
    """
    return json_text.encode("utf-8", "backslashreplace")


def profile_files(profile: Profile, plots: bool) -> dict[str, bytes | Writer]:
    """Return the files of a profile by their names in the results folder."""
    files: dict[str, bytes | Writer] = {
        PROFILE_FILE: encoded(to_text(profile_json(profile))),
        LENGTHS_FILE: lambda file: save_lengths(profile, file),
    }
    if plots:
        from batchstat.render.plots.profile import profile_plots

        files |= {f"plots/{name}": png for name, png in profile_plots(profile).items()}
    return files
