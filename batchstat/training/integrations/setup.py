"""Whether a sampler was made for the training run that is given it."""

from batchstat.errors import OptionError
from batchstat.training.batch_sampler import BatchSampler


def check_setup(
    sampler: BatchSampler, *, rank: int, world_size: int, gradient_accumulation_steps: int
) -> None:
    """Check that a sampler and its trainer agree.

    Args:
        sampler: the sampler.
        rank: rank of this process, as the trainer says.
        world_size: number of ranks, as the trainer says.
        gradient_accumulation_steps: batches per step, as the trainer says.

    Raises:
        OptionError: they differ in one of these numbers; the message says which.
    """
    if not isinstance(sampler, BatchSampler):
        raise OptionError(f"{type(sampler).__name__} is not a BatchSampler: pass one")
    wanted = {
        "world_size": world_size,
        "rank": rank,
        "gradient_accumulation_steps": gradient_accumulation_steps,
    }
    for key, value in wanted.items():
        own = getattr(sampler, key)
        if own != value:
            raise OptionError(
                f"the sampler has {key}={own}, but the trainer has {value}: pass {key}={value} to "
                "BatchSampler"
            )
