"""A result as one HTML page, for programs and notebooks."""

import shlex

from batchstat.errors import OptionError, arguments_named
from batchstat.planning.settings import ResolvedSettings, Settings
from batchstat.profiling.profile import Profile
from batchstat.render.command_lines import corpus_words, flags, non_defaults
from batchstat.render.html.pages import balance_page, buckets_page, comparison_page, profile_page
from batchstat.render.html.what_if import what_if
from batchstat.simulation.balance.report import BalanceReport
from batchstat.simulation.buckets.report import BucketReport
from batchstat.simulation.compare.comparison import Comparison
from batchstat.simulation.compare.nearby import nearby

Result = Profile | Comparison | BalanceReport | BucketReport


@arguments_named()
def to_html(result: Result, profile: Profile | None = None) -> str:
    """Return a self-contained HTML page of a result: tables, charts, a what-if panel.

    Args:
        result: what `profile`, `compare`, `balance` or `find_buckets` returned.
        profile: the corpus of the result, whose lengths and classes are then shown too.

    Example:
        >>> comparison = batchstat.compare([5, 90, 12, 100, 7, 8], batch_size=2)
        >>> batchstat.to_html(comparison).startswith("<!doctype html>")
        True

    Raises:
        OptionError: not a result.
    """
    match result:
        case Profile():
            return profile_page(result, padding=None, next_command="batchstat compare")
        case Comparison():
            basis = result.basis
            corpus_arguments = [] if profile is None else corpus_words(profile)
            # `nearby` simulates the panel's rows: other batch sizes and numbers of ranks.
            panel = what_if(result, nearby(result), corpus_arguments, replaced={})
            return comparison_page(
                result,
                profile,
                # A change of a trainer's configuration has its own line to paste.
                lambda change: change.line or _command(basis, change.row.label),
                panel,
            )
        case BalanceReport():
            # The samples of all samplers are batched by the same strategy.
            basis, strategy = result.basis, result.samplers[0].row.label
            return balance_page(
                result, profile, lambda sampler: _command(basis, strategy, sampler=sampler)
            )
        case BucketReport():
            basis = result.basis
            return buckets_page(result, profile, lambda strategy: _command(basis, strategy))
    raise OptionError(
        f"{type(result).__name__} has no page",
        "pass a profile, a comparison, or what balance or find_buckets returned",
    )


def _command(basis: ResolvedSettings, strategy: str, **changes: str) -> str:
    values = {"strategy": strategy, **non_defaults(basis, Settings), **changes}
    return shlex.join(["batchstat", "compare", *flags(values)])
