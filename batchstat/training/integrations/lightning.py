"""Lightning's Trainer on the batches of a `BatchSampler`.

    trainer = Trainer(max_epochs=3, reload_dataloaders_every_n_epochs=1)
    sampler = BatchSampler(
        "batchstat-results/lengths.parquet",
        "token-budget",
        tokens_per_batch=16_384,
        rank=trainer.global_rank,
        world_size=trainer.world_size,
        gradient_accumulation_steps=trainer.accumulate_grad_batches,
    )
    trainer.fit(model, BatchLoader(trainer, dataset, sampler, collate_fn=collate))

It works with `lightning` and with `pytorch_lightning`.
"""

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from batchstat.errors import OptionError
from batchstat.planning.rank_batches import Batch
from batchstat.training.batch_sampler import BatchSampler, check_setup

if TYPE_CHECKING:
    from lightning.pytorch import Trainer


class BatchLoader:
    """Training batches for Lightning: for `Trainer.fit`, or for `train_dataloader` to return.

    It follows the trainer's epochs, resumes in mid-epoch with a checkpoint, and is never sharded
    again by Lightning, whether `use_distributed_sampler` is set or not, so that evaluation is
    untouched.

    Example:
        class Model(LightningModule):
            def train_dataloader(self):
                return BatchLoader(self.trainer, dataset, sampler, collate_fn=collate)

    Attributes:
        batch: details of the batch being trained on, such as the weight of its loss in the step,
            for `training_step`: `self.trainer.train_dataloader.batch`.
    """

    def __init__(
        self, trainer: "Trainer", dataset: Any, sampler: BatchSampler, **loader: Any
    ) -> None:
        """Check the arguments.

        Args:
            trainer: a Trainer of `lightning.pytorch` or `pytorch_lightning`, with
                `reload_dataloaders_every_n_epochs=1`, as epochs may differ in their number of
                batches.
            dataset: is indexed with the sampler's record numbers.
            sampler: the batches of this rank.
            loader: further arguments of torch's DataLoader, such as `collate_fn` and `num_workers`.

        Raises:
            OptionError: not a Trainer, one that keeps its loaders, or a sampler for other ranks or
                other steps.
            InputError: the dataset has fewer samples than the sampler.
        """
        from torch.utils.data import DataLoader

        if not hasattr(trainer, "fit_loop"):
            raise OptionError(f"{type(trainer).__name__} is not a Lightning Trainer", "pass one")
        sampler.check(dataset)
        self._trainer, self._sampler = trainer, sampler
        self._check()
        self._loader = DataLoader(dataset, batch_sampler=sampler, **loader)
        self._resumed = False  # whether the next epoch continues in the middle
        self.batch: Batch | None = None

    def __len__(self) -> int:
        """Return the number of batches of this rank in the trainer's epoch."""
        self._choose_epoch()
        return len(self._sampler)

    def __iter__(self) -> Iterator[Any]:
        """Yield the batches of the trainer's epoch, those after the checkpoint if it is resumed.

        Raises:
            OptionError: the trainer has changed since the loader was made.
            InputError: the epoch has steps that Lightning does not support.
        """
        self._check()
        self._choose_epoch()
        self._sampler.check_steps()
        self._resumed = False
        # The loader and the details both iterate the sampler from its position on.
        for inputs, batch in zip(self._loader, self._sampler.batches(), strict=True):
            self.batch = batch
            yield inputs

    def state_dict(self) -> dict[str, Any]:
        """Return the position for a checkpoint: after the batch being trained on."""
        if self.batch is None:
            return self._sampler.state_dict(consumed=0)
        return self._sampler.state_dict(consumed=self.batch.number + 1)

    def load_state_dict(self, state: Mapping[str, Any]) -> None:
        """Continue after the batch of a checkpoint. Raises OptionError for a different sampler."""
        self._sampler.load_state_dict(state)
        # At the end of an epoch, the trainer continues with the next one.
        self._resumed = state["batches"] < len(self._sampler)

    def _choose_epoch(self) -> None:
        if not self._resumed:
            self._sampler.set_epoch(self._trainer.current_epoch)

    def _check(self) -> None:
        """Raise OptionError if the trainer keeps its loaders, or has other ranks or steps."""
        trainer = self._trainer
        if trainer.reload_dataloaders_every_n_epochs != 1:
            raise OptionError(
                "epochs may differ in their number of batches",
                "pass reload_dataloaders_every_n_epochs=1 to Lightning's Trainer",
            )
        check_setup(
            self._sampler,
            world_size=trainer.world_size,
            rank=trainer.global_rank,
            gradient_accumulation_steps=trainer.accumulate_grad_batches,
        )
