"""Subtitles of plots: corpus, tokenizer, settings; and notes beside a strategy's name."""

from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.render.text import corpus_name, one_line
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult
from batchstat.words import counted


def subtitle(corpus: CorpusFacts | None, tokenizer: TokenizerFacts | None, *facts: str) -> str:
    """Return the subtitle of a plot: the corpus, its tokenizer, and further facts."""
    parts = [corpus_name([source.path for source in corpus.sources] if corpus else [])]
    if tokenizer is not None:
        folders = [part for part in tokenizer.name.replace("\\", "/").split("/") if part]
        # A tokenizer that is saved as a file has the name of its folder.
        if len(folders) > 1 and folders[-1] == "tokenizer.json":
            folders.pop()
        parts.append(one_line(folders[-1] if folders else tokenizer.name, 40))
    return " · ".join([*parts, *facts])


def of_comparison(comparison: Comparison) -> str:
    """Return the subtitle of a comparison: the corpus, and the settings of all rows."""
    # `subsample` is None where the whole corpus was compared.
    basis, subsample = comparison.basis, comparison.subsample
    samples = counted(comparison.samples, "sample")
    if subsample is not None:
        whole = counted(subsample.corpus_samples, "sample")
        samples = f"an ESTIMATE from {subsample.samples:,} of {whole}"
    budget = f"at most {basis.tokens_per_batch:,} tokens per batch"
    facts = [samples, f"max_length {basis.max_length:,}", budget]
    facts += [counted(basis.world_size, "rank")] if basis.world_size > 1 else []
    return subtitle(comparison.corpus, comparison.tokenizer, *facts)


def compared_quantity(comparison: Comparison) -> str:
    """Return what speed-ups compare: time on a calibrated device, else compute."""
    return "time" if comparison.is_timed else "compute"


def estimate_note(comparison: Comparison) -> str:
    """Return the note that a speed-up is an estimate; empty if times were measured."""
    return "" if comparison.is_timed else " (estimate)"


def marks(comparison: Comparison, row: StrategyResult) -> list[str]:
    """Return the notes beside a row: whether it is the current setup, or the best."""
    current_mark = ["current"] if row is comparison.current else []
    return current_mark + (["best"] if row is comparison.changes.best else [])


def name_with_marks(comparison: Comparison, row: StrategyResult, max_characters: int) -> str:
    """Return a row's name, shortened to `max_characters`, with its notes in brackets."""
    mark_words = ", ".join(marks(comparison, row))
    return one_line(row.label, max_characters) + (f" ({mark_words})" if mark_words else "")
