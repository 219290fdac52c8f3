"""Hugging Face's Trainer on the batches of a `BatchSampler`.

    sampler = BatchSampler(
        "batchstat-results/lengths.parquet",
        "token-budget",
        tokens_per_batch=16_384,
        rank=trainer.args.process_index,
        world_size=trainer.args.world_size,
        gradient_accumulation_steps=trainer.args.gradient_accumulation_steps,
    )
    with_batches(trainer, sampler).train()

It is for Trainer and its subclasses that train on their dataset as it is, such as TRL's SFTTrainer
without packing. Trainers that generate or repeat samples (GRPO, RLOO) make batches of their own.
"""

import json
from collections.abc import Iterator
from itertools import islice
from math import ceil
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from batchstat.errors import OptionError
from batchstat.planning.rank_batches import Batch
from batchstat.storage.sealed_records import parse
from batchstat.training.batch_sampler import BatchSampler, check_setup

if TYPE_CHECKING:
    from transformers import Trainer

_AnyTrainer = TypeVar("_AnyTrainer", bound="Trainer")

STATE_FILE = "batchstat_sampler.json"  # file of a checkpoint with the state of the sampler

_LOADER_KEYS = (
    *("num_workers", "collate_fn", "pin_memory", "timeout", "worker_init_fn"),
    *("multiprocessing_context", "generator", "prefetch_factor", "persistent_workers", "in_order"),
)
"""Settings that are taken over from the Trainer's own loader: all but its batches."""


def with_batches(trainer: _AnyTrainer, sampler: BatchSampler) -> _AnyTrainer:
    """Make a Trainer train on a sampler's batches, and return it.

    The Trainer keeps its dataset, collator and loader settings; its batch size, its sampling
    strategy and accelerate's sharding no longer apply to training. Evaluation is untouched. Steps,
    the learning rate's schedule and checkpoints follow the sampler, whose epochs may differ in
    their number of batches. A run that is resumed from a checkpoint continues with the batch after
    the last one; if the sampler is different by then, an error says in what.

    The gradient of a step is that of the mean over its trained tokens: the Trainer divides by their
    number if the model takes `num_items_in_batch`. A model whose loss is a mean of its batch needs
    `accepts_loss_kwargs = False` before its Trainer is made; each batch is then weighted, by tokens
    where there is a label per token, else by samples.

    Example:
        trainer = with_batches(trainer, sampler)
        trainer.train()

    Args:
        trainer: a Trainer of transformers 5.4 or later, or of a subclass. Its training dataset is
            indexed with the sampler's record numbers.
        sampler: the batches of this rank.

    Raises:
        OptionError: not a Trainer, a version that is too old, or a sampler for other ranks or
            another `gradient_accumulation_steps`.
        InputError: the dataset has fewer samples than the sampler, or the epoch has steps that
            Trainer does not support.
    """
    if not hasattr(trainer, "get_train_dataloader"):
        raise OptionError(f"{type(trainer).__name__} is not a transformers Trainer", "pass one")
    if not all(hasattr(trainer, name) for name in _PlannedTraining.REPLACED):
        raise OptionError(
            "with_batches needs transformers 5.4 or later: pip install 'transformers>=5.4'"
        )
    planned = _PlannedTraining(trainer, sampler)
    planned.check()
    for name in planned.REPLACED:
        setattr(trainer, name, getattr(planned, name))
    trainer.add_callback(_saving(sampler))
    return trainer


class _PlannedTraining:
    """A Trainer's methods for training on a sampler's batches; each calls the one it replaces."""

    REPLACED = (
        *("get_train_dataloader", "set_initial_training_values"),
        *("_init_training_state", "_run_epoch", "compute_loss"),
    )

    def __init__(self, trainer: Any, sampler: BatchSampler) -> None:
        self._trainer, self._sampler = trainer, sampler
        # The Trainer's own methods, by name.
        self._base = {name: getattr(trainer, name) for name in self.REPLACED}
        self._n_batches: dict[int, int] = {}  # of this rank, by epoch
        self._skipped = 0  # batches of the epoch that a resumed run has trained on
        self._details: Iterator[Batch] = iter(())  # those of the batches that follow

    def check(self) -> None:
        """Check that the sampler fits the Trainer and its dataset."""
        args, dataset = self._trainer.args, self._trainer.train_dataset
        check_setup(
            self._sampler,
            world_size=args.world_size,
            rank=args.process_index,
            gradient_accumulation_steps=args.gradient_accumulation_steps,
        )
        if not (hasattr(dataset, "__len__") and hasattr(dataset, "__getitem__")):
            raise OptionError(
                f"train_dataset={type(dataset).__name__}: needs a length and samples by record "
                "number; for a stream, use batchstat.StreamBatcher"
            )
        self._sampler.check(dataset)

    def get_train_dataloader(self) -> Any:
        """Return a loader with the Trainer's own settings, but the sampler's batches."""
        from torch.utils.data import DataLoader

        self.check()
        loader = self._base["get_train_dataloader"]()
        settings = {key: getattr(loader, key) for key in _LOADER_KEYS if hasattr(loader, key)}
        # Not prepared by accelerate, which would shard the batches again.
        return DataLoader(loader.dataset, batch_sampler=self._sampler, **settings)

    def set_initial_training_values(self, args: Any, *rest: Any) -> tuple[Any, ...]:
        """Return the Trainer's values, but with the sampler's epochs (first) and steps (last)."""
        _, *between, _ = self._base["set_initial_training_values"](args, *rest)
        if args.max_steps > 0:
            # Steps count from 0. The last one is in the epoch after those that are whole before it.
            whole_epochs, _ = self._divide_by_epochs(args.max_steps - 1)
            return (whole_epochs + 1, *between, args.max_steps)
        epochs = ceil(args.num_train_epochs)
        # num_train_epochs may be a fraction: 2.5 are two epochs and half of the third one's steps.
        steps_of_last = ceil(self._steps(epochs - 1) * (args.num_train_epochs - (epochs - 1)))
        return epochs, *between, sum(map(self._steps, range(epochs - 1))) + steps_of_last

    def _init_training_state(
        self,
        max_steps: int,
        steps: int,
        epochs: int,
        resume_from_checkpoint: str | None,
        trial: Any,
    ) -> tuple[int, int]:
        """Return the epoch to start with, and how many of its batches have been trained on."""
        self._base["_init_training_state"](max_steps, steps, epochs, resume_from_checkpoint, trial)
        state_file = Path(resume_from_checkpoint or "") / STATE_FILE
        # Loaded to compare, which raises for another sampler; without one, there is no such file.
        if resume_from_checkpoint is not None and state_file.is_file():
            try:
                state = parse(state_file.read_bytes())
            except (OSError, ValueError) as error:
                raise OptionError(
                    f"{state_file.as_posix()} cannot be read: {error}",
                    "resume from another checkpoint",
                ) from None
            self._sampler.load_state_dict(state)
        args = self._trainer.args
        # The Trainer counts the steps of all epochs in which it has trained.
        epoch, steps_done = self._divide_by_epochs(self._trainer.state.global_step)
        batches_done = steps_done * args.gradient_accumulation_steps
        self._skipped = 0 if args.ignore_data_skip else batches_done
        return epoch, self._skipped

    def _run_epoch(self, **kwargs: Any) -> Any:
        """Train for an epoch, with as many batches and steps as the sampler has in it."""
        epoch = kwargs["epoch"]
        sampler_numbers = {
            # What the Trainer calls steps are batches here, and its update steps are steps.
            "steps_in_epoch": self._batches_in(epoch),
            "num_update_steps_per_epoch": self._steps(epoch),
        }
        self._sampler.set_epoch(epoch)
        # `compute_loss` takes details from a second iterator, which begins after skipped batches.
        self._details = islice(self._sampler.batches(), self._skipped, None)
        self._skipped = 0
        return self._base["_run_epoch"](**kwargs | sampler_numbers)

    def compute_loss(self, model: Any, inputs: Any, *rest: Any, **keywords: Any) -> Any:
        """Return the Trainer's loss, weighted in training if it is a mean of its batch."""
        labels = inputs.get("labels")
        loss = self._base["compute_loss"](model, inputs, *rest, **keywords)
        # Evaluation has batches of its own.
        if not model.training:
            return loss
        # Taken for every batch of training, needed or not: the next one is of the next batch.
        batch = next(self._details)
        # Whether the loss is divided by the step's tokens: as a subclass says, or Trainer decides.
        is_scaled = getattr(self._trainer, "loss_is_scaled_for_ga", None)
        if is_scaled is None:
            is_scaled = self._trainer.model_accepts_loss_kwargs
            is_scaled = is_scaled or self._trainer.compute_loss_func is not None
        if is_scaled:
            return loss
        # Labels with a second dimension are one per token; else per sample: classification.
        is_per_token = labels is not None and labels.ndim > 1
        weight = batch.token_weight if is_per_token else batch.weight
        weight *= self._trainer.current_gradient_accumulation_steps  # by which it is then divided
        return (loss[0] * weight, *loss[1:]) if isinstance(loss, tuple) else loss * weight

    def _divide_by_epochs(self, steps: int) -> tuple[int, int]:
        """Return how many whole epochs the first `steps` are, and the steps left for the next."""
        whole_epochs = 0
        while steps > 0 and steps >= self._steps(whole_epochs):
            steps -= self._steps(whole_epochs)
            whole_epochs += 1
        return whole_epochs, steps

    def _steps(self, epoch: int) -> int:
        return ceil(self._batches_in(epoch) / self._sampler.gradient_accumulation_steps)

    def _batches_in(self, epoch: int) -> int:
        """Return the number of batches of this rank in an epoch, which is planned for it once."""
        if epoch not in self._n_batches:
            self._sampler.set_epoch(epoch)
            self._sampler.check_steps()
            self._n_batches[epoch] = len(self._sampler)
        return self._n_batches[epoch]


def _saving(sampler: BatchSampler) -> Any:
    """Return a callback that adds the sampler's state to checkpoints."""
    from transformers import TrainerCallback

    class SaveSampler(TrainerCallback):
        def on_save(self, args: Any, state: Any, control: Any, **others: Any) -> None:  # noqa: ARG002
            folder = Path(args.output_dir) / f"checkpoint-{state.global_step}"
            # One process writes a checkpoint, for all ranks.
            if state.is_world_process_zero and folder.is_dir():
                # How far it came is the Trainer's global_step; only the sampler is compared.
                text = json.dumps(sampler.state_dict(consumed=0))
                (folder / STATE_FILE).write_text(text, encoding="utf-8")

    return SaveSampler()
