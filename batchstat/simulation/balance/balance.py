"""Samplers side by side: how often each draws every class, epoch by epoch, and how that batches."""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from typing import NamedTuple

import numpy as np

from batchstat.documents.balance import ClassDraw
from batchstat.documents.comparison import ReportWarning
from batchstat.errors import InputError, NoBatchError, OptionError
from batchstat.lengths.arrays import Ints
from batchstat.lengths.exact import dot, total
from batchstat.lengths.stats import LengthStats
from batchstat.parameters import MAX_INT, whole_number
from batchstat.planning.classes import Classes
from batchstat.planning.inputs import PlanInputs
from batchstat.planning.samples import Samples
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.planning.shares import EpochShares, draw_samples, make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.simulation.balance.report import BalanceReport, SamplerResult
from batchstat.simulation.device import Device, batch_cost
from batchstat.simulation.results import StrategyResult
from batchstat.simulation.rows import make_row
from batchstat.simulation.warnings import simulation_warnings

DEFAULT_SAMPLERS = ("none", "downsampling", "upsampling", "weighted-random", "dynamic")
DEFAULT_EPOCHS = 10
DEFAULT_STRATEGY = "token-budget"


def balance_report(
    inputs: PlanInputs,
    settings: Settings,
    *,
    samplers: Sequence[str],
    strategy: StrategySpec,
    epochs: int,
    device: Device | None,
) -> BalanceReport:
    """Compare class-balancing samplers side by side on the same corpus.

    Args:
        inputs: the corpus, with labels.
        settings: the settings, as given; their sampler is not used.
        samplers: the rows.
        strategy: the strategy that batches the drawn samples.
        epochs: number of epochs over which coverage is tracked.
        device: the calibrated device that trains, if there is one.

    Raises:
        OptionError: a setting, sampler or parameter that is wrong by itself.
        InputError: no labels, classes that cannot be drawn as requested, or no samples left.
    """
    if not samplers:
        raise OptionError("no sampler: name at least one")
    wanted = replace(settings, sampler="none")
    rows = [*dict.fromkeys(replace(wanted, sampler=spec) for spec in samplers)]
    check_epochs(wanted, epochs)
    classes = inputs.samples.classes
    if classes is None:
        raise InputError("balance needs labels, but none were loaded; pass --label-column")
    natural = inputs.resolve(wanted)
    try:
        without: StrategyResult | None = _batched(inputs.samples, natural, strategy, device)[0]
    except NoBatchError:
        without = None
    # One budget for all: a sampler with a batch size of its own would else have another, and its
    # batches would be as full as the others' by that alone.
    rows = [replace(each, tokens_per_batch=natural.tokens_per_batch) for each in rows]
    made = [_row(inputs, each, strategy, epochs, without, device) for each in rows]
    return BalanceReport(
        created=datetime.now(UTC).isoformat(),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=natural,
        epochs=epochs,
        unlabelled=classes.unlabelled_count,
        multilabel=classes.multilabel_count,
        samplers=tuple(row for row, _ in made),
        warnings=(*_class_warnings(classes), *(each for _, warnings in made for each in warnings)),
        device=device,
    )


def check_epochs(settings: Settings, epochs: int) -> int:
    """Return the number of epochs. Raises OptionError if it is not a positive integer, or the last
    epoch is too large.
    """
    if settings.epoch + whole_number("epochs", epochs) - 1 > MAX_INT:
        raise OptionError(f"epoch={settings.epoch}, epochs={epochs}: the last is above {MAX_INT:,}")
    return epochs


def _batched(
    samples: Samples, settings: ResolvedSettings, strategy: StrategySpec, device: Device | None
) -> tuple[StrategyResult, EpochShares]:
    """Return the strategy on the samples that are drawn, and these."""
    request = strategy.request(settings)
    shares = make_shares(samples, request.settings)
    return make_row(request, shares, batch_cost(None, device), device), shares


def _row(
    inputs: PlanInputs,
    settings: Settings,
    strategy: StrategySpec,
    epochs: int,
    without: StrategyResult | None,
    device: Device | None,
) -> tuple[SamplerResult, list[ReportWarning]]:
    samples = inputs.samples
    row, shares = _batched(samples, inputs.resolve(settings), strategy, device)
    basis = row.request.settings
    assert samples.classes is not None
    # How often a sampler draws each sample, before any strategy or rank drops or repeats it.
    times_drawn = np.bincount(draw_samples(samples, basis), minlength=len(samples))
    epochs_of = list(_epochs(samples, samples.classes, basis, epochs))
    drawn = SamplerResult(
        spec=basis.sampler,
        sampler=basis.class_sampler,
        corpus_samples=len(samples),
        samples=int(times_drawn.sum()),
        unique=int(np.count_nonzero(times_drawn)),
        max_repeats=int(times_drawn.max()),
        lengths=LengthStats.of(np.repeat(samples.lengths, times_drawn)),
        classes=tuple(_classes(samples, samples.classes, times_drawn, epochs_of)),
        seen=tuple(each.seen for each in epochs_of),
        ratios=tuple(each.ratio for each in epochs_of),
        row=row,
        without=without,
    )
    warned = simulation_warnings([row], shares.epoch, basis, inputs.stats, device)
    named_warnings = [ReportWarning(w.code, f"{basis.sampler}: {w.message}") for w in warned]
    return drawn, named_warnings


class _Epoch(NamedTuple):
    """Samples drawn up to an epoch.

    Attributes:
        seen: distinct samples drawn so far.
        seen_of: the same for each class.
        ratio: samples this epoch draws of the largest class / of the smallest class drawn at all.
    """

    seen: int
    seen_of: list[int]
    ratio: float


def _epochs(
    samples: Samples, classes: Classes, basis: ResolvedSettings, epochs: int
) -> Iterator[_Epoch]:
    known = np.zeros(len(samples), dtype=bool)

    def of_classes(codes: Ints) -> Ints:
        return np.bincount(codes[codes >= 0], minlength=len(classes.names))

    for epoch in range(basis.epoch, basis.epoch + epochs):
        chosen = draw_samples(samples, replace(basis, epoch=epoch))
        known[chosen] = True
        counts = of_classes(classes.codes[chosen])
        yield _Epoch(
            seen=int(np.count_nonzero(known)),
            seen_of=of_classes(classes.codes[known]).tolist(),
            ratio=float(counts.max() / counts[counts > 0].min()),
        )


def _classes(
    samples: Samples, classes: Classes, times_drawn: Ints, epochs: list[_Epoch]
) -> Iterator[ClassDraw]:
    for code, label in enumerate(classes.names):
        members = classes.members[code]
        times, tokens = times_drawn[members], samples.lengths[members]
        yield ClassDraw(
            label=label,
            before=len(members),
            after=int(times.sum()),
            unique_samples=int(np.count_nonzero(times)),
            max_repeats=int(times.max()),
            tokens_before=total(tokens),
            tokens_after=dot(times, tokens),
            seen=tuple(each.seen_of[code] for each in epochs),
        )


def _class_warnings(classes: Classes) -> Iterator[ReportWarning]:
    if len(classes.names) == 1:
        yield ReportWarning(
            "one_class", f"there is one class, {classes.names[0]!r}: nothing to balance"
        )
