"""batchstat recipe: print the lines that make a script train on simulated batches."""

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import STRATEGY_NAMES, ConfigFile, Folder, Ignored
from batchstat.cli.streams import emit, say
from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.parameters import described, names_in, one_of, option
from batchstat.planning.settings import Settings
from batchstat.storage.result_files import LENGTHS_FILE

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.profiling.profile import Profile
    from batchstat.render.recipes.writing import Origin

_WITHOUT_COMPARISON = "token-budget"  # the strategy of a recipe with neither comparison nor name


@dataclass(frozen=True, kw_only=True)
class Recipe:
    """What is printed."""

    framework: str = option(
        "torch",
        "Framework: torch, accelerate, trainer (Hugging Face) or lightning.",
        "",
        "FRAMEWORK",
        is_argument=True,
        names=names_in("batchstat.render.recipes.writing", "FRAMEWORKS"),
    )
    strategy: str | None = option(
        None,
        "A strategy: NAME or NAME:key=value,…",
        "Batching",
        "SPEC",
        names=STRATEGY_NAMES,
        shown="what the last comparison recommends",
        is_common=True,
    )


@takes(Recipe, Settings, Folder, Ignored, ConfigFile, without=("epoch",))
@described(
    """Print the lines that make your training script use exactly the batches that were simulated.

    Uses the profile in the results folder, and by default what the last comparison recommends.

    Examples:
        # What the last comparison recommends, for a script with a loop in torch
        batchstat recipe

        # For one with the Hugging Face Trainer
        batchstat recipe trainer

        # For one with accelerate, on 8 ranks
        batchstat recipe accelerate --world-size 8 --strategy bucketed:read_ahead=5000
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_inputs
    from batchstat.planning.inputs import resolve_inputs
    from batchstat.profiling.parquet import load_profile
    from batchstat.render.recipes.writing import FRAMEWORKS, recipe, refusal

    framework = one_of("framework", options.read(Recipe).framework, FRAMEWORKS)
    inputs = read_inputs(options)
    folder = inputs.output
    profile = load_profile(folder, "run batchstat profile CORPUS first, or pass its folder with -o")
    lengths_file = (folder / LENGTHS_FILE).as_posix()  # which the lines read
    plan_inputs = resolve_inputs(profile)
    plan_inputs.samples.check_indexed(f"the samples of {lengths_file}")
    strategy, settings, origin = _choose_strategy(inputs, profile)
    request = strategy.request(plan_inputs.resolve(settings))
    # A strategy that the framework cannot train with; without a comparison, `recipe` below raises.
    if origin is not None and (reason := refusal(framework, request)) is not None:
        raise InputError(f"{origin.path} recommends {reason}, or name another with --strategy")
    emit(recipe(framework, lengths_file, request, settings, origin), sys.stdout.encoding)


def _choose_strategy(
    inputs: "Inputs", profile: "Profile"
) -> "tuple[StrategySpec, Settings, Origin | None]":
    """Return the recipe's strategy and settings, and the comparison that they are from, if any."""
    from batchstat.cli.recommended import find_recommendation
    from batchstat.planning.strategies.spec import StrategySpec

    settings = inputs.settings
    if (spec := inputs.get("strategy")) is not None:
        strategy = StrategySpec.parse(spec)
        strategy.checked(settings)
        return strategy, settings, None
    recommended = find_recommendation(inputs.output, profile)
    if recommended is None:
        say(
            f"recipe for {_WITHOUT_COMPARISON}, as {inputs.output.as_posix()} has no comparison of "
            "this profile: run batchstat compare for a recommendation"
        )
        return StrategySpec.of(_WITHOUT_COMPARISON), settings, None
    strategy, compared_settings, origin, argument = recommended
    changed = {
        name: value
        for name, value in vars(settings).items()
        if name in inputs.options.given and value != getattr(compared_settings, name)
    }
    if not changed:
        say(f"recipe for {strategy}, recommended by {origin.path}")
        if argument:
            say(f"your trainer needs no recipe for it: {argument}")
        return strategy, compared_settings, origin
    compared = ", ".join(f"{name}={getattr(compared_settings, name)}" for name in changed)
    inputs.warn(
        Finding(
            "recipe/other-settings",
            f"recipe for {strategy}, which {origin.path} recommends for "
            f"{compared}: run batchstat compare with these options to know what is best with them",
        )
    )
    # The comparison is not named as the origin: it did not compare these settings.
    return strategy, replace(compared_settings, **changed), None
