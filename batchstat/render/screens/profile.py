"""The screens of `profile`, and of `profile --shard`."""

from collections.abc import Iterator
from datetime import datetime

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchstat.errors import counted
from batchstat.profiling.profile import Profile
from batchstat.profiling.shards import Shard
from batchstat.render.screens.layout import Line, Pasted, corpus_line, table
from batchstat.render.text import age, class_name, corpus_name, one_line, percent, span, with_share

_LONGEST_BAR = 40
_BESIDE_BAR = 48
"""Width of a row without its bar: a label and its numbers."""
_WORTH_A_FACTOR = 1.1
_SHOWN_FAILED = 5
_MOST_CLASSES, _LARGEST, _SMALLEST = 50, 20, 5
"""Rows of classes; of more, so many of the largest and of the smallest."""
_REASONS = {
    "blank": "blank",
    "not_utf8": "not UTF-8",
    "malformed": "malformed",
    "too_long": "too long",
    "wrong_fields": "with too few or too many fields",
    "missing_column": "without a column",
    "wrong_type": "with a wrong type",
    "chat": "not valid chats",
    "trained": "with trained tokens that do not fit their length",
    "not_counted": "rejected by the tokenizer or the chat template",
}


def profile_screen(
    profile: Profile, console: Console, padding: float | None, next_command: str
) -> RenderableType:
    """Return what `profile` prints: the corpus, its lengths, candidates for `max_length`, its
    classes, and the padding of usual batches.

    Args:
        profile: the corpus.
        console: where it is printed.
        padding: padding ratio of batches of 8 samples, padded to the longest; None if unknown.
        next_command: the command that shows how to avoid it.
    """
    parts: list[RenderableType] = [
        Line("corpus", profile_line(profile)),
        *missing_lines(profile),
        Text(),
        Line("lengths", "tokens per sample, special tokens included"),
        _histogram(profile, console),
        percentile_table(profile),
        Text(),
        truncation_table(profile, "<-" if console.options.ascii_only else "←"),
    ]
    if profile.trained is not None:
        parts += [Text(), Line("trained", trained_line(profile)), trained_table(profile)]
    if profile.labels is not None:
        parts += [Text(), *_classes(profile, console)]
    return Group(*parts, Text(), *usual_padding(padding), Pasted("next", next_command))


def usual_padding(padding: float | None) -> list[RenderableType]:
    """Return the line on the padding of usual batches; nothing where it is not known."""
    if padding is None:
        return []
    words = "of what is computed, with random batches of 8 padded to their longest sample"
    return [Line("padding", f"{percent(padding)} {words}")]


def identity(profile: Profile, now: datetime) -> RenderableType:
    """Return the line for the profile that a command works from: corpus, tokenizer, samples,
    tokens, age.
    """
    return Line("profile", f"{profile_line(profile)} · {age(profile.created, now)}")


def profile_line(profile: Profile) -> str:
    """Return a corpus in one line: its files, its tokenizer, its size."""
    return corpus_line(
        [source.path for source in profile.corpus.sources],
        profile.tokenizer.name if profile.tokenizer else None,
        len(profile),
        profile.stats.sum,
        profile.corpus.unreadable,
    )


def missing_lines(profile: Profile) -> Iterator[Line]:
    """Yield what of the corpus is not counted, and why."""
    corpus = profile.corpus
    if corpus.failed:
        lines = [f"{counted(len(corpus.failed), 'split')} could not be counted"]
        lines += [one_line(why, 200) for why in corpus.failed[:_SHOWN_FAILED]]
        yield Line("PARTIAL", "\n".join(lines))
    words = _REASONS | {"short": f"shorter than {corpus.options.min_chars} characters"}
    reasons = [
        f"{count:,} {words.get(reason, reason)}"
        for reason, count in corpus.skipped.items()
        if count
    ]
    if reasons:
        lines = [", ".join(reasons), *(one_line(fault, 200) for fault in corpus.faults)]
        if corpus.unreadable > len(corpus.faults):
            lines.append(f"… and {corpus.unreadable - len(corpus.faults):,} more")
        yield Line("skipped", "\n".join(lines))


def _bar(count: int, most: int, console: Console) -> Text:
    """Return a bar in eighths of a block, or in whole characters where there are only ASCII's."""
    room = min(_LONGEST_BAR, console.width - _BESIDE_BAR)
    if console.options.ascii_only:
        return Text("#" * max(round(room * count / most), 1 if count else 0), style="cyan")
    blocks, eighths = divmod(max(round(8 * room * count / most), 1 if count else 0), 8)
    return Text("█" * blocks + " ▏▎▍▌▋▊▉"[eighths].strip(), style="cyan")


def _numbers(*headings: str) -> Table:
    """Return a table of numbers alone."""
    show = any(headings)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=show)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _histogram(profile: Profile, console: Console) -> Table:
    table = _numbers("", "", "", "")
    table.columns[1].justify = "left"
    bins = profile.octaves
    for low, end, count in zip(bins.edges[:-1], bins.edges[1:], bins.counts, strict=True):
        bar = _bar(count, max(bins.counts), console)
        table.add_row(span(low, end - 1), bar, *with_share(count, len(profile)))
    return table


def percentile_table(profile: Profile) -> Table:
    """Return the mean and the percentiles of the lengths."""
    stats = profile.stats
    table = _numbers("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
    observed = [f"{stats.percentile(place):,}" for place in (500, 900, 950, 990, 999)]
    table.add_row(f"{stats.mean:,.1f}", *observed, f"{stats.max:,}")
    return table


def truncation_table(profile: Profile, arrow: str) -> Table:
    """Return what each candidate for a `max_length` truncates; an arrow marks the suggested one."""
    rows = table("max_length", "truncated samples", "", "lost tokens", "", "padded compute", "")
    rows.columns[-1].justify = "left"
    tokens = max(profile.stats.sum, 1)
    for cut in profile.truncation:
        rows.add_row(
            f"{cut.max_length:,}",
            *with_share(cut.samples, len(profile)),
            *with_share(cut.tokens, tokens),
            f"{cut.max_length * len(profile) / tokens:,.2f}x",
            f"{arrow} suggested" if cut.max_length == profile.suggested_max_length else "",
        )
    return rows


def trained_line(profile: Profile) -> str:
    """Return how many tokens carry loss, of a profile where that is known."""
    share = percent((profile.trained_tokens or 0) / max(profile.stats.sum, 1))
    untrained = profile.untrained_samples or 0
    none = f"{counted(untrained, 'sample')} with none" if untrained else "every sample has some"
    return f"{share} of the tokens carry loss · {none}"


def trained_table(profile: Profile) -> Table:
    """Return what each candidate for a `max_length` leaves of the trained tokens."""
    rows = table("max_length", "lost trained tokens", "", "untrained samples", "")
    for cut in profile.truncation:
        lost = with_share(cut.trained_tokens or 0, max(profile.trained_tokens or 0, 1))
        untrained = with_share(cut.untrained_samples or 0, len(profile))
        rows.add_row(f"{cut.max_length:,}", *lost, *untrained)
    return rows


def _classes(profile: Profile, console: Console) -> list[RenderableType]:
    classes = profile.classes
    most = classes[0].count
    shown = [
        (class_name(each.label), each.count, each.tokens, _bar(each.count, most, console))
        for each in classes
    ]
    if len(classes) > _MOST_CLASSES:
        between = classes[_LARGEST:-_SMALLEST]
        count, tokens = sum(each.count for each in between), sum(each.tokens for each in between)
        name = f"({len(between):,} classes between)"
        shown[_LARGEST:-_SMALLEST] = [(name, count, tokens, Text())]
    rows = table("", "", "samples", "share", "mean length")
    rows.columns[1].justify = "left"
    for name, count, tokens, bar in shown:
        rows.add_row(Text(name), bar, *with_share(count, len(profile)), f"{tokens / count:,.1f}")
    column = profile.corpus.options.label_column or ""
    return [Line("classes", f"of {one_line(column)}"), rows, *class_notes(profile)]


def class_notes(profile: Profile) -> Iterator[Text]:
    """Yield what to know about the classes."""
    if profile.labels is not None and profile.labels.offsets is not None:
        yield Text("a sample counts in each of its classes; shares can add up to over 100%")
    ratio = profile.class_ratio
    named = [class_name(each.label) for each in profile.classes if each.label is not None]
    if ratio is not None and len(named) > 1:
        note = f"{named[0]} has {ratio:,.1f} times the samples of {named[-1]}"
        yield Text(note if ratio >= _WORTH_A_FACTOR else "the classes are about equal")


def shard_screen(shard: Shard) -> RenderableType:
    """Return what `profile --shard` prints: the shard, its corpus, and the next command."""
    paths = [source.path for source in shard.sources]
    own = counted(len(shard.counted), "split")
    failed = f", {len(shard.failed):,} failed" if shard.failed else ""
    return Group(
        Line("corpus", corpus_name(paths)),
        Line("shard", f"{shard.spec}: {own} counted{failed}; the corpus has {len(shard.splits):,}"),
        Line("next", "batchstat merge FOLDER-OF-EACH-SHARD ... -o whole"),
    )
