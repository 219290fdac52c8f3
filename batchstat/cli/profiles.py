"""The profile that a command works from: counted, reused, or from the results; and its findings."""

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.inputs import Inputs
from batchstat.cli.records import READING, Counting, Output, Partial
from batchstat.corpus.options import CorpusOptions
from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.parameters import options_of
from batchstat.profiling.inputs import open_corpus
from batchstat.profiling.parquet import load_profile
from batchstat.profiling.profile import Profile
from batchstat.profiling.staleness import changes, same_input
from batchstat.storage.machine import cache_folder
from batchstat.storage.result_files import profile_version
from batchstat.storage.results import check_file, check_results
from batchstat.tokenization.threads import limit_threads
from batchstat.words import counted

if TYPE_CHECKING:
    from batchstat.profiling.cache import CountCache
    from batchstat.profiling.run_options import RunOptions
    from batchstat.recording.run_facts import RunFacts

OTHER_PAGE = "name another with --html"


def count(
    inputs: Inputs, *, folder: Path | None = None, reuse: bool = False
) -> tuple[Profile, bool]:
    """Return the profile of a corpus, and whether it was reused as nothing decisive has changed."""
    counting = inputs.options.read(Counting)
    # Wrong options are refused even where nothing is counted.
    run = None if counting == Counting() else _run_options(inputs)
    options = inputs.read(CorpusOptions)
    corpus = open_corpus(
        inputs.corpus,
        options,
        inputs.get("tokenizer"),
        inputs.get("chat_template"),
        inputs.warn,
        allow_empty=inputs.options.read(Partial).allow_partial,
        fresh=counting.no_cache,
    )
    if corpus.reads_standard_input and options.input_format is None:
        lines = "standard input is read as lines of text; use --input-format for another format"
        inputs.warn(Finding("corpus/read-as-lines", lines))
    if reuse and not counting.no_cache and folder is not None:
        with suppress(InputError, OSError):
            stored = load_profile(folder)
            if same_input(stored, corpus):
                return stored, True
    from batchstat.profiling.build import profile
    from batchstat.profiling.progress import shown_progress

    run = run or _run_options(inputs)
    cache = _count_cache(run, folder)
    with shown_progress() as on_progress:
        run = replace(run, count_cache=cache, on_progress=on_progress)
        return profile(corpus, **vars(run)), False


def _run_options(inputs: Inputs) -> "RunOptions":
    """Return the options with which a command counts. Raises OptionError."""
    from batchstat.profiling.cache import CountCache
    from batchstat.profiling.run_options import RunOptions

    counting = inputs.options.read(Counting)
    run = RunOptions(
        executor=counting.executor or "auto",
        workers=counting.workers,
        scheduler=counting.scheduler,
        count_cache=None if counting.count_cache is None else CountCache.at(counting.count_cache),
        recount=counting.no_cache,
        allow_partial=inputs.options.read(Partial).allow_partial,
        on_warning=inputs.warn,
    )
    if run.workers is not None:
        limit_threads(run.workers)  # tokenizers obey only what is set before they first count
    return run


def _count_cache(run: "RunOptions", folder: Path | None) -> "CountCache | None":
    """Return where the counts of splits are stored: the folder of `--count-cache`; for Dask, whose
    workers must reach it, the results folder; else the user's cache. None stores them nowhere.
    """
    from batchstat.profiling.cache import CountCache

    if run.count_cache is not None:
        run.count_cache.try_writing("pass another folder with --count-cache")
        return run.count_cache
    if run.executor == "dask":
        if folder is None:
            raise OptionError("--executor dask needs a folder for counts", "pass --count-cache DIR")
        cache = CountCache.at(folder / "splits")
        cache.try_writing("pass another folder with -o")
        return cache
    user_folder = None if run.recount else cache_folder()  # `--no-cache` sets `recount`
    if user_folder is None:
        return None
    cache = CountCache(str(user_folder), is_optional=True)
    try:
        cache.try_writing("")
    except InputError:  # not writable, as in some containers
        return None
    return cache


@dataclass(frozen=True)
class FoundProfile:
    """The profile that a command works from."""

    profile: Profile
    version: str  # `profile_version` of the results folder, if its profile is this one
    changes: tuple[str, ...] = ()  # what has changed in the corpus since it was counted
    run: "RunFacts | None" = None  # the recorded run whose samples these are; None for a corpus

    @property
    def warnings(self) -> tuple[Finding, ...]:
        """Warnings for a report: what is out of date or missing, or left out of chats."""
        stale = tuple(Finding("profile/stale", change) for change in self.changes)
        return (*stale, *profile_findings(self.profile))


def find_profile(inputs: Inputs) -> FoundProfile:
    """Return the profile of a command's recording; of its corpus, counted or reused; or the one in
    the results folder. Raises InputError, or OptionError for options of counting beside that.
    """
    check_outputs(inputs.options.read(Output))
    # Before the profile is read: if another run replaces it in between, `store` sees that.
    version = profile_version(inputs.output)
    if inputs.observed is not None:
        return FoundProfile(inputs.observed.profile, version="", run=inputs.observed.run)
    if inputs.corpus:
        profile, is_reused = count(inputs, folder=inputs.output, reuse=True)
        return FoundProfile(profile, version if is_reused else "")
    refuse_counting(inputs)
    profile = load_profile(inputs.output)
    return FoundProfile(profile, version, tuple(changes(profile)))


def refuse_counting(inputs: Inputs) -> None:
    """Raise OptionError for an option of counting, in a command that uses a stored profile."""
    for name in options_of(*READING):
        if name in inputs.options.given:
            raise OptionError(
                f"--{name.replace('_', '-')} needs a corpus to count",
                "name one, or remove the option to use the profile in the results folder",
            )


def profile_findings(profile: Profile) -> Iterator[Finding]:
    """Yield findings about splits that are missing, and what a template leaves out of chats."""
    if failed := profile.corpus.failed:
        more = f", and {len(failed) - 1:,} more" if len(failed) > 1 else ""
        yield Finding(
            "profile/partial",
            f"the profile is partial and covers only what could be read: {failed[0]}{more}; "
            "records are numbered as if the missing splits were empty",
        )
    ignored = [
        f"{name.replace('_', ' ')} of {counted(chats, 'chat')}"
        for name, chats in profile.corpus.left_out.items()
    ]
    if ignored:
        yield Finding(
            "chat/ignored-parts",
            f"the chat template ignores {', '.join(ignored)}; they are not counted, as "
            "training with this template does not see them; use --chat-template FILE for another "
            "template",
        )


def maximum_findings(profile: Profile) -> Iterator[Finding]:
    """Yield the finding about samples that are longer than the tokenizer's maximum."""
    limit = profile.stated_max
    if limit is None:
        return
    samples, _ = profile.stats.above(limit)
    if samples:
        yield Finding(
            "lost/truncated",
            f"{samples:,} of {counted(len(profile), 'sample')} exceed the tokenizer's maximum of "
            f"{limit:,} tokens; profile counts them in full, compare truncates them unless "
            "--max-length or --overflow says otherwise",
        )


def check_outputs(output: Output) -> None:
    """Raise InputError, before any work is done, if the results or the page cannot be written."""
    check_results(output.output)
    if output.html is not None:
        check_file(output.html, OTHER_PAGE)
