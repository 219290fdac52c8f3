"""A profile for a command: counted, reused, or the one in the results folder; and its files."""

import os
from collections.abc import Sequence
from pathlib import Path

from batchstat.cli.progress import shown
from batchstat.cli.results import Writer
from batchstat.cli.streams import say
from batchstat.corpus import STANDARD_INPUT, CorpusOptions, find_sources
from batchstat.errors import InputError
from batchstat.profiling import (
    LENGTHS_FILE,
    Profile,
    build,
    counter,
    load_profile,
    same_input,
    save_lengths,
)
from batchstat.render.json import profile_json, to_text
from batchstat.render.words import counted
from batchstat.threads import worker_count

PLOTS = ("plots/lengths.png", "plots/classes.png", "plots/lengths_by_class.png")


def count(
    paths: Sequence[Path],
    options: CorpusOptions,
    tokenizer: str | None,
    chat_template: Path | None,
    workers: int | None,
    reuse_from: Path | None,
) -> tuple[Profile, bool]:
    """The profile of a corpus, and whether it is the one of `reuse_from`, counted before.

    It is that one only where nothing that could change it differs.
    """
    threads = worker_count(workers)
    if workers is not None:
        # The tokenizers library has threads of its own, and is told so only here.
        os.environ.setdefault("RAYON_NUM_THREADS", str(threads))
    sources = find_sources(paths, options.input_format, _warn)
    if options.input_format is None and any(each.path == STANDARD_INPUT for each in sources):
        _warn("standard input is read as lines of text: --input-format says what else it is")
    loaded = counter(options, tokenizer, chat_template, sources)
    if reuse_from is not None:
        try:
            kept = load_profile(reuse_from)
            if same_input(kept, sources, options, loaded):
                return kept, True
        except InputError:
            pass  # there is none, or none that this batchstat can read: count
    with shown(sum(source.bytes for source in sources)) as on_progress:
        profile = build(
            sources,
            options,
            loaded,
            workers=threads,
            on_progress=on_progress,
            on_warning=_warn,
        )
    return profile, False


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
