"""batchstat calibrate"""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.calibration.calibrate import ATTENTIONS, DTYPES, OPTIMIZERS
from batchstat.cli.options import Options, takes
from batchstat.parameters import option

if TYPE_CHECKING:
    from batchstat.calibration.measuring import MeasuringProgress, OnProgress

_MODEL, _BATCHES = "Model", "Batches"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """What is measured, and where the result goes."""

    model: str = option(
        "",
        "Folder with a config.json, a name on the Hugging Face Hub, or module:function.",
        _MODEL,
        "MODEL",
        is_common=True,
    )
    device: str | None = option(
        None,
        "Device, as torch names it: cuda, cuda:1, mps, cpu.",
        _MODEL,
        "NAME",
        shown="the accelerator, else the CPU",
        is_common=True,
    )
    dtype: str = option(
        "float32",
        "What computes: float32, bfloat16 or float16.",
        _MODEL,
        "NAME",
        values=DTYPES,
        is_common=True,
    )
    mixed_precision: bool = option(
        False,
        "Keep weights in float32 while `dtype` computes, as bf16: true does.",
        _MODEL,
        flags=("--mixed-precision",),
        is_common=True,
    )
    attention: str = option(
        "sdpa", "Implementation of attention.", _MODEL, "NAME", values=ATTENTIONS, is_common=True
    )
    optimizer: str = option("adamw", "The optimizer.", _MODEL, "NAME", values=OPTIMIZERS)
    gradient_checkpointing: bool = option(
        False,
        "Compute activations again in the backward pass.",
        _MODEL,
        flags=("--gradient-checkpointing",),
        is_common=True,
    )
    compile: bool = option(
        False, "Compile for each shape with torch.compile.", _MODEL, flags=("--compile",)
    )
    max_length: int | None = option(
        None,
        "Tokens of the widest row.",
        _BATCHES,
        "N",
        shown="the model's maximum, at most 4,096",
        is_common=True,
    )
    tokens_per_batch: int | None = option(
        None,
        "Total tokens of the largest batch.",
        _BATCHES,
        "N",
        shown="as many as fit; 16,384 on a CPU",
        is_common=True,
    )
    output: Path = option(
        Path("calibration.json"),
        "The file to write.",
        "Output",
        "FILE",
        shown="calibration.json",
        flags=("-o", "--output"),
        is_common=True,
    )
    as_json: bool = option(
        False, "Print the JSON that is written.", "Output", flags=("--json",), is_common=True
    )


@takes(Measured)
def command(options: Options) -> None:
    """Measure time and memory of training on this device, for compare --calibration.

    Runs steps of the model, with random weights, on batches of random tokens: some minutes on a
    GPU. Needs torch.

    Examples:
        # A model's configuration, as trainers with bf16: true run it
        batchstat calibrate --model ./qwen3-0.6b --dtype bfloat16 --mixed-precision -o h100.json

        # Your own training step: def step(batch) in train.py
        batchstat calibrate --model train:step --max-length 2048
    """
    from dataclasses import asdict

    from batchstat.calibration.calibrate import calibrate
    from batchstat.calibration.calibration import save_calibration
    from batchstat.cli.streams import console, emit, render, say
    from batchstat.errors import OptionError, counted
    from batchstat.render.screens.calibration import calibration_screen
    from batchstat.storage.results import write_file

    measured = options.read(Measured)
    if not measured.model:
        raise OptionError("no model: pass --model with a folder, a name, or module:function")
    if measured.output.suffix != ".json":
        raise OptionError(f"output={measured.output.as_posix()}: must end in .json")
    given = asdict(measured)
    output, as_json = given.pop("output"), given.pop("as_json")
    with _shown_progress() as on_progress:
        found = calibrate(**given, on_progress=on_progress)
    text = save_calibration(found)
    write_file(output, text.encode(), remedy="name another with -o")
    if as_json:
        emit(text)
    else:
        emit(render(calibration_screen(found, output.as_posix()), console()), sys.stdout.encoding)
    say(f"wrote {output.as_posix()}")
    if not found.is_complete:
        say(f"interrupted: only {counted(len(found.points), 'batch', 'batches')} measured")
        raise KeyboardInterrupt


@contextmanager
def _shown_progress() -> "Iterator[OnProgress]":
    """Yield what shows the progress on standard error: a bar, or off a terminal its stages."""
    if not sys.stderr.isatty():
        yield _lines()
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"))
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        task = bar.add_task("loading torch", total=None)
        yield lambda now: bar.update(
            task, description=f"{now.stage}: {now.shape}", completed=now.done, total=now.of or None
        )


def _lines() -> "OnProgress":
    from batchstat.cli.streams import say

    stage = ""

    def update(now: "MeasuringProgress") -> None:
        nonlocal stage
        if now.stage != stage:
            stage = now.stage
            say(stage)

    return update
