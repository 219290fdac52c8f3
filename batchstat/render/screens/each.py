"""The screen of `compare --each`: a row per corpus."""

from collections.abc import Sequence

from rich.console import Group, RenderableType
from rich.text import Text

from batchstat.render.screens.layout import Fitting, Line, Pasted, Rows
from batchstat.render.text import one_line, percent, tokenizer_name
from batchstat.simulation.compare.comparison import Comparison

Named = tuple[str, str, Comparison]  # the name of a corpus, its results folder, and its comparison


def each_screen(rows: Sequence[Named]) -> RenderableType:
    """Return what `compare --each` prints: the best by corpus, and which would gain most."""
    currents = {comparison.current.label for _, _, comparison in rows}
    speed_ups = [comparison.speed_up(comparison.best) for _, _, comparison in rows]
    name, folder, comparison = rows[speed_ups.index(max(speed_ups))]
    gain = f"{max(speed_ups):.2f}x with {comparison.best.label}"
    return Group(
        Fitting(_table(rows, with_tokenizer=True), _table(rows, with_tokenizer=False)),
        Text(),
        Line("current", f"{', '.join(sorted(currents))}; speed-ups are estimates"),
        Line("most", f"{name} would gain most: {gain}"),
        Pasted("", f"batchstat recipe -o {folder}"),
    )


def _table(rows: Sequence[Named], *, with_tokenizer: bool) -> Rows:
    """Return the table of the corpora, with tokenizers where they differ and are asked for."""
    tokenizers = {_tokenizer(comparison) for _, _, comparison in rows}
    has_tokenizers = with_tokenizer and len(tokenizers) > 1
    return Rows.of(
        {
            "corpus": name,
            **({"tokenizer": _tokenizer(comparison)} if has_tokenizers else {}),
            "samples": f"{comparison.samples:,}",
            "mean length": f"{counts.visited_tokens / counts.drawn_samples:,.1f}",
            "current padding": percent(comparison.current.counts.padding_ratio),
            "best": comparison.best.label,
            "best padding": percent(comparison.best.counts.padding_ratio),
            "speed-up": f"{comparison.speed_up(comparison.best):.2f}x",
        }
        for name, _, comparison in rows
        for counts in [comparison.current.counts]
    )


def _tokenizer(comparison: Comparison) -> str:
    name = None if comparison.tokenizer is None else comparison.tokenizer.name
    return one_line(tokenizer_name(name).rsplit("/", 1)[-1], 20)
