"""batchstat init"""

from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.cli.options import Options, takes
from batchstat.cli.records import READING, Strategy
from batchstat.parameters import option
from batchstat.planning.settings import Settings

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs
    from batchstat.gate.proposal import Limits


@dataclass(frozen=True, kw_only=True)
class Corpus:
    """The corpus to measure."""

    corpus: tuple[str, ...] = option(
        (), "Files, folders, patterns or URLs, as for profile.", "", "CORPUS", is_argument=True
    )


@takes(Corpus, Strategy, Settings, *READING)
def command(options: Options) -> None:
    """Measure a corpus, write limits for it, print a CI workflow.

    Writes the limits, which have a margin, and the settings to [tool.batchstat] of pyproject.toml
    if there is one, else to batchstat.toml.

    Examples:
        # Settings and limits
        batchstat init data/train.jsonl --tokens-per-batch 16k

        # Of what the trainer's own configuration does; every check reads it again
        batchstat init --current sft.yaml --world-size 8

        # The workflow too
        batchstat init data/train.jsonl > .github/workflows/batchstat.yml
    """
    from batchstat.cli.configuration import DEFAULT_CHECK, CheckSettings
    from batchstat.cli.current import trained_samples
    from batchstat.cli.inputs import read_inputs
    from batchstat.cli.profiles import count
    from batchstat.cli.streams import emit, say
    from batchstat.corpus.sources import STANDARD_INPUT
    from batchstat.documents.comparison import report_document
    from batchstat.errors import OptionError
    from batchstat.gate.proposal import propose_limits
    from batchstat.planning.strategies.spec import parse_strategies
    from batchstat.render.recipes.writing import workflow
    from batchstat.simulation.compare import simulate

    inputs = read_inputs(options, CheckSettings(DEFAULT_CHECK))
    if not inputs.corpus or STANDARD_INPUT in map(str, inputs.corpus):
        raise OptionError("no corpus: name the files that the check reads")
    parse_strategies([inputs.strategy], inputs.settings.resolve(longest=1, stated_max=None))
    path, before = _target()
    samples, settings, found = trained_samples(inputs, count(inputs)[0])
    for warning in found:
        say(f"warning: {warning.message}")
    simulation = simulate(samples, inputs.strategy, settings)
    report = report_document(samples, simulation)
    limits = propose_limits(report, may_drop=inputs.setup is not None)
    _write(path, before, inputs, limits, simulation.basis.max_length)
    named = [inputs.get(key) for key in ("tokenizer", "current")]
    named = [*inputs.corpus, *filter(None, named)]
    if absolute := [str(each) for each in named if Path(each).is_absolute()]:
        say(f"warning: absolute paths, which other machines may not have: {', '.join(absolute)}")
    say(f"wrote to {path}: {', '.join(f'{name} {limit}' for name, limit, _ in limits)}")
    say("next: batchstat check; put the following into .github/workflows/batchstat.yml")
    emit(workflow())


def _target() -> tuple[Path, str]:
    """Return the file to write to, and its contents so far.

    Raises:
        InputError: a configuration exists already, or cannot be read.
    """
    from batchstat.cli.configuration import OWN_FILE, SHARED_FILE, find_here
    from batchstat.errors import InputError

    if (found := find_here(Path())) is not None:
        raise InputError(f"{found} already has settings for batchstat: edit or remove them")
    shared = Path(SHARED_FILE)
    if shared.exists():
        with shared.open(encoding="utf-8", newline="") as file:
            return shared, file.read()
    return Path(OWN_FILE), ""


def _write(path: Path, before: str, inputs: "Inputs", limits: "Limits", max_length: int) -> None:
    """Write the settings and limits; `max_length` is written too, which would else follow the data.

    Raises:
        InputError: the file would not be TOML.
    """
    import tomllib

    from batchstat.cli.configuration import SHARED_FILE
    from batchstat.cli.results import encoded
    from batchstat.errors import InputError
    from batchstat.render.toml import configuration_toml
    from batchstat.storage.results import write_file

    table = "tool.batchstat" if path.name == SHARED_FILE else ""
    values = {key.replace("_", "-"): setting.value for key, setting in inputs.values.items()}
    values |= {"corpus": inputs.corpus, "max-length": max_length}
    if inputs.setup is not None:  # each check reads it again
        origin = inputs.setup.path.as_posix()
        read = [key for key, setting in inputs.values.items() if setting.origin == origin]
        if inputs.setup.max_length_of_corpus and "max_length" not in inputs.options.given:
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
