"""Samplers side by side: how often each draws every class, epoch by epoch, and how that batches."""

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime

import numpy as np

from batchstat.documents.balance import ClassDraw
from batchstat.errors import InputError, NoBatchError, OptionError
from batchstat.findings import Finding
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
from batchstat.simulation.device import Device
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
    """Compare class-balancing samplers side by side on the same corpus: `batchstat balance`. Raises
    OptionError: a setting, sampler or parameter that is wrong by itself; InputError: no labels,
    classes that cannot be drawn as requested, or no samples left.
    """
    if not samplers:
        raise OptionError("no sampler", "name at least one")
    no_sampler = replace(settings, sampler="none")
    # As a dictionary's keys, so that a sampler that is named twice makes one row.
    with_samplers = dict.fromkeys(replace(no_sampler, sampler=spec) for spec in samplers)
    check_epochs(no_sampler, epochs)
    classes = inputs.samples.classes
    if classes is None:
        raise InputError("balance needs labels, but none were loaded", "pass --label-column")
    basis = inputs.resolve(no_sampler)
    unsampled = None  # the strategy on all samples: what every row's compute is divided by
    with suppress(NoBatchError):
        unsampled, _ = _draw_and_batch(inputs.samples, basis, strategy, device)
    # The same budget: else per-batch would derive one from its batch size, and look as full.
    with_budget = [replace(each, tokens_per_batch=basis.tokens_per_batch) for each in with_samplers]
    rows = [_make_row(inputs, each, strategy, epochs, unsampled, device) for each in with_budget]
    warnings = [warning for _, of_row in rows for warning in of_row]
    if len(classes.names) == 1:
        text = f"there is one class, {classes.names[0]!r}: nothing to balance"
        warnings.insert(0, Finding("classes/one", text))
    return BalanceReport(
        created=datetime.now(UTC).isoformat(),
        corpus=inputs.corpus,
        tokenizer=inputs.tokenizer,
        basis=basis,
        epochs=epochs,
        unlabelled=classes.unlabelled_count,
        multilabel=classes.multilabel_count,
        samplers=tuple(row for row, _ in rows),
        warnings=tuple(warnings),
        device=device,
    )


def check_epochs(settings: Settings, epochs: int) -> None:
    """Raise OptionError if `epochs` is not a positive integer, or its last one is too large."""
    if settings.epoch + whole_number("epochs", epochs) - 1 > MAX_INT:
        raise OptionError(f"epoch={settings.epoch}, epochs={epochs}: the last is above {MAX_INT:,}")


def _draw_and_batch(
    samples: Samples, settings: ResolvedSettings, strategy: StrategySpec, device: Device | None
) -> tuple[StrategyResult, EpochShares]:
    request = strategy.request(settings)
    shares = make_shares(samples, request.settings)
    return make_row(request, shares, None, device), shares


def _make_row(
    inputs: PlanInputs,
    settings: Settings,
    strategy: StrategySpec,
    epochs: int,
    unsampled: StrategyResult | None,
    device: Device | None,
) -> tuple[SamplerResult, list[Finding]]:
    """Return one row and its warnings; `unsampled` is the strategy on all samples."""
    samples = inputs.samples
    row, shares = _draw_and_batch(samples, inputs.resolve(settings), strategy, device)
    basis = row.request.settings
    assert samples.classes is not None
    # How often a sampler draws each sample, before any strategy or rank drops or repeats it.
    times_drawn = np.bincount(draw_samples(samples, basis), minlength=len(samples))
    drawn_by_epoch = _draw_epochs(samples, samples.classes, basis, epochs)
    seen, seen_by_class, ratios = zip(*drawn_by_epoch, strict=True)
    result = SamplerResult(
        spec=basis.sampler,
        sampler=basis.class_sampler,
        corpus_samples=len(samples),
        samples=int(times_drawn.sum()),
        unique=int(np.count_nonzero(times_drawn)),
        max_repeats=int(times_drawn.max()),
        lengths=LengthStats.of(np.repeat(samples.lengths, times_drawn)),
        classes=tuple(_class_draws(samples, samples.classes, times_drawn, seen_by_class)),
        seen=seen,
        ratios=ratios,
        row=row,
        unsampled=unsampled,
    )
    warnings = simulation_warnings([row], shares.epoch, basis, inputs.stats, device)
    # They name the strategy alone, which all rows of this report share: the sampler is added.
    return result, [replace(w, message=f"{basis.sampler}: {w.message}") for w in warnings]


def _draw_epochs(
    samples: Samples, classes: Classes, basis: ResolvedSettings, epochs: int
) -> Iterator[tuple[int, list[int], float]]:
    """Draw the samples of several epochs. Yield after each the distinct samples drawn so far, in
    all and of each class; and its draws of the largest class / of the smallest drawn at all.
    """
    is_seen = np.zeros(len(samples), dtype=bool)

    def count_classes(codes: Ints) -> Ints:
        return np.bincount(codes[codes >= 0], minlength=len(classes.names))

    for epoch in range(basis.epoch, basis.epoch + epochs):
        drawn = draw_samples(samples, replace(basis, epoch=epoch))
        is_seen[drawn] = True
        drawn_by_class = count_classes(classes.codes[drawn])
        yield (
            int(np.count_nonzero(is_seen)),
            count_classes(classes.codes[is_seen]).tolist(),
            # A class that is not drawn at all would make the ratio infinite.
            float(drawn_by_class.max() / drawn_by_class[drawn_by_class > 0].min()),
        )


def _class_draws(
    samples: Samples, classes: Classes, times_drawn: Ints, seen_by_class: Sequence[list[int]]
) -> Iterator[ClassDraw]:
    """Yield what the sampler draws of each class."""
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
            seen=tuple(seen[code] for seen in seen_by_class),
        )
