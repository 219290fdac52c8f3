"""batchstat init: measure what is trained, write limits for it, and print a CI workflow."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, Current, corpus_argument
from batchstat.cli.streams import emit, say, warn
from batchstat.errors import InputError, OptionError
from batchstat.parameters import described
from batchstat.planning.settings import Settings

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.gate.proposal import Limits
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.compare.changes import Changes
    from batchstat.simulation.results import StrategyResult

_MUCH_TRUNCATED = 0.05
"""Share of the tokens above which nobody means to truncate by default."""


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The corpus to measure."""

    corpus: tuple[str, ...] = corpus_argument("Files, folders, patterns or URLs, as for profile.")


@takes(Corpus, Current, Settings, *READING)
@described(
    """Measure what you train on a corpus, write limits for it, print a CI workflow.

    `--current` names what you train with; else it is static, as in compare.

    Writes the limits, which have a margin, and the settings to [tool.batchstat] of pyproject.toml
    if there is one, else to batchstat.toml.

    Examples:
        # What the Trainer does by default
        batchstat init data/train.jsonl --current hf-trainer

        # Of what the trainer's own configuration does; every check reads it again
        batchstat init --current sft.yaml --world-size 8

        # Of what a command trains on, as batchstat run recorded it
        batchstat init --current batchstat-results/run

        # The workflow too
        batchstat init data/train.jsonl > .github/workflows/batchstat.yml
    """
)
def command(options: Options) -> None:
    from batchstat.cli.configuration import DEFAULT_CHECK, CheckSettings
    from batchstat.cli.current import current_of
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.profiles import count
    from batchstat.corpus.sources import STANDARD_INPUT
    from batchstat.documents.comparison import report_document
    from batchstat.gate.check import DEFAULT_CURRENT
    from batchstat.gate.proposal import propose_limits
    from batchstat.planning.inputs import resolve_inputs
    from batchstat.planning.strategies.spec import StrategySpec
    from batchstat.render.recipes.writing import workflow
    from batchstat.simulation.compare.candidates import simulate_candidates
    from batchstat.simulation.results import Simulation
    from batchstat.trainers.preflight.changes import changes_of_name

    # Without settings of a configuration: this command writes it.
    inputs = read_inputs(options, CheckSettings(DEFAULT_CHECK))
    if inputs.observed is None:  # a recording brings samples and batches
        # Standard input is no corpus for a check, which reads it again later.
        if not inputs.corpus or STANDARD_INPUT in map(str, inputs.corpus):
            raise OptionError("no corpus: name the files that the check reads")
        # The strategy of the current setup, or the default. Raises where it contradicts the
        # settings, before anything is counted.
        (inputs.current or StrategySpec.of(DEFAULT_CURRENT)).checked(inputs.settings)
    # The next two lines raise where the workflow cannot record again, or where a configuration
    # exists already. So they come before the corpus is counted, which may take long.
    record_command = _to_record(inputs)
    path, old_text = _target()
    # The profile of the corpus is the first of what `count` returns. A recording brings its own.
    corpus = count(inputs)[0] if inputs.observed is None else inputs.observed.profile
    # What is trained today: samples, settings, and a strategy or batches. The samples may be fewer
    # than the corpus has: a trainer's configuration may leave some out.
    trained = current_of(inputs, corpus)
    warn(*(warning.message for warning in trained.warnings))
    samples = trained.profile
    simulated = simulate_candidates(
        resolve_inputs(samples, keep=trained.settings.keep_labels),
        trained.settings,
        strategies=trained.strategies,
        current=trained.row or DEFAULT_CURRENT,
        # What other arguments of the trainer would make. Where only a strategy is named, a function
        # finds them once the settings are decided: for a strategy that stands for a trainer, such
        # as hf-trainer; else there are none.
        trainer=changes_of_name if trained.trainer is None else trained.trainer.changes,
    )
    current = simulated.changes.current  # the results of the current setup
    _check_truncation(inputs, current)
    # The limits are of the current setup alone. A report on a single strategy is made of a
    # `Simulation`, and other strategies were simulated beside this one.
    simulation = Simulation(basis=current.request.settings, row=current, warnings=())
    limits = propose_limits(
        report_document(samples, simulation),
        may_drop=inputs.setup is not None,  # a trainer may leave out samples
        has_budget=inputs.observed is None,  # of a recording, its largest batch counts as budget
    )
    _write(path, old_text, inputs, limits, _decided(inputs, samples, current))
    names = [inputs.get(key) for key in ("tokenizer", "current")]  # names, or paths
    named_paths = [*inputs.corpus, *filter(None, names)]
    if absolute := [str(each) for each in named_paths if Path(each).is_absolute()]:
        warn(f"absolute paths, which other machines may not have: {', '.join(absolute)}")
    # Each limit is a name, the limit, and the value that was measured.
    say(f"wrote to {path}: {', '.join(f'{name} {limit}' for name, limit, _ in limits)}")
    _say_current(inputs, simulated.changes)
    say("next: batchstat check; put the following into .github/workflows/batchstat.yml")
    emit(workflow(record_command))


def _to_record(inputs: "Inputs") -> str:
    """Return the command with which the CI workflow records the training again, before it checks
    the recording; empty if the current setup was not recorded.

    Raises:
        InputError: a part of a program was recorded, which no command records again.
    """
    run = None if inputs.observed is None else inputs.observed.run
    if run is None:
        return ""
    if not run.command:
        raise InputError(
            f"{run.folder}: a part of a program was recorded, which a workflow cannot record "
            "again: record its command with batchstat run"
        )
    words = ["batchstat", "run", "--dry-run"]
    # A dry run, whatever was recorded; without weights, and to a folder, as it was recorded.
    words += ["--no-weights"] if run.no_weights else []
    words += ["-o", run.folder, "--"]
    return f"{shlex.join(words)} {run.command}"  # the command is quoted for a shell already


def _check_truncation(inputs: "Inputs", row: "StrategyResult") -> None:
    """Raise InputError if the tokenizer's maximum truncates much of the corpus: the user probably
    trains with another length, and has not named it. A length that is named is never questioned.

    Args:
        inputs: the settings in force.
        row: the results of the current setup.
    """
    ratio, max_length = row.counts.truncated_ratio, row.request.settings.max_length
    if "max_length" in inputs.values or ratio <= _MUCH_TRUNCATED:
        return
    raise InputError(
        f"{ratio:.1%} of the tokens are truncated to {max_length:,} tokens per sample, the "
        "tokenizer's maximum: pass the length that you train with, --max-length"
    )


def _decided(inputs: "Inputs", profile: "Profile", row: "StrategyResult") -> dict[str, int]:
    """Return settings that nobody gave and that batchstat decided by the data: the batch size, and
    the max-length, where the tokenizer's maximum truncates samples. They are written beside the
    limits, so that they are the same when the data change. None for a recording.

    Args:
        inputs: the settings in force.
        profile: the samples that are trained on.
        row: the results of the current setup.
    """
    decided: dict[str, int] = {}
    if inputs.observed is not None:  # each recording brings its own settings
        return decided
    given = {key.replace("_", "-") for key in inputs.values}
    # `stated_max` is the tokenizer's maximum; None if it states none.
    if profile.stated_max is not None and profile.stats.max > profile.stated_max:
        decided["max-length"] = profile.stated_max
    # A batch size that neither settings nor the strategy give follows from the budget.
    size_key, _ = row.size  # "batch_size", or "tokens_per_batch" for a strategy with a budget
    if size_key == "batch_size" and row.request.settings.given_batch_size is None:
        decided["batch-size"] = row.request.settings.batch_size
    return {key: value for key, value in decided.items() if key not in given}


def _say_current(inputs: "Inputs", changes: "Changes") -> None:
    """Say of which setup the limits are, and which change of it would be faster.

    Args:
        inputs: the settings in force.
        changes: the results of the current setup, and what would help.
    """
    from batchstat.render.text import percent

    counts, label = changes.current.counts, changes.current.label
    remark = ""
    # Nothing is named, so the limits are of the default strategy.
    if inputs.setup is None and inputs.current is None:
        remark = (
            ", as nothing names what you train with: add --current, a strategy, a trainer's name "
            "or its file"
        )
    say(f"the limits are of {label}, {percent(counts.padding_ratio)} padding{remark}")
    if changes.star is not None:  # the change that is recommended
        star = changes.star
        # The line to paste, such as an argument; a strategy without one has its label.
        say(
            f"{star.line or star.row.label} would be {star.speed_up:.2f}x faster: see batchstat "
            "compare"
        )


def _target() -> tuple[Path, str]:
    """Return the file to write the configuration to, and its contents so far: pyproject.toml if
    there is one, else batchstat.toml, which is new.

    Raises:
        InputError: a configuration exists already, or cannot be read.
    """
    from batchstat.cli.configuration import OWN_FILE, SHARED_FILE, find_here

    if (existing := find_here(Path())) is not None:
        raise InputError(f"{existing} already has settings for batchstat: edit or remove them")
    shared = Path(SHARED_FILE)
    if shared.exists():
        with shared.open(encoding="utf-8", newline="") as file:  # "": ends of lines as they are
            return shared, file.read()
    return Path(OWN_FILE), ""


def _write(
    path: Path, old_text: str, inputs: "Inputs", limits: "Limits", decided: "dict[str, int]"
) -> None:
    """Append a table with the settings and the limits to the configuration file.

    Args:
        path: the file.
        old_text: its contents so far.
        inputs: the settings in force, each with its origin.
        limits: the limits: name, limit and measured value.
        decided: settings that nobody gave, and that the limits depend on.

    Raises:
        InputError: the file would not be TOML: its contents so far are not, or have such a table.
    """
    import tomllib

    from batchstat.cli.configuration import SHARED_FILE
    from batchstat.render.command_lines import configuration_toml
    from batchstat.storage.results import encoded, write_file

    # The table's name; "" writes at the top of batchstat.toml, which is batchstat's own.
    table = "tool.batchstat" if path.name == SHARED_FILE else ""
    values = {key.replace("_", "-"): setting.value for key, setting in inputs.values.items()}
    # Without a current setup, the default is written by name.
    values |= {"corpus": inputs.corpus, "current": inputs.get("current", inputs.trained), **decided}
    if inputs.observed is not None:  # a recording brings its own samples
        del values["corpus"]
    if inputs.setup is not None:  # each check reads the setup again: what it decides is left out
        origins = inputs.setup_origins
        read_again = [key for key, setting in inputs.values.items() if setting.origin in origins]
        # A setup that truncates nothing has the longest length of this corpus as its max_length:
        # it is not written either, unless the user gave one.
        if inputs.setup.batching.max_length_of_corpus and "max_length" not in inputs.options.given:
            read_again.append("max_length")
        values = {k: value for k, value in values.items() if k.replace("-", "_") not in read_again}
    new_text = old_text.rstrip("\r\n") + "\n\n" if old_text.strip() else ""
    new_text += configuration_toml(table, values, limits)
    if "\r\n" in old_text:  # the file has Windows' ends of lines
        # To "\n" first, or the old lines would get a second "\r".
        new_text = new_text.replace("\r\n", "\n").replace("\n", "\r\n")
    content = encoded(new_text)
    try:
        # Parsed before it is written; a byte order mark at the beginning is not TOML.
        tomllib.loads(content.decode().removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"cannot add the settings to {path} ({error}): write them to batchstat.toml by hand"
        ) from None
    write_file(path, content, remedy="change to a writable folder")
