"""Options for results, checks and the configuration."""

from pathlib import Path
from typing import Annotated

from batchstat.cli.options.base import LIMITS, OUTPUT, any_path, local_path, option

Output = Annotated[
    Path,
    option(
        OUTPUT,
        "Results folder (a path or a URL).",
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
        "Write the batches of the row in bold, for all ranks, for BatchSampler.from_plan.",
        False,
        "FILE",
        parser=any_path,
    ),
]
CheckNames = Annotated[
    list[str] | None,
    option(
        OUTPUT, "Run only this check of the configuration. Repeatable.", "all", "NAME", "--check"
    ),
]
ConfigFile = Annotated[
    Path | None,
    option(
        OUTPUT,
        "Configuration file: batchstat.toml or pyproject.toml.",
        "the nearest in this folder or above",
        "FILE",
        "--config",
        parser=local_path,
    ),
]
NoConfig = Annotated[
    bool, option(OUTPUT, "Ignore the configuration file.", False, None, "--no-config")
]
WarnOnly = Annotated[
    bool, option(OUTPUT, "Report exceeded limits, but exit with 0.", False, None, "--warn-only")
]
Formats = Annotated[
    list[str] | None,
    option(
        OUTPUT,
        "Output format: text, json, markdown, junit or github; =FILE writes it to a file. "
        "Repeatable.",
        "text",
        "NAME[=FILE]",
        "--format",
    ),
]
Baseline = Annotated[
    Path | None,
    option(
        LIMITS,
        "Compare with this baseline.",
        False,
        "FILE",
        parser=local_path,
    ),
]
EqualSteps = Annotated[
    bool | None,
    option(
        LIMITS, "Fail unless all ranks run the same number of steps.", False, None, "--equal-steps"
    ),
]
BaselineFile = Annotated[
    Path | None,
    option(
        OUTPUT,
        "Baseline file to write.",
        "the configuration's, or batchstat-baseline.json",
        "FILE",
        parser=local_path,
    ),
]
