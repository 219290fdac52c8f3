"""Where results go, and what they are held against."""

from pathlib import Path
from typing import Annotated

from batchstat.cli.options.base import LIMITS, OUTPUT, any_path, local_path, option

Output = Annotated[
    Path,
    option(
        OUTPUT,
        "Results folder, or an address of one.",
        True,
        "DIR",
        *("-o", "--output"),
        parser=any_path,
    ),
]
AsJson = Annotated[bool, option(OUTPUT, "Print the JSON that is written.", False, None, "--json")]
Plots = Annotated[bool, option(OUTPUT, "Draw plots.", True, None, "--plots/--no-plots")]
Export = Annotated[
    Path | None,
    option(
        OUTPUT,
        "Write the batches of the row in bold, of all ranks, for BatchSampler.from_plan.",
        False,
        "FILE",
        parser=any_path,
    ),
]
CheckNames = Annotated[
    list[str] | None,
    option(OUTPUT, "Only this check of the configuration. Repeatable.", "all", "NAME", "--check"),
]
ConfigFile = Annotated[
    Path | None,
    option(
        OUTPUT,
        "batchstat.toml or pyproject.toml.",
        "the nearest here or above",
        "FILE",
        "--config",
        parser=local_path,
    ),
]
NoConfig = Annotated[
    bool, option(OUTPUT, "Leave the configuration out.", False, None, "--no-config")
]
WarnOnly = Annotated[
    bool, option(OUTPUT, "Report what is exceeded, and exit with 0.", False, None, "--warn-only")
]
Formats = Annotated[
    list[str] | None,
    option(
        OUTPUT,
        "text, json, markdown, junit or github; with =FILE into a file. Repeatable.",
        "text",
        "NAME[=FILE]",
        "--format",
    ),
]
Baseline = Annotated[
    Path | None,
    option(
        LIMITS,
        "Hold the numbers against those of a baseline.",
        False,
        "FILE",
        parser=local_path,
    ),
]
EqualSteps = Annotated[
    bool | None,
    option(LIMITS, "Every rank has as many steps.", False, None, "--equal-steps"),
]
BaselineFile = Annotated[
    Path | None,
    option(
        OUTPUT,
        "The file.",
        "the configuration's, or batchstat-baseline.json",
        "FILE",
        parser=local_path,
    ),
]
