"""batchstat recipe: print a script, or lines, that train on simulated batches."""

import sys
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import STRATEGY_NAMES, ConfigFile, Folder, Ignored, Template
from batchstat.cli.streams import emit, say
from batchstat.errors import InputError
from batchstat.findings import Finding
from batchstat.parameters import described, names_in, one_of, option
from batchstat.planning.settings import Settings
from batchstat.storage.result_files import LENGTHS_FILE

if TYPE_CHECKING:
    from pathlib import Path

    from batchstat.cli.inputs import Inputs
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.profiling.profile import Profile
    from batchstat.render.recipes.writing import Origin


_WITHOUT_COMPARISON = "token-budget"
"""The strategy of a recipe where there is neither a comparison nor a name."""


@dataclass(frozen=True, kw_only=True)
class Script:
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
    snippet: bool = option(
        False,
        "Print only the lines to paste into a script that already trains.",
        "Output",
        flags=("--snippet",),
        is_common=True,
    )


@takes(Script, Settings, Template, Folder, Ignored, ConfigFile, without=("epoch",))
@described(
    """Print a training script that uses exactly the batches that were simulated.

    Uses the profile in the results folder, and by default what the last comparison recommends.

    Examples:
        # What the last comparison recommends, as a script for torch
        batchstat recipe > train.py

        # The lines for your own script with the Hugging Face Trainer
        batchstat recipe trainer --snippet

        # One for accelerate, on 8 ranks
        batchstat recipe accelerate --world-size 8 --strategy bucketed:read_ahead=5000
    """
)
def command(options: Options) -> None:
    from batchstat.cli.inputs import read_inputs
    from batchstat.planning.inputs import resolve_inputs
    from batchstat.profiling.parquet import load_profile
    from batchstat.render.recipes.writing import FRAMEWORKS, holds_text, recipe, refusal, snippet

    script = options.read(Script)
    framework = one_of("framework", script.framework, FRAMEWORKS)
    inputs = read_inputs(options)
    folder = inputs.output
    profile = load_profile(folder, "run batchstat profile CORPUS first, or pass its folder with -o")
    if not (script.snippet or holds_text(profile)):  # a snippet goes where data is read already
        raise InputError(
            "the script tokenizes whole texts, but the profile was made from lengths, token ids or "
            "words",
            "add --snippet for the lines that read none of these",
        )
    # `origin` is the comparison that recommends this strategy with these settings, if one does.
    strategy, settings, origin = _choose_strategy(inputs, profile)
    request = strategy.request(resolve_inputs(profile).resolve(settings))
    # A strategy that the framework cannot train with is refused. If a comparison recommends it, the
    # message names the comparison; otherwise, `snippet` and `recipe` below raise.
    if origin is not None and (reason := refusal(framework, request)) is not None:
        raise InputError(f"{origin.path} recommends {reason}, or name another with --strategy")
    lengths_file = (folder / LENGTHS_FILE).as_posix()  # which the script reads
    if script.snippet:
        text = snippet(framework, lengths_file, request, settings, origin)
    else:
        template = inputs.get("chat_template")
        _check_template(profile, template)
        template_file = None if template is None else template.as_posix()
        text = recipe(framework, profile, lengths_file, request, settings, template_file, origin)
    emit(text, sys.stdout.encoding)


def _check_template(profile: "Profile", template: "Path | None") -> None:
    """Raise InputError if chats were counted with another template than the script renders.

    Args:
        profile: what was counted.
        template: the file of `--chat-template`; None for the tokenizer's own template.
    """
    from batchstat.profiling.inputs import tokenizer_for
    from batchstat.render.recipes.writing import holds_chats

    counter, corpus = profile.tokenizer, profile.corpus  # the tokenizer that counted the corpus
    if counter is None or not holds_chats(profile):
        return
    # The tokenizer as the script would load it. Its digest covers the chat template.
    tokenizer = tokenizer_for(corpus.options, counter.name, template, corpus.sources, is_chat=True)
    if tokenizer is not None and tokenizer.digest != counter.digest:
        shown = f"the chat template of {counter.name}" if template is None else template.as_posix()
        raise InputError(
            f"the profile was counted with a different chat template than {shown}, which the "
            "script would use",
            "pass the one you counted with, --chat-template",
        )


def _choose_strategy(
    inputs: "Inputs", profile: "Profile"
) -> "tuple[StrategySpec, Settings, Origin | None]":
    """Return the strategy of the recipe, its settings, and the comparison that recommends both;
    None instead of a comparison if none recommends them.

    The strategy is that of `--strategy`; else what the comparison in the results folder recommends;
    else a default. A message says where it is from, and warns if the command line changes settings
    of the comparison.
    """
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
    # The settings that the command line sets to other values than the comparison had.
    changed = {
        name: value
        for name, value in vars(settings).items()
        if name in inputs.options.given and value != getattr(recommended.settings, name)
    }
    if not changed:
        say(f"recipe for {recommended.strategy}, recommended by {recommended.origin.path}")
        if recommended.argument:
            say(f"your trainer needs no recipe for it: {recommended.argument}")
        return recommended.strategy, recommended.settings, recommended.origin
    compared = ", ".join(f"{name}={getattr(recommended.settings, name)}" for name in changed)
    inputs.warn(
        Finding(
            "recipe/other-settings",
            f"recipe for {recommended.strategy}, which {recommended.origin.path} recommends for "
            f"{compared}: run batchstat compare with these options to know what is best with them",
        )
    )
    # The comparison is not named as the origin: it did not compare these settings.
    return recommended.strategy, replace(recommended.settings, **changed), None
