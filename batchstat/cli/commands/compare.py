"""batchstat compare: simulate an epoch with each strategy, on one corpus or several."""

from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING

from batchstat.cli.device import Calibrated, device_keywords, read_device
from batchstat.cli.options import Options, takes
from batchstat.cli.records import (
    READING,
    REPORTING,
    STRATEGY_NAMES,
    Current,
    Details,
    Model,
    OptionalCorpus,
    Output,
)
from batchstat.errors import OptionError
from batchstat.parameters import described, option
from batchstat.planning.settings import Settings
from batchstat.storage.result_files import COMPARE_FILE

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from batchstat.cli.configuration import CheckSettings
    from batchstat.cli.each import Compared
    from batchstat.cli.inputs import Inputs
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.compare.changes import Change
    from batchstat.simulation.compare.comparison import Comparison
    from batchstat.simulation.compare.named_rows import Row
    from batchstat.trainers.preflight.changes import CurrentTraining


@dataclass(frozen=True, kw_only=True)
class Table:
    """The rows of a comparison."""

    strategy: tuple[str, ...] = option(
        (),
        "NAME or NAME:key=value,… (batchstat explain strategy). Repeatable.",
        "Batching",
        "SPEC",
        names=STRATEGY_NAMES,
        shown="fixed, static, bucketed, token-budget, packed",
        is_common=True,
    )
    every: bool = option(
        False, "Compare every strategy of batchstat's own.", "Batching", flags=("--all",)
    )
    each: bool = option(
        False,
        "One row per corpus, or per check of the configuration.",
        "Batching",
        flags=("--each",),
        is_common=True,
    )
    seeds: int = option(1, "Repeat with N seeds and report the spread.", "Batching", "N")
    subsample: str | None = option(
        None,
        "Estimate from this share of the corpus, with a confidence interval.",
        "Batching",
        "1%",
        shown="the whole corpus",
    )


@takes(OptionalCorpus, Table, Current, Settings, Model, Calibrated, *READING, *REPORTING)
@described(
    """Compare batching strategies on a corpus, at equal peak memory.

    Writes compare.json, plots and a new profile to the results folder.

    Examples:
        # The usual strategies, on the profile in the results folder
        batchstat compare --tokens-per-batch 16k

        # Another corpus, counted first
        batchstat compare reviews.csv --text-column review --tokenizer bert-base-cased

        # What to change if you train with the Hugging Face Trainer's defaults
        batchstat compare --current hf-trainer --model qwen2-0.5b

        # The same for your trainer's configuration, as preflight reads it
        batchstat compare --current sft.yaml --world-size 8

        # Several corpora, one row each
        batchstat compare --each english.txt german.txt --current hf-trainer
    """
)
def command(options: Options) -> None:
    from batchstat.cli.results import publish

    table, output = options.read(Table), options.read(Output)
    if table.each:  # a row for each corpus instead of each strategy
        from batchstat.cli.each import compare_each

        compare_each(options, compare_corpus=_compare)  # it calls that for each corpus
        return
    found, _, result = _compare(options, check=None)
    publish(found, result, output)


def _compare(options: Options, check: "CheckSettings | None") -> "Compared":
    """Compare the strategies on one corpus, and return what the command publishes of it."""
    from batchstat.calibration.cost_model import as_model
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.pasted import line_of_change
    from batchstat.cli.profiles import find_profile
    from batchstat.cli.results import CommandResult
    from batchstat.documents.comparison import comparison_document
    from batchstat.render.screens.comparison import comparison_screen
    from batchstat.trainers.compare import compare

    table, inputs = options.read(Table), read_inputs(options, check)
    # Wrong options are reported here, before anything is counted.
    strategies, share = _read_strategies_and_share(table, inputs)
    model = as_model(inputs.get("model"))
    read_device(inputs, model)  # raises for a bad calibration; `compare` reads it again
    found = find_profile(inputs)
    training = inputs.training(found.profile)
    samples = training.profile  # without those that a trainer leaves out
    comparison = compare(
        strategies=_rows_to_compare(inputs, strategies, training, every=table.every),
        current=training,
        model=model,
        seeds=table.seeds,
        subsample=share,
        **device_keywords(inputs),
    )
    warnings = inputs.shown((*found.warnings, *comparison.warnings))
    comparison = replace(comparison, warnings=warnings)
    all_kept = len(samples) == len(found.profile) and samples.is_indexed
    line_to_paste = partial(line_of_change, inputs, comparison.basis, all_kept=all_kept)
    result = CommandResult(
        file=COMPARE_FILE,
        document=comparison_document(comparison),
        screen=comparison_screen(comparison, line_to_paste, options.read(Details).details),
        plotted=comparison,
        page=lambda: _page(inputs, samples, comparison, line_to_paste),
        warnings=warnings,
    )
    return found, comparison, result


def _read_strategies_and_share(
    table: Table, inputs: "Inputs"
) -> "tuple[Sequence[StrategySpec], float | None]":
    """Return what `--strategy` and `--subsample` say; None for the share of the whole corpus."""
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.simulation.compare.candidates import check_seeds
    from batchstat.simulation.compare.estimate import check_share, read_share

    settings = inputs.settings
    check_seeds(settings, table.seeds)
    strategies = tuple(map(StrategySpec.parse, table.strategy))
    for strategy in strategies:
        strategy.checked(settings)
    if inputs.current is not None:  # the current setup has a row as well
        inputs.current.checked(settings)
    if table.subsample is None:
        return strategies, None
    return strategies, check_share(read_share(table.subsample), settings)


def _page(
    inputs: "Inputs",
    profile: "Profile",
    comparison: "Comparison",
    line_to_paste: "Callable[[Change], str]",
) -> str:
    """Return the page, which suggests commands that compare under other settings."""
    from batchstat.cli.pasted import folder_flags
    from batchstat.render.command_lines import corpus_words
    from batchstat.render.html.pages import comparison_page
    from batchstat.render.html.what_if import what_if
    from batchstat.simulation.compare.nearby import nearby

    option_keys = ["calibration", "model"]
    if inputs.setup is not None:  # read again, since it decides which samples are batched
        option_keys += ["current", "framework"]
        corpus = [*inputs.options.given.get("corpus", ())]
    else:
        # Also of the profile in the results folder: colleagues may have another one in theirs.
        template = inputs.get("chat_template")
        template_file = None if template is None else template.as_posix()
        corpus = corpus_words(profile, template_file)
    words = [*corpus, *folder_flags(inputs)]
    values = {key: inputs.get(key) for key in option_keys if inputs.get(key) is not None}
    settings_panel = what_if(comparison, nearby(comparison), words, replaced=values)
    return comparison_page(comparison, profile, line_to_paste, settings_panel)


def _rows_to_compare(
    inputs: "Inputs", requested: "Sequence[StrategySpec]", training: "CurrentTraining", every: bool
) -> "Sequence[Row] | None":
    """Return the strategies to compare with the current setup; None for the default ones."""
    from batchstat.planning.strategies.registry import OWN_STRATEGIES
    from batchstat.simulation.compare.candidates import can_regroup, default_strategies

    # Such as of an encoder and a decoder, which have two widths where a strategy plans one, of a
    # stream, which nothing draws from in another order, or of answers that are generated.
    if training.strategies is not None:
        if every or requested:
            raise OptionError(
                "no strategy plans the batches of this run", "remove --all and --strategy"
            )
        return training.strategies
    if not every:
        return requested or None
    trainer_changes = () if training.trainer is None else training.trainer.changes
    rows = requested or default_strategies(inputs.settings, inputs.current, trainer=trainer_changes)
    names = {strategy.name for strategy in rows}
    if inputs.current is not None:
        names.add(inputs.current.name)
    # Of a recording, `regrouped` is a row by default, unless its batches hold padding of before.
    if isinstance(training.row, tuple) or not can_regroup(inputs.current, inputs.settings):
        names.add("regrouped")
        rows = [row for row in rows if row.text != "regrouped" or requested]
    return (*rows, *(name for name in OWN_STRATEGIES if name not in names))
