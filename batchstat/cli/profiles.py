"""The profile that a command works from: counted, reused, or loaded from the results folder."""

from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

from batchstat.cli.executors import check_engine, engine_of, parts_of_folder, store_of
from batchstat.cli.inputs import Inputs
from batchstat.cli.profile_log import OnOutcome, part_log
from batchstat.cli.progress import shown
from batchstat.cli.records import Counting, Partial, Tokenization
from batchstat.cli.streams import say
from batchstat.corpus.options import CorpusOptions
from batchstat.corpus.parts import parts_of
from batchstat.corpus.sources import STANDARD_INPUT, Source, find_sources
from batchstat.errors import InputError, OptionError
from batchstat.parameters import options_of
from batchstat.profiling.build import counter
from batchstat.profiling.cache import CountCache
from batchstat.profiling.conduct import RunOptions, build, count_shard
from batchstat.profiling.executors.executor import CountingExecutor
from batchstat.profiling.parquet import load_profile
from batchstat.profiling.profile import Profile
from batchstat.profiling.shards import Shard, ShardSpec
from batchstat.profiling.staleness import changes, same_input
from batchstat.simulation.comparison import ReportWarning
from batchstat.storage.result_files import profile_version
from batchstat.storage.results import check_results
from batchstat.tokenization.tokenizer import Tokenizer


def count(
    given: Inputs, *, folder: Path | None = None, reuse: bool = False
) -> tuple[Profile, bool]:
    """Return the profile of a corpus, and whether it was reused from the results folder.

    It is reused only if nothing that could change it differs.

    Args:
        given: the settings in force.
        folder: the results folder; None if it has none.
        reuse: whether a profile there may be reused.
    """
    counting = given.options.read(Counting)
    sources, options, loaded = _prepared(given)
    if reuse and not counting.no_cache and folder is not None:
        try:
            kept = load_profile(folder)
            if same_input(kept, sources, options, loaded):
                return kept, True
        except (InputError, OSError):
            pass  # there is none that this version can read
    store, is_cache = store_of(counting, folder)
    parts = parts_of(sources, options)
    engine = engine_of(counting, parts)
    # For a single part, the outcome of the run says it all.
    log = part_log(folder if len(parts) > 1 else None, len(parts), engine, loaded)
    with _conduct(given, engine, store, log) as conduct:
        profile = build(sources, options, loaded, replace(conduct, fall_back_to_temp=is_cache))
    if is_cache and store is not None:
        store.make_room()
    return profile, False


def shard(given: Inputs, share: ShardSpec, folder: Path) -> Shard:
    """Count a shard of a corpus into a folder of its own."""
    counting = given.options.read(Counting)
    sources, options, loaded = _prepared(given)
    if any(each.path == STANDARD_INPUT for each in sources):
        raise OptionError("standard input cannot be sharded: name files")
    if counting.count_cache is not None:
        raise OptionError("a shard stores its counts in its own folder: remove --count-cache")
    own = [part for i, part in enumerate(parts_of(sources, options)) if share.takes(i)]
    store, engine = parts_of_folder(folder), engine_of(counting, own)
    log = part_log(folder, len(own), engine, loaded)
    with _conduct(given, engine, store, log) as conduct:
        return count_shard(sources, options, loaded, share, conduct)


def _prepared(
    given: Inputs,
) -> tuple[tuple[Source, ...], CorpusOptions, Tokenizer | None]:
    """Return the sources, how to read them, and the tokenizer that counts them."""
    options = given.reading
    check_engine(given.options.read(Counting))
    partial = given.options.read(Partial).allow_partial
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
    given: Inputs,
    engine: CountingExecutor,
    store: CountCache | None,
    log: AbstractContextManager[OnOutcome],
) -> Iterator[RunOptions]:
    with shown() as on_progress, log as on_outcome:
        yield RunOptions(
            engine=engine,
            store=store,
            recount=given.options.read(Counting).no_cache,
            allow_partial=given.options.read(Partial).allow_partial,
            on_progress=on_progress,
            on_outcome=on_outcome,
            on_warning=_warn,
        )


@dataclass(frozen=True)
class FoundProfile:
    """The profile that a command works from.

    Attributes:
        profile: the profile of the corpus, or the one in the results folder.
        version: `profile_version` of the one in the folder; empty if it was counted now.
        changes: what has changed since it was counted.
    """

    profile: Profile
    version: str
    changes: tuple[str, ...] = ()

    @property
    def warnings(self) -> tuple[ReportWarning, ...]:
        """What a report has to say of its profile."""
        found = tuple(ReportWarning("stale_profile", change) for change in self.changes)
        if partial := incomplete(self.profile):
            found += (ReportWarning("partial_profile", partial),)
        return found


def find_profile(given: Inputs) -> FoundProfile:
    """Return the profile that a command works from.

    Raises:
        OptionError: options for counting where nothing is counted.
        InputError: no corpus and no profile, or a results folder that cannot be written.
    """
    check_results(given.output)
    version = profile_version(given.output)
    if given.corpus:
        profile, is_reused = count(given, folder=given.output, reuse=True)
        return FoundProfile(profile, version if is_reused else "")
    refuse_counting(given)
    profile = load_profile(given.output)
    return FoundProfile(profile, version, tuple(changes(profile)))


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


def refuse_counting(inputs: Inputs) -> None:
    """Raise OptionError for an option for counting where nothing is counted."""
    for record in (Tokenization, CorpusOptions, Counting):
        for name in options_of(record):
            if name in inputs.options.given:
                raise OptionError(
                    f"--{name.replace('_', '-')} needs a corpus to count: name one, or remove the "
                    "option to use the profile in the results folder"
                )


def _warn(message: str) -> None:
    say(f"warning: {message}")
