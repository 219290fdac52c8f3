"""batchstat balance: compare samplers that balance classes."""

from dataclasses import dataclass, replace

from batchstat.cli.device import Calibrated, device_keywords, read_device
from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    READING,
    REPORTING,
    STRATEGY_NAMES,
    Current,
    Details,
    OptionalCorpus,
    Output,
)
from batchstat.parameters import described, option
from batchstat.planning.settings import SAMPLER_NAMES, Settings


@dataclass(frozen=True, kw_only=True)
class Samplers:
    """The samplers that `balance` compares."""

    samplers: tuple[str, ...] = option(
        (),
        "A sampler to compare, such as downsampling, count=N or weights=A:1,B:3; "
        "`batchstat explain sampler` names all. Repeatable.",
        "Classes",
        "SPEC",
        names=SAMPLER_NAMES,
        shown="none, downsampling, upsampling, weighted-random, dynamic",
        flags=("--sampler",),
        is_common=True,
    )
    epochs: int = option(
        10, "Number of epochs over which coverage is tracked.", "Classes", "N", is_common=True
    )


@dataclass(frozen=True, kw_only=True)
class Strategy(Current):
    """What batches the samples of each sampler."""

    strategy: str | None = option(
        None,
        "One strategy: name or name:key=value,key=value.",
        "Batching",
        "SPEC",
        names=STRATEGY_NAMES,
        shown="current, else token-budget",
        is_common=True,
    )


@takes(
    *(OptionalCorpus, Samplers, Strategy, Settings, Calibrated, *READING, *REPORTING),
    without=("sampler",),
)
@described(
    """Compare samplers that balance classes: what each rank and batch gets.

    Writes balance.json, plots and a new profile to the results folder.

    Examples:
        # The usual samplers
        batchstat balance reviews.csv --label-column label

        # Two samplers, on the profile in the results folder
        batchstat balance --sampler dynamic --sampler weights=positive:1,negative:3

        # Batches of 2 classes with 8 samples each
        batchstat balance --sampler per-batch:classes=2,samples=8 --strategy static
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.pasted import command_line
    from batchstat.cli.profiles import find_profile
    from batchstat.cli.results import CommandResult, publish
    from batchstat.cli.weights import with_inlined_weights
    from batchstat.documents.balance import balance_document
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.render.html.pages import balance_page
    from batchstat.render.screens.balance import balance_screen
    from batchstat.simulation.balance.balance import (
        DEFAULT_SAMPLERS,
        DEFAULT_STRATEGY,
        check_epochs,
    )
    from batchstat.trainers.balance import balance

    inputs, output = read_inputs(options), options.read(Output)
    requested, settings = options.read(Samplers), inputs.settings
    # Compared without --sampler: the default samplers, and the configuration's if it is another.
    usual_samplers = tuple(dict.fromkeys((*DEFAULT_SAMPLERS, settings.sampler)))
    samplers = tuple(map(with_inlined_weights, requested.samplers or usual_samplers))
    strategy = StrategySpec.parse(inputs.get("strategy") or inputs.current or DEFAULT_STRATEGY)
    # Wrong options are reported here, before anything is counted.
    check_epochs(settings, requested.epochs)
    for sampler in samplers:
        strategy.checked(replace(settings, sampler=sampler))
    read_device(inputs)  # raises for a bad calibration; `balance` reads it again
    found = find_profile(inputs)
    training = inputs.training(found.profile)
    report = balance(
        current=training,
        samplers=samplers,
        strategy=strategy,
        epochs=requested.epochs,
        **device_keywords(inputs),
    )
    report = replace(report, warnings=inputs.shown((*found.warnings, *report.warnings)))

    def compare_command(sampler: str) -> str:
        return command_line(
            inputs, "compare", sampler=sampler, strategy=strategy.text, **device_keywords(inputs)
        )

    result = CommandResult(
        file="balance.json",
        document=balance_document(report),
        screen=balance_screen(report, compare_command, options.read(Details).details),
        plotted=report,
        page=lambda: balance_page(report, training.profile, compare_command),
        warnings=report.warnings,
    )
    publish(found, result, output)
