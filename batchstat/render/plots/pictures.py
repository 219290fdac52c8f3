"""The plots of each kind of result, by name."""

from batchstat.errors import OptionError, arguments_named
from batchstat.parameters import one_of
from batchstat.profiling.profile import Profile
from batchstat.render.plots.balance import balance_plots
from batchstat.render.plots.buckets import bucket_plots
from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots
from batchstat.render.plots.ranks import rank_plots
from batchstat.render.plots.style import Picture
from batchstat.simulation.balance.report import BalanceReport
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.compare.comparison import Comparison

Result = Profile | Comparison | BalanceReport | BucketReport


@arguments_named()
def plot(result: Result, name: str | None = None) -> Picture:
    """Return a plot of a result; a notebook shows it.

    Args:
        result: what `profile`, `compare`, `balance` or `find_buckets` returned.
        name: a plot that the command writes for such a result, such as `tradeoff`; by default the
            main one.

    Example:
        >>> comparison = batchstat.compare([5, 90, 12, 100, 7, 8], batch_size=2)
        >>> picture = batchstat.plot(comparison, "batches")
        >>> len(picture.figure().axes) > 0
        True

    Raises:
        OptionError: not a result, or a plot that it does not have.
    """
    if not isinstance(result, Result):
        raise OptionError(
            f"{type(result).__name__} has no plots",
            "pass a profile, a comparison, or what balance or find_buckets returned",
        )
    plots = pictures(result)
    return plots[next(iter(plots)) if name is None else one_of("plot", name, plots)]


def pictures(result: Result) -> dict[str, Picture]:
    """Return all plots of a result by their names, the main one first."""
    match result:
        case Profile():
            return profile_plots(result)
        case Comparison():
            return comparison_plots(result) | rank_plots(result)
        case BalanceReport():
            return balance_plots(result)
        case BucketReport():
            return bucket_plots(result)
