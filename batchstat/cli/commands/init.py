"""batchstat init: measure what is trained, write limits for it, and print a CI workflow."""

import shlex
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, Current, Ignored, corpus_argument
from batchstat.cli.streams import emit, say
from batchstat.errors import InputError, OptionError
from batchstat.findings import Finding
from batchstat.parameters import described
from batchstat.planning.settings import Settings

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.gate.limits import Limits
    from batchstat.profiling.profile import Profile
    from batchstat.simulation.compare.changes import Changes
    from batchstat.simulation.results import StrategyResult

_MUCH_TRUNCATED = 0.05  # share of the tokens above which nobody means to truncate by default


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The corpus to measure."""

    corpus: tuple[str, ...] = corpus_argument("Files, folders, patterns or URLs, as for profile.")


@takes(Corpus, Current, Settings, *READING, Ignored)
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
    from batchstat.cli.configuration import CheckSettings
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.profiles import count
    from batchstat.corpus.files.sources import STANDARD_INPUT
    from batchstat.documents.comparison import report_document
    from batchstat.gate.limits import DEFAULT_CHECK, propose_limits
    from batchstat.planning.inputs import resolve_inputs
    from batchstat.planning.settings import DEFAULT_CURRENT
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
            raise OptionError("no corpus", "name the files that the check reads")
        strategy = inputs.current or StrategySpec.of(DEFAULT_CURRENT)
        strategy.checked(inputs.settings)
    # Both may raise, and so come before the corpus is counted, which may take long.
    recording_command = _recording_command(inputs)
    path, old_text = _configuration_file()
    whole_profile = count(inputs)[0] if inputs.observed is None else inputs.observed.profile
    training = inputs.training(whole_profile)
    inputs.warn(*training.warnings)
    samples = training.profile  # without those that a trainer leaves out
    candidates = simulate_candidates(
        resolve_inputs(samples, keep=training.settings.keep_labels),
        training.settings,
        strategies=training.strategies,
        current=training.row or DEFAULT_CURRENT,
        # Without a trainer's keys, the name of a strategy may stand for a trainer.
        trainer=changes_of_name if training.trainer is None else training.trainer.changes,
    )
    current = candidates.changes.current  # the results of the current setup
    # Where the tokenizer's maximum truncates much, the user probably trains with another length.
    ratio, max_length = current.counts.truncated_ratio, current.request.settings.max_length
    if "max_length" not in inputs.values and ratio > _MUCH_TRUNCATED:
        raise InputError(
            f"{ratio:.1%} of the tokens are truncated to {max_length:,} tokens per sample, the "
            "tokenizer's maximum",
            "pass the length that you train with, --max-length",
        )
    simulation = Simulation(basis=current.request.settings, row=current, warnings=())
    limits = propose_limits(
        report_document(samples, simulation),
        may_drop=inputs.setup is not None,  # a trainer may leave out samples
        has_budget=inputs.observed is None,  # of a recording, its largest batch counts as budget
    )
    decided = _decided_values(inputs, samples, current)
    _write_configuration(path, old_text, inputs, limits, decided)
    paths = [*inputs.corpus, *filter(None, map(inputs.get, ("tokenizer", "current")))]
    if absolute_paths := [str(each) for each in paths if Path(each).is_absolute()]:
        absolute = f"absolute paths, which other machines may not have: {', '.join(absolute_paths)}"
        inputs.warn(Finding("config/absolute-paths", absolute))
    say(f"wrote to {path}: {', '.join(f'{name} {limit}' for name, limit, _ in limits)}")
    _say_current(inputs, candidates.changes)
    say("next: batchstat check; put the following into .github/workflows/batchstat.yml")
    emit(workflow(recording_command))


def _recording_command(inputs: "Inputs") -> str:
    """Return the command that records the training again on CI; empty without a recording."""
    from batchstat.trainers.preflight.recorded import DEFAULT_FOLDER

    run = None if inputs.observed is None else inputs.observed.run
    if run is None:
        return ""
    if not run.command:
        raise InputError(
            f"{run.folder}: a part of a program was recorded, which a workflow cannot record again",
            "record its command with batchstat run",
        )
    # The workflow records a dry run, even if this recording is of a whole training.
    words = ["batchstat", "run", "--dry-run"]
    if run.no_weights:
        words.append("--no-weights")
    if Path(run.folder) != DEFAULT_FOLDER:  # which a run replaces: it can be run twice in a folder
        words += ["-o", run.folder]
    return f"{shlex.join(words)} -- {run.command}"  # the command is quoted for a shell already


def _decided_values(inputs: "Inputs", profile: "Profile", row: "StrategyResult") -> dict[str, int]:
    """Return what batchstat decided by the data: batch size, and max-length where it truncates."""
    # Written beside the limits, so that the settings stay the same when the data change.
    decided: dict[str, int] = {}
    if inputs.observed is not None:  # a recording brings its own
        return decided
    limit = profile.stated_max  # the tokenizer's maximum; None if it states none
    if "max_length" not in inputs.values and limit is not None and profile.stats.max > limit:
        decided["max-length"] = limit
    # A batch size that neither settings nor the strategy give follows from the budget.
    size_key, _ = row.size  # "batch_size", or "tokens_per_batch" for a strategy with a budget
    is_given = row.request.settings.given_batch_size or "batch_size" in inputs.values
    if size_key == "batch_size" and not is_given:
        decided["batch-size"] = row.request.settings.batch_size
    return decided


def _say_current(inputs: "Inputs", changes: "Changes") -> None:
    """Say of which setup the limits are, and which change of it would be faster."""
    from batchstat.render.text import percent

    counts, label = changes.current.counts, changes.current.label
    remark = ""
    if inputs.setup is None and inputs.current is None:
        remark = (
            ", as nothing names what you train with: add --current, a strategy, a trainer's name "
            "or its file"
        )
    say(f"the limits are of {label}, {percent(counts.padding_ratio)} padding{remark}")
    if changes.star is not None:  # the change that is recommended
        star = changes.star
        say(
            f"{star.line or star.row.label} would be {star.speed_up:.2f}x faster: see batchstat "
            "compare"
        )


def _configuration_file() -> tuple[Path, str]:
    """Return the file to write the configuration to, and its contents so far."""
    from batchstat.cli.configuration import OWN_FILE, SHARED_FILE, find_here

    if (existing := find_here(Path())) is not None:
        raise InputError(f"{existing} already has settings for batchstat", "edit or remove them")
    shared = Path(SHARED_FILE)
    if shared.exists():
        with shared.open(encoding="utf-8", newline="") as file:  # "": ends of lines as they are
            return shared, file.read()
    return Path(OWN_FILE), ""


def _write_configuration(
    path: Path, old_text: str, inputs: "Inputs", limits: "Limits", decided: "dict[str, int]"
) -> None:
    """Append a table with the settings and the limits to the configuration file."""
    import tomllib

    from batchstat.cli.configuration import SHARED_FILE
    from batchstat.render.command_lines import configuration_toml
    from batchstat.storage.results import encoded, write_file

    # The table's name; "" writes at the top of batchstat.toml, which is batchstat's own.
    table = "tool.batchstat" if path.name == SHARED_FILE else ""
    # By the keys of the file. Without a current setup, the default is written by name.
    current = inputs.get("current", inputs.current_text)
    values = {key.replace("_", "-"): setting.value for key, setting in inputs.values.items()}
    values |= {"corpus": inputs.corpus, "current": current, **decided}
    if inputs.observed is not None:  # a recording brings its own samples
        del values["corpus"]
    if inputs.setup is not None:
        # What the setup decides is left out: each check reads the setup again.
        for key in inputs.decided_by_setup:
            values.pop(key.replace("_", "-"), None)
        # Nor the longest length of this corpus, which a setup that truncates nothing has.
        if inputs.setup.batching.max_length_of_corpus and "max_length" not in inputs.options.given:
            values.pop("max-length", None)
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
            f"cannot add the settings to {path} ({error})", "write them to batchstat.toml by hand"
        ) from None
    write_file(path, content, remedy="change to a writable folder")
