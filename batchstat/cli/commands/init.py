"""batchstat init"""

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

    inputs = read_inputs(options, CheckSettings(DEFAULT_CHECK))
    if inputs.observed is None:
        if not inputs.corpus or STANDARD_INPUT in map(str, inputs.corpus):
            raise OptionError("no corpus: name the files that the check reads")
        (inputs.current or StrategySpec.of(DEFAULT_CURRENT)).checked(inputs.settings)
    record = _to_record(inputs)
    path, before = _target()
    whole = count(inputs)[0] if inputs.observed is None else inputs.observed.profile
    trained = current_of(inputs, whole)
    warn(*(warning.message for warning in trained.warnings))
    samples = trained.profile
    simulated = simulate_candidates(
        resolve_inputs(samples, keep=trained.settings.keep_labels),
        trained.settings,
        strategies=trained.strategies,
        current=trained.row or DEFAULT_CURRENT,
        trainer=changes_of_name if trained.trainer is None else trained.trainer.changes,
    )
    row = simulated.changes.current
    _check_truncation(inputs, row)
    simulation = Simulation(row.request.settings, row, ())
    limits = propose_limits(
        report_document(samples, simulation),
        may_drop=inputs.setup is not None,
        has_budget=inputs.observed is None,
    )
    _write(path, before, inputs, limits, _decided(inputs, samples, row))
    named = [inputs.get(key) for key in ("tokenizer", "current")]
    named = [*inputs.corpus, *filter(None, named)]
    if absolute := [str(each) for each in named if Path(each).is_absolute()]:
        warn(f"absolute paths, which other machines may not have: {', '.join(absolute)}")
    say(f"wrote to {path}: {', '.join(f'{name} {limit}' for name, limit, _ in limits)}")
    _say_current(inputs, simulated.changes)
    say("next: batchstat check; put the following into .github/workflows/batchstat.yml")
    emit(workflow(record))


def _to_record(inputs: "Inputs") -> str:
    """Return the command that records again what is limited; empty where nothing was recorded.

    Raises:
        InputError: a part of a program was recorded.
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
    words += ["--no-weights"] if run.no_weights else []
    words += ["-o", run.folder, "--"]
    return f"{shlex.join(words)} {run.command}"


def _check_truncation(inputs: "Inputs", row: "StrategyResult") -> None:
    """Raise InputError if much of the corpus is truncated to a length that nobody named."""
    ratio, longest = row.counts.truncated_ratio, row.request.settings.max_length
    if "max_length" in inputs.values or ratio <= _MUCH_TRUNCATED:
        return
    raise InputError(
        f"{ratio:.1%} of the tokens are truncated to {longest:,} tokens per sample, the "
        "tokenizer's maximum: pass the length that you train with, --max-length"
    )


def _decided(inputs: "Inputs", profile: "Profile", row: "StrategyResult") -> dict[str, int]:
    """Return what the limits depend on and nobody gave, and what would else follow the data: the
    tokenizer's maximum where it cuts samples, and the batch size.
    """
    decided: dict[str, int] = {}
    if inputs.observed is not None:  # each recording has its own
        return decided
    given = {key.replace("_", "-") for key in inputs.values}
    if profile.stated_max is not None and profile.stats.max > profile.stated_max:
        decided["max-length"] = profile.stated_max
    if row.size[0] == "batch_size" and row.request.settings.given_batch_size is None:
        decided["batch-size"] = row.request.settings.batch_size
    return {key: value for key, value in decided.items() if key not in given}


def _say_current(inputs: "Inputs", changes: "Changes") -> None:
    """Say what is limited, and what would help it."""
    from batchstat.render.text import percent

    counts, label = changes.current.counts, changes.current.label
    named = ""
    if inputs.setup is None and inputs.current is None:
        named = (
            ", as nothing names what you train with: add --current, a strategy, a trainer's name "
            "or its file"
        )
    say(f"the limits are of {label}, {percent(counts.padding_ratio)} padding{named}")
    if changes.star is not None:
        star = changes.star
        say(
            f"{star.line or star.row.label} would be {star.speed_up:.2f}x faster: see batchstat "
            "compare"
        )


def _target() -> tuple[Path, str]:
    """Return the file to write to, and its contents so far.

    Raises:
        InputError: a configuration exists already, or cannot be read.
    """
    from batchstat.cli.configuration import OWN_FILE, SHARED_FILE, find_here

    if (found := find_here(Path())) is not None:
        raise InputError(f"{found} already has settings for batchstat: edit or remove them")
    shared = Path(SHARED_FILE)
    if shared.exists():
        with shared.open(encoding="utf-8", newline="") as file:
            return shared, file.read()
    return Path(OWN_FILE), ""


def _write(
    path: Path, before: str, inputs: "Inputs", limits: "Limits", decided: "dict[str, int]"
) -> None:
    """Write the settings and limits, and what was decided that they depend on.

    Raises:
        InputError: the file would not be TOML.
    """
    import tomllib

    from batchstat.cli.configuration import SHARED_FILE
    from batchstat.render.command_lines import configuration_toml
    from batchstat.storage.results import encoded, write_file

    table = "tool.batchstat" if path.name == SHARED_FILE else ""
    values = {key.replace("_", "-"): setting.value for key, setting in inputs.values.items()}
    values |= {"corpus": inputs.corpus, "current": inputs.get("current", inputs.trained), **decided}
    if inputs.observed is not None:
        del values["corpus"]
    if inputs.setup is not None:  # each check reads it again
        origins = inputs.setup_origins
        read = [key for key, setting in inputs.values.items() if setting.origin in origins]
        if inputs.setup.batching.max_length_of_corpus and "max_length" not in inputs.options.given:
            read.append("max_length")
        values = {key: value for key, value in values.items() if key.replace("-", "_") not in read}
    whole = before.rstrip("\r\n") + "\n\n" if before.strip() else ""
    whole += configuration_toml(table, values, limits)
    if "\r\n" in before:
        whole = whole.replace("\r\n", "\n").replace("\n", "\r\n")
    content = encoded(whole)
    try:
        tomllib.loads(content.decode().removeprefix("\ufeff"))
    except tomllib.TOMLDecodeError as error:
        raise InputError(
            f"cannot add the settings to {path} ({error}): write them to batchstat.toml by hand"
        ) from None
    write_file(path, content, remedy="change to a writable folder")
