"""Whether a sampler was made for the training run that is given it."""

from batchstat.errors import OptionError
from batchstat.training.batch_sampler import BatchSampler


def check_setup(sampler: BatchSampler, **of_trainer: int) -> None:
    """Raise OptionError if a sampler and its trainer differ in a number, and say in which."""
    if not isinstance(sampler, BatchSampler):
        raise OptionError(f"{type(sampler).__name__} is not a BatchSampler", "pass one")
    for key, value in of_trainer.items():
        own = getattr(sampler, key)
        if own != value:
            raise OptionError(
                f"the sampler has {key}={own}, but the trainer has {value}",
                f"pass {key}={value} to BatchSampler",
            )
