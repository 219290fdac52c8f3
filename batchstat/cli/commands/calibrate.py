"""batchstat calibrate: measure a device's time and memory of training, or estimate its memory."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from batchstat.calibration.setup import Setup
from batchstat.cli.options import Options, takes
from batchstat.cli.records import Json
from batchstat.cli.streams import KeptOnInterrupt, emit, say, show
from batchstat.errors import OptionError
from batchstat.parameters import described, option, options_of, parse_bytes
from batchstat.storage.shown import is_remote
from batchstat.words import counted

if TYPE_CHECKING:
    from batchstat.calibration.calibration import Calibration
    from batchstat.calibration.measuring import MeasuringProgress, OnProgress

_BATCHES = "Batches"  # the group in which help lists the options of batches
_REMEDY = "name another with -o"


@dataclass(frozen=True, kw_only=True)
class Measured:
    """Where it is measured, on which batches, and where the result goes."""

    device: str | None = option(
        None,
        "Device, as torch names it: cuda, cuda:1, mps, cpu.",
        "Device",
        "NAME",
        shown="the accelerator, else the CPU",
        is_common=True,
    )
    estimate: bool = option(
        False,
        "Measure nothing: estimate memory from the model's shape, without torch.",
        "Device",
        flags=("--estimate",),
        is_common=True,
    )
    memory: str | None = option(
        None,
        "Memory of the device, with --estimate.",
        "Device",
        "80GiB",
        shown="no limit",
        is_common=True,
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


@takes(Setup, Measured, Json)
@described(
    """Measure time and memory of training on this device, for compare --calibration.

    Runs steps of the model, with random weights, on batches of random tokens: some minutes on a
    GPU. Needs torch.

    Examples:
        # A model's configuration, as trainers with bf16: true run it
        batchstat calibrate --model ./qwen3 --dtype bfloat16 --mixed-precision

        # Your own training step: def step(batch) in train.py
        batchstat calibrate --model train:step --max-length 2048

        # Memory alone, without a run
        batchstat calibrate --model qwen3-8b --estimate --memory 80GiB
    """
)
def command(options: Options) -> None:
    from batchstat.calibration.calibration import save_calibration
    from batchstat.render.screens.calibration import calibration_screen
    from batchstat.storage.results import check_file, write_file

    setup, measured = options.read(Setup), options.read(Measured)
    if not setup.model:
        raise OptionError("no model", "pass --model with a folder, a name, or module:function")
    if measured.output.suffix != ".json":
        raise OptionError(f"output={measured.output.as_posix()}", "must end in .json")
    check_file(measured.output, _REMEDY)
    # A function of the user that is measured may change the working folder, as Hydra does.
    output = measured.output if is_remote(measured.output) else measured.output.absolute()
    calibration = _estimate(setup, measured) if measured.estimate else _measure(setup, measured)
    text = save_calibration(calibration)
    write_file(output, text.encode(), _REMEDY)
    if options.read(Json).as_json:
        emit(text)
    else:
        show(calibration_screen(calibration, measured.output.as_posix()))
    say(f"wrote {measured.output.as_posix()}")
    if not calibration.is_complete:
        batches = counted(len(calibration.points), "batch", "batches")
        say(f"interrupted: it has the {batches} that were measured by then")
        raise KeptOnInterrupt


def _measure(setup: Setup, measured: Measured) -> "Calibration":
    """Run training steps on the device, and return their time and memory."""
    from batchstat.calibration.calibrate import calibrate

    if measured.memory is not None:
        raise OptionError("--memory goes with --estimate: a device knows its own")
    with _shown_progress() as on_progress:
        return calibrate(
            **{name: getattr(setup, name) for name in options_of(setup)},
            device=measured.device,
            max_length=measured.max_length,
            tokens_per_batch=measured.tokens_per_batch,
            on_progress=on_progress,
        )


def _estimate(setup: Setup, measured: Measured) -> "Calibration":
    """Return the memory that training would need, by the model's shape."""
    from batchstat.calibration.memory_estimate import estimate_memory

    for name in ("device", "max_length", "tokens_per_batch"):
        if getattr(measured, name) is not None:
            raise OptionError("--estimate measures nothing", f"remove --{name.replace('_', '-')}")
    if setup.compile:
        raise OptionError("--estimate measures nothing", "remove --compile")
    setup_options = {name: getattr(setup, name) for name in options_of(setup) if name != "compile"}
    memory = None if measured.memory is None else parse_bytes("memory", measured.memory)
    return estimate_memory(**setup_options, memory=memory)


@contextmanager
def _shown_progress() -> "Iterator[OnProgress]":
    """Yield a function that shows progress on standard error: a bar on a terminal, else lines."""
    if not sys.stderr.isatty():
        last_stage = ""

        def say_new_stage(now: "MeasuringProgress") -> None:
            nonlocal last_stage
            if now.stage != last_stage:
                last_stage = now.stage
                say(last_stage)

        yield say_new_stage
        return
    from rich.console import Console
    from rich.progress import BarColumn, Progress, TextColumn

    columns = (BarColumn(bar_width=20), TextColumn("{task.description}"))
    # `transient`: the bar disappears at the end.
    with Progress(*columns, console=Console(stderr=True), transient=True) as bar:
        # A total of None: the bar moves, but shows no share of the work.
        task = bar.add_task("loading torch", total=None)
        # `of`, the number of batches to measure, is 0 until it is known.
        yield lambda now: bar.update(
            task, description=f"{now.stage}: {now.shape}", completed=now.done, total=now.of or None
        )
