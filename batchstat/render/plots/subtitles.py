"""Of what a plot is: the corpus, its tokenizer, the settings; and which rows stand out."""

from batchstat.errors import counted
from batchstat.profiling.profile import CorpusFacts, TokenizerFacts
from batchstat.render.text import corpus_name, one_line
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.results import StrategyResult


def subtitle(corpus: CorpusFacts | None, tokenizer: TokenizerFacts | None, *more: str) -> str:
    """Return a corpus, its tokenizer and more facts on one line."""
    names = [corpus_name([source.path for source in corpus.sources] if corpus else [])]
    if tokenizer is not None:
        names.append(_own_name(tokenizer.name))
    return " · ".join([*names, *more])


def compared(comparison: Comparison) -> str:
    """Return the subtitle of the plots of a comparison."""
    basis, subsample = comparison.basis, comparison.subsample
    samples = counted(comparison.samples, "sample")
    if subsample is not None:
        whole = counted(subsample.corpus_samples, "sample")
        samples = f"an ESTIMATE from {subsample.samples:,} of {whole}"
    budget = f"at most {basis.tokens_per_batch:,} tokens per batch"
    facts = [samples, f"max_length {basis.max_length:,}", budget]
    facts += [counted(basis.world_size, "rank")] if basis.world_size > 1 else []
    return subtitle(comparison.corpus, comparison.tokenizer, *facts)


def measure(comparison: Comparison) -> str:
    """Return what a speed-up is of: time on a calibrated device, or estimated compute."""
    return "time" if comparison.is_timed else "compute"


def estimated(comparison: Comparison) -> str:
    """Return what follows a speed-up that no calibrated device's times confirm."""
    return "" if comparison.is_timed else " (estimate)"


def marks(comparison: Comparison, row: StrategyResult) -> list[str]:
    """Return what to write beside a row's name: whether it is the current setup, the best one."""
    words = ["current"] if row is comparison.current else []
    return words + (["best"] if row is comparison.changes.best else [])


def marked(comparison: Comparison, row: StrategyResult, most: int) -> str:
    """Return a row's name, of at most so many characters, and its marks in brackets."""
    beside = ", ".join(marks(comparison, row))
    return one_line(row.label, most) + (f" ({beside})" if beside else "")


def _own_name(tokenizer: str) -> str:
    """Return the last part of a tokenizer's path or of its name on the Hub."""
    parts = [part for part in tokenizer.replace("\\", "/").split("/") if part]
    if len(parts) > 1 and parts[-1] == "tokenizer.json":
        parts.pop()
    return one_line(parts[-1] if parts else tokenizer, 40)
