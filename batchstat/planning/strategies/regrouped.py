"""`regrouped`: the steps of another setup, the samples of each in other batches."""

from dataclasses import dataclass
from typing import Any, ClassVar

from batchstat.errors import OptionError
from batchstat.parameters import described, parameter
from batchstat.planning.algorithms.step_batches import StepRules
from batchstat.planning.distribution import REPEATING
from batchstat.planning.plan import BatchPlan, Window
from batchstat.planning.settings import ResolvedSettings
from batchstat.planning.strategies.base import Strategy
from batchstat.planning.strategies.static import Fixed, Static


def _of_setup(name: str) -> Any:
    return property(lambda self: getattr(self.setup, name))


@described(
    """Every step keeps exactly the samples that `of` puts into it. They are sorted by length and
    cut into as many batches as the step has, of unequal numbers of samples, none above
    `tokens_per_batch`; ranks get them so that the slowest finishes soonest.

    The samples of each step, the number of steps, the order and the learning rate stay. So does the
    gradient of a loss that is summed over the step and divided once. A step that would compute no
    less stays as it is, unless it fits only regrouped; so does one with fewer samples than ranks.
    A loss that is a mean of each batch over its samples keeps its gradient with `equal_sizes`. Give
    `of` last: all that follows it is its own.

    Ranks, remainder, drop_last and longer samples: those of `of`. Needs several ranks, or
    gradient_accumulation_steps above 1. Budget: `tokens_per_batch`, exceeded only where a step does
    not fit into its batches.
    """
)
@dataclass(frozen=True, kw_only=True)
class Regrouped(Strategy):
    in_short: ClassVar[str] = "same steps"
    needs_epoch: ClassVar[bool] = True
    uses_wait: ClassVar[bool] = True
    samples_per_second: ClassVar[int] = 100_000

    of: str = parameter("The setup whose steps it keeps: a strategy, such as hf-trainer.", "static")
    tokens_per_batch: int
    pairs: int | None = parameter(
        "Pairs of tokens that attention computes in the time of one token; none if attention takes "
        "no time of its own.",
        None,
    )
    equal_sizes: bool = parameter(
        "All batches of a step keep one number of samples; steps without one stay as they are.",
        False,
    )
    setup: Strategy  # the strategy that `of` names, with its parameters

    def __post_init__(self) -> None:
        super().__post_init__()
        if reason := _refusal(self.setup):
            raise OptionError(f"regrouped:of={self.of}: {reason}")

    @property
    def parameters(self) -> dict[str, Any]:
        """Its own parameters; those of `of` follow from its text and the settings."""
        return {key: vars(self)[key] for key in ("of", "tokens_per_batch", "pairs", "equal_sizes")}

    order = _of_setup("order")
    shuffles_as = _of_setup("shuffles_as")
    distribute = _of_setup("distribute")
    remainder = _of_setup("remainder")
    loss = _of_setup("loss")
    is_given = _of_setup("is_given")
    row_length = _of_setup("row_length")
    finished_steps = _of_setup("finished_steps")

    @property
    def keeps_random_steps(self) -> bool:
        """Whether no length decides which samples belong to a step, as far as is known."""
        return isinstance(self.setup, Static | Fixed) or self.setup.is_given

    def rules(self, settings: ResolvedSettings) -> StepRules:
        """Return what the batches of each step keep to."""
        return StepRules(
            world_size=settings.world_size,
            tokens_per_batch=self.tokens_per_batch,
            pad_to_multiple_of=self.pad_to_multiple_of,
            in_turns=settings.wait == "micro-batch",
            equal_sizes=self.equal_sizes,
            pairs=self.pairs,
            row_length=self.row_length,
        )

    def repeats_samples(self, settings: ResolvedSettings) -> bool:
        """Return whether the samples that even out the ranks are in batches of others."""
        is_filled = settings.world_size > 1 and settings.remainder in REPEATING
        return is_filled or self.setup.repeats_samples(settings)

    def check(self, settings: ResolvedSettings) -> None:
        """Raise OptionError for a remainder that leaves ranks without a batch."""
        if settings.world_size > 1 and settings.remainder in ("uneven", "dummy"):
            raise OptionError(
                f"regrouped:of={self.of}: with remainder={settings.remainder} some ranks have no "
                "batch in the last turn",
                "set remainder to repeat or drop",
            )

    def plan(self, window: Window) -> BatchPlan:
        """Return the plan of `of`: a window has no steps yet, in which `regrouping` cuts it."""
        return self.setup.plan(window)


def _refusal(setup: Strategy) -> str | None:
    """Return why the steps of a setup cannot be regrouped; None if they can."""
    if isinstance(setup, Regrouped):
        return "its steps are regrouped already: name the setup itself"
    if setup.packs_rows:
        return "rows are already full; see rank idle"
    if setup.varies_steps:
        return "its steps have different numbers of batches, which are not known in advance"
    if setup.pads_to_edges:
        return "its rows are padded to the edges of buckets, which batches of a step would mix"
    return None
