"""batchstat init"""

import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import typer

from batchstat.cli.options import groups as o

if TYPE_CHECKING:
    from batchstat.cli.inputs import Inputs

WORKFLOW = """\
name: batchstat
on:
  pull_request:
  push:
    branches: [main]
permissions:
  contents: read
jobs:
  padding:
    runs-on: ubuntu-latest
    steps:
      - uses: actions/checkout@v5
      - uses: actions/setup-python@v6
        with:
          python-version: "3.12"
      - uses: actions/cache@v4
        with:
          path: ~/.cache/batchstat
          key: batchstat-${{ github.sha }}
          restore-keys: batchstat-
      # Build the wheel with: python -m pip wheel --no-deps --wheel-dir vendor CLONE_OF_BATCHSTAT
      - run: python -m pip install vendor/batchstat-*.whl
      - run: batchstat check --format github
"""
"""A GitHub Actions workflow without a token, so that it runs for pull requests from forks too."""

Limits = Sequence[tuple[str, str, str]]
"""Name, limit as TOML, and the measured value."""


@o.takes(o.CORPUS, o.STRATEGY, o.BATCHING, o.SAMPLER, o.READING)
def command(context: typer.Context, **options: Any) -> None:
    """Measure a corpus, write limits with a margin to the configuration, print a CI workflow.

    Writes [tool.batchstat] to pyproject.toml if there is one, else batchstat.toml.

    batchstat init data/train.jsonl --tokens-per-batch 16384

    batchstat init data/train.jsonl > .github/workflows/batchstat.yml
    """
    from batchstat.cli.checking import strategy_of
    from batchstat.cli.configuration import DEFAULT_CHECK, CheckSettings
    from batchstat.cli.inputs import inputs
    from batchstat.cli.profiles import count
    from batchstat.cli.streams import emit, say
    from batchstat.corpus.sources import STANDARD_INPUT
    from batchstat.documents.comparison import report_json
    from batchstat.errors import OptionError
    from batchstat.simulation.compare import parse_strategies, simulate

    given = inputs(context, CheckSettings(DEFAULT_CHECK))
    if not given.corpus or STANDARD_INPUT in map(str, given.corpus):
        raise OptionError("no corpus: name the files that the check reads")
    strategy, settings = strategy_of(given), given.settings
    parse_strategies([strategy], settings.decide(longest=1, stated_max=None))
    path, before = _target()
    profile, _ = count(context, given)
    report = report_json(profile, simulate(profile, strategy, settings))
    limits = proposed(report)
    _write(path, before, given, limits)
    say(f"wrote to {path}: {', '.join(f'{name} {limit}' for name, limit, _ in limits)}")
    say("next: batchstat check; put the following into .github/workflows/batchstat.yml")
    emit(WORKFLOW)


def proposed(report: Mapping[str, Any]) -> Limits:
    """Return limits with a margin over the measured values: half a percentage point for padding and
    lost tokens, five for fill, a tenth for the ratio of classes, none for batches over budget.
    """
    row = report["strategy"]
    limits = [
        ("max-padding", _above(row["padding_ratio"]), _measured(row["padding_ratio"])),
        ("min-fill", _below(row["fill"]), _measured(row["fill"])),
        ("max-truncated", _above(row["truncated_ratio"]), _measured(row["truncated_ratio"])),
    ]
    if report["basis"]["overflow"] == "drop" or report["basis"]["drop_last"]:
        limits.append(
            ("max-dropped", _above(row["dropped_ratio"]), _measured(row["dropped_ratio"]))
        )
    over = row["over_budget_batches"]
    limits.append(("max-over-budget", str(over), f"measured {over:,}"))
    if (ratio := report["class_ratio"]) is not None:
        limit = math.ceil(ratio * 11) / 10
        limits.append(("max-class-ratio", f"{limit:.1f}", f"measured {ratio:.2f}"))
    return limits


def _above(ratio: float) -> str:
    tenths = min(math.ceil(1000 * ratio + 5), 1000)
    return f'"{tenths / 10:.1f}%"'


def _below(ratio: float) -> str:
    return f'"{min(max(math.floor(100 * ratio - 5), 0), 100)}%"'


def _measured(ratio: float) -> str:
    return f"measured {100 * ratio:.2f}%"


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


def _write(path: Path, before: str, given: "Inputs", limits: Limits) -> None:
    import tomllib

    from batchstat.cli.configuration import SHARED_FILE
    from batchstat.cli.profiles import encoded
    from batchstat.errors import InputError
    from batchstat.render.toml import configuration_toml
    from batchstat.storage.results import write_file

    table = "tool.batchstat" if path.name == SHARED_FILE else ""
    values = {key.replace("_", "-"): setting.value for key, setting in given.values.items()}
    values["corpus"] = given.corpus
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
