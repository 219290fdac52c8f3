"""The screen of `profile`."""

from collections.abc import Iterator
from datetime import datetime
from itertools import pairwise

from rich.console import Console, Group, RenderableType
from rich.table import Table
from rich.text import Text

from batchstat.lengths.max_length import lost_without
from batchstat.profiling.profile import Profile
from batchstat.render.screens.layout import Line, Pasted, corpus_line, read_words, table
from batchstat.render.text import age, class_name, one_line, percent, span, with_share
from batchstat.words import counted

_LONGEST_BAR = 40  # characters of the longest bar of a histogram, where the terminal is wide enough
_BESIDE_BAR = 48  # width of a row without its bar: a label and its numbers
_WORTH_A_FACTOR = 1.1  # below this ratio, the largest and smallest class are about equal
_SHOWN_FAILED = 5  # failed splits that are named
_MOST_CLASSES, _LARGEST, _SMALLEST = 50, 20, 5
"""The most classes that have a row each. Of more, only the 20 largest and the 5 smallest have."""
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
"""How a screen says why records were skipped, by the reason in the profile."""


def profile_screen(
    profile: Profile, console: Console, padding: float | None, next_command: str
) -> RenderableType:
    """Return what `profile` prints: corpus, lengths, `max_length`, classes and padding."""
    # A row with a bar for each octave. Columns: lengths, bar, samples, share.
    histogram = _numbers("", "", "", "")
    histogram.columns[1].justify = "left"
    most = max(profile.octaves.counts)
    for lengths, count in octaves(profile):
        histogram.add_row(lengths, _bar(count, most, console), *with_share(count, len(profile)))
    parts: list[RenderableType] = [
        Line("corpus", profile_line(profile)),
        *missing_lines(profile),
        Text(),
        Line("lengths", "tokens per sample, special tokens included"),
        histogram,
        percentile_table(profile),
        Text(),
        truncation_table(profile, "<-" if console.options.ascii_only else "←"),
        *outlier_lines(profile),
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
    return [Line("padding", f"{padding:.0%} {words}")]


def identity(profile: Profile, now: datetime) -> RenderableType:
    """Return the line on the profile that a command works from, with its age."""
    return Line("profile", f"{profile_line(profile)} · {age(profile.created, now)}")


def profile_line(profile: Profile) -> str:
    """Return a corpus in one line: its files, its tokenizer, its size."""
    return corpus_line(
        paths=[source.path for source in profile.corpus.sources],
        tokenizer=profile.tokenizer.name if profile.tokenizer else None,
        samples=len(profile),
        tokens=profile.stats.sum,
        unreadable=profile.corpus.unreadable,
        read=read_words(
            [(each.content, each.separator) for each in profile.corpus.read],
            profile.corpus.options.content,
            profile.corpus.options.label_column,
            profile.corpus.label_form,
        ),
    )


def missing_lines(profile: Profile) -> Iterator[Line]:
    """Yield what is not counted, and why: splits that failed, records that were skipped."""
    corpus = profile.corpus
    if corpus.failed:
        lines = [f"{counted(len(corpus.failed), 'split')} could not be counted"]
        lines += [one_line(failure, 200) for failure in corpus.failed[:_SHOWN_FAILED]]
        yield Line("PARTIAL", "\n".join(lines))
    reason_words = _REASONS | {"short": f"shorter than {corpus.options.min_chars} characters"}
    reasons = [
        f"{count:,} {reason_words.get(reason, reason)}"
        for reason, count in corpus.skipped.items()
        if count
    ]
    if reasons:
        lines = [", ".join(reasons), *(one_line(fault, 200) for fault in corpus.faults)]
        # A profile keeps only the first few faults.
        if corpus.unreadable > len(corpus.faults):
            lines.append(f"… and {corpus.unreadable - len(corpus.faults):,} more")
        yield Line("skipped", "\n".join(lines))


def _bar(count: int, most: int, console: Console) -> Text:
    """Return the bar of a count, beside the longest of `most`. A count above 0 is always seen."""
    room = min(_LONGEST_BAR, console.width - _BESIDE_BAR)
    shortest = 1 if count else 0
    if console.options.ascii_only:
        return Text("#" * max(round(room * count / most), shortest), style="cyan")
    full_characters, eighths = divmod(max(round(8 * room * count / most), shortest), 8)
    last_character = ("", *"▏▎▍▌▋▊▉")[eighths]  # filled to so many eighths
    return Text("█" * full_characters + last_character, style="cyan")


def _numbers(*headings: str) -> Table:
    """Return an empty table whose columns all hold numbers; without headings if all are empty."""
    has_headings = any(headings)
    table = Table(box=None, padding=(0, 2, 0, 0), header_style="dim", show_header=has_headings)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def octaves(profile: Profile) -> Iterator[tuple[str, int]]:
    """Yield the octaves of the lengths, such as 16-31 and 32-63, each with its samples."""
    bins = profile.octaves
    for (low, next_low), count in zip(pairwise(bins.edges), bins.counts, strict=True):
        yield span(low, next_low - 1), count


def percentile_table(profile: Profile) -> Table:
    """Return the table with the mean, the percentiles and the maximum of the lengths."""
    stats = profile.stats
    table = _numbers("mean", "p50", "p90", "p95", "p99", "p99.9", "max")
    # Percentiles are named in thousandths: 999 is p99.9.
    percentiles = [f"{stats.percentile(name):,}" for name in (500, 900, 950, 990, 999)]
    table.add_row(f"{stats.mean:,.1f}", *percentiles, f"{stats.max:,}")
    return table


def truncation_table(profile: Profile, arrow: str) -> Table:
    """Return what each `max_length` truncates and computes; `arrow` marks the suggested one."""
    # The columns without a heading are the shares of what stands before them, and the arrow.
    rows = table("max_length", "truncated samples", "", "lost tokens", "", "compute", "")
    rows.columns[-1].justify = "left"
    tokens, suggested = max(profile.stats.sum, 1), profile.suggested_max_length
    marks = {profile.stated_max: f"{arrow} the tokenizer's maximum"} if suggested is None else {}
    marks[suggested] = f"{arrow} suggested"
    for candidate in profile.truncation:
        rows.add_row(
            f"{candidate.max_length:,}",
            *with_share(candidate.samples, len(profile)),
            *with_share(candidate.tokens, tokens),
            f"{candidate.compute:.2f}x",
            marks.get(candidate.max_length, ""),
        )
    return rows


def outlier_lines(profile: Profile) -> Iterator[Line]:
    """Yield the line on samples far longer than others, if the suggestion leaves these out."""
    outliers, suggested = profile.outliers, profile.suggested_max_length
    if outliers is None or suggested is None or suggested > outliers.limit:
        return
    longest = int(profile.records[int(profile.lengths.argmax())])
    share = percent(outliers.tokens / max(profile.stats.sum, 1))
    lost, whole = lost_without(profile.stats, suggested, outliers)
    loses = f"loses {percent(lost / max(whole, 1), 2)} of the tokens" if lost else "loses nothing"
    words = f"record {longest} alone has {share} of the tokens: without it"
    if outliers.samples > 1:
        words = f"{outliers.samples} samples, the longest record {longest}, have {share} of the "
        words += "tokens: without them"
    yield Line("outliers", f"{words} {suggested:,} {loses}")


def trained_line(profile: Profile) -> str:
    """Return the line on how many tokens carry loss. It is shown only for profiles that know it."""
    # These are None only in profiles that do not know their trained tokens.
    share = percent((profile.trained_tokens or 0) / max(profile.stats.sum, 1))
    untrained = profile.untrained_samples or 0
    words = f"{counted(untrained, 'sample')} with none" if untrained else "every sample has some"
    return f"{share} of the tokens carry loss · {words}"


def trained_table(profile: Profile) -> Table:
    """Return how many trained tokens each `max_length` loses, and samples without any."""
    # The columns without a heading are the shares of what stands before them.
    rows = table("max_length", "lost trained tokens", "", "untrained samples", "")
    for candidate in profile.truncation:
        # These are None only in profiles that do not know their trained tokens.
        lost = with_share(candidate.trained_tokens or 0, max(profile.trained_tokens or 0, 1))
        untrained = with_share(candidate.untrained_samples or 0, len(profile))
        rows.add_row(f"{candidate.max_length:,}", *lost, *untrained)
    return rows


def _classes(profile: Profile, console: Console) -> list[RenderableType]:
    """Return the table of the classes; of many, those in the middle share a row."""
    classes = profile.classes  # the largest first
    most = classes[0].count
    lines = [
        (class_name(each.label), each.count, each.tokens, _bar(each.count, most, console))
        for each in classes
    ]
    if len(classes) > _MOST_CLASSES:
        middle = classes[_LARGEST:-_SMALLEST]
        count, tokens = sum(each.count for each in middle), sum(each.tokens for each in middle)
        name = f"({len(middle):,} classes between)"
        # This line takes the place of those of the classes in the middle.
        lines[_LARGEST:-_SMALLEST] = [(name, count, tokens, Text())]
    # The columns without a heading are the name and the bar.
    rows = table("", "", "samples", "share", "mean length")
    rows.columns[1].justify = "left"
    for name, count, tokens, bar in lines:
        rows.add_row(Text(name), bar, *with_share(count, len(profile)), f"{tokens / count:,.1f}")
    columns = ", ".join(profile.corpus.options.label_column)
    return [Line("classes", f"of {one_line(columns)}"), rows, *class_notes(profile)]


def class_notes(profile: Profile) -> Iterator[Text]:
    """Yield whether samples have several classes, and how unequal their sizes are."""
    if profile.labels is not None and profile.labels.offsets is not None:
        yield Text("a sample counts in each of its classes; shares can add up to over 100%")
    ratio = profile.class_ratio
    names = [class_name(each.label) for each in profile.classes if each.label is not None]
    if ratio is not None and len(names) > 1:
        note = f"{names[0]} has {ratio:,.1f} times the samples of {names[-1]}"
        yield Text(note if ratio >= _WORTH_A_FACTOR else "the classes are about equal")
