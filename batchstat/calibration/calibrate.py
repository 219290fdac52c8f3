"""`calibrate`: measure what training on batches takes on this machine."""

from contextlib import suppress
from dataclasses import replace
from datetime import UTC, datetime
from typing import Any

from batchstat.calibration.calibration import Calibration
from batchstat.calibration.cost_model import shape_of
from batchstat.calibration.fit import fit_calibration
from batchstat.calibration.known_models import load_configuration
from batchstat.calibration.measuring import OnProgress, measure_device
from batchstat.calibration.setup import OF_MODELS, Setup
from batchstat.errors import InputError, OptionError, arguments_named, install_extra
from batchstat.parameters import whole_number
from batchstat.words import short

_ADVICE = "pass the folder of a config.json, or a function that runs one step, module:function"
_WIDEST = 4_096  # tokens of the widest row by default, where a model has as many positions


@arguments_named()
def calibrate(
    model: str,
    *,
    device: str | None = None,
    dtype: str = "float32",
    mixed_precision: bool = False,
    attention: str = "sdpa",
    optimizer: str = "adamw",
    gradient_checkpointing: bool = False,
    compile: bool = False,  # noqa: A002  # as trainers call it
    max_length: int | None = None,
    tokens_per_batch: int | None = None,
    on_progress: OnProgress = lambda _: None,
) -> Calibration:
    """Measure the time and memory of training steps on batches of many shapes, with random weights
    and random token ids.

    An interrupt ends the measurement early; what is measured by then is returned if it is enough.

    Args:
        model: a folder with a config.json of transformers, such a file, a name on the Hugging Face
            Hub, or `module:function`: it is called with a dictionary of tensors (input_ids,
            attention_mask and labels, each (rows, width)) and runs a whole step. Ids are below its
            attribute `vocabulary`, 1,000 by default. It decides by itself what `dtype`,
            `mixed_precision`, `attention`, `optimizer` and `gradient_checkpointing` are for.
        device: as torch names it, such as cuda or cuda:1; by default the accelerator of this
            machine, else its CPU.
        dtype: what computes: float32, bfloat16 or float16.
        mixed_precision: keep weights in float32, as trainers do with `bf16: true`.
        attention: implementation of attention, as transformers names it; rows of several samples
            are measured with flash_attention_2 and flash_attention_3, which keep them apart.
        optimizer: adamw or sgd.
        gradient_checkpointing: compute activations again in the backward pass.
        compile: compile the model for each shape with torch.compile.
        max_length: tokens of the widest row; by default the model's maximum, at most 4,096.
        tokens_per_batch: the most total tokens of a batch; by default as many as fit, on a CPU
            16,384.
        on_progress: called before each run.

    Example:
        >>> batchstat.calibrate("train:step", max_length=0)
        Traceback (most recent call last):
        batchstat.errors.OptionError: max_length=0: must be between 1 and 2,147,483,647

    Raises:
        OptionError: an argument that is wrong by itself.
        InputError: no torch, no such device or model, or not a single row fits.
        KeyboardInterrupt: interrupted before enough was measured.
    """
    if not isinstance(model, str) or not model:
        raise OptionError(f"model={short(model)}", _ADVICE)
    setup = Setup(
        model=model,
        dtype=dtype,
        mixed_precision=mixed_precision,
        attention=attention,
        optimizer=optimizer,
        gradient_checkpointing=gradient_checkpointing,
        compile=compile,
    )
    if is_function := setup.is_function:
        for name in OF_MODELS:
            if getattr(setup, name) != getattr(Setup(), name):  # the user set it
                raise OptionError(
                    f"{name} is not for a function, which decides it by itself",
                    f"remove it, and train with it in {model}",
                )
    elif attention.startswith("flash_attention") and dtype == "float32":
        raise OptionError(f"{attention} with dtype=float32", "set dtype=bfloat16 or float16")
    for name, value in (("max_length", max_length), ("tokens_per_batch", tokens_per_batch)):
        if value is not None:
            whole_number(name, value)
    try:
        import torch  # noqa: F401  # before the modules below, which need it
    except ImportError:
        raise InputError(
            "calibrate needs torch, which is not installed", install_extra("torch")
        ) from None
    from batchstat.calibration.torch_device import Steps, TorchDevice, find_device
    from batchstat.calibration.torch_steps import FunctionSteps, ModelSteps, quiet_transformers

    created = datetime.now(UTC).isoformat()
    torch_device = find_device(device)
    with quiet_transformers():
        config = None if is_function else load_configuration(model, _ADVICE)
        steps: Steps
        if config is None:
            steps = FunctionSteps(model)
        else:
            # Of a configuration that names its sizes in other words, the shape is not known.
            with suppress(InputError):
                setup = replace(setup, shape=shape_of(model, config))
            steps = ModelSteps(config, setup, torch_device)
        training_device = TorchDevice(torch_device, steps)
        measured = measure_device(
            training_device,
            _widest_row(config, steps.positions, max_length),
            tokens_per_batch=tokens_per_batch,
            # Other attention of transformers does not keep the samples of a row apart.
            packed=config is not None and attention.startswith("flash_attention"),
            on_progress=on_progress,
        )
    has_memory = all(point.peak is not None for point in measured.points)
    fixed = training_device.fixed if has_memory else None
    time, memory = fit_calibration(measured.points, fixed, training_device.gradients)
    return Calibration(
        created=created,
        setup=setup,
        hardware=training_device.hardware,
        time=time,
        memory=memory,
        **vars(measured),  # points, fits, too_large, is_complete
    )


def _widest_row(config: Any, embeddings: int | None, max_length: int | None) -> int:
    if config is None:  # the positions of a function are not known
        return max_length or 2_048
    stated = getattr(config.get_text_config(), "max_position_embeddings", None)
    if not isinstance(stated, int) or stated < 1:  # a model without a limit, such as BLOOM
        return max_length or _WIDEST
    # RoBERTa states 514 positions and has 512 for tokens, since its padding takes two.
    most = min(stated, embeddings or stated)
    if max_length is not None and max_length > most:
        raise InputError(
            f"max_length={max_length:,} is above the {most:,} positions of the model", "lower it"
        )
    return max_length or min(most, _WIDEST)
