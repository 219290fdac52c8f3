"""batchstat recipe"""

import sys
from collections.abc import Iterable
from dataclasses import dataclass

from batchstat.cli.options import Options, takes
from batchstat.cli.records import ConfigFile, Folder, Strategy, Template
from batchstat.parameters import option
from batchstat.planning.settings import Settings


def _frameworks() -> Iterable[str]:
    from batchstat.render.recipes.writing import FRAMEWORKS

    return FRAMEWORKS


@dataclass(frozen=True, kw_only=True)
class Framework:
    """The framework of a training script."""

    framework: str = option(
        "torch",
        "Framework: torch, accelerate or trainer.",
        "",
        "FRAMEWORK",
        is_argument=True,
        names=_frameworks,
    )


@takes(Framework, Strategy, Settings, Template, Folder, ConfigFile)
def command(options: Options) -> None:
    """Print a training script that uses exactly the batches that were simulated.

    Uses the profile in the results folder.

    Examples:
        # A script for torch
        batchstat recipe --tokens-per-batch 16k > train.py

        # One for accelerate, on 8 ranks
        batchstat recipe accelerate --world-size 8 --strategy bucketed:read_ahead=5000
    """
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.streams import emit
    from batchstat.errors import InputError
    from batchstat.gate.check import DEFAULT_STRATEGY
    from batchstat.parameters import one_of
    from batchstat.planning.strategies.spec import parse_strategies
    from batchstat.profiling.parquet import load_profile
    from batchstat.render.recipes.writing import FRAMEWORKS, holds_text, recipe
    from batchstat.storage.result_files import LENGTHS_FILE

    framework = one_of("framework", options.read(Framework).framework, FRAMEWORKS)
    inputs = read_inputs(options)
    spec, settings = inputs.get("strategy", DEFAULT_STRATEGY), inputs.settings
    parse_strategies([spec], settings.resolve(longest=1, stated_max=None))
    folder = inputs.output
    profile = load_profile(folder, "run batchstat profile CORPUS first, or pass its folder with -o")
    if not holds_text(profile):
        raise InputError("a recipe reads text, but the profile was made from lengths or token ids")
    basis = settings.resolve(profile.stats.max, profile.stated_max)
    (request,) = parse_strategies([spec], basis)
    lengths = (folder / LENGTHS_FILE).as_posix()
    template = inputs.get("chat_template")
    file = None if template is None else template.as_posix()
    text = recipe(framework, profile, lengths, request, settings, file)
    emit(text, sys.stdout.encoding)
