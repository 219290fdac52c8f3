"""Print how far the gradients of every framework are from batchstat's weights of trained tokens,
over all strategies, several numbers of ranks and of gradient_accumulation_steps.

    python tests/integration/weights/grid.py [FRAMEWORK …]

It takes some ten minutes on two cores, and needs torch, accelerate, lightning, transformers and
trl, or those of them that are named.
"""

import sys
from collections.abc import Sequence

from weight_cases import FRAMEWORKS, Found, cases_of, run

ACCUMULATIONS = (1, 2, 4)
RANKS = (1, 2, 3)
HEADER = ("framework", "loop", "cases", "steps", "tokens", "largest error")


def rows_of(framework: str) -> list[Sequence[object]]:
    """One row of the table for each of a framework's loops."""
    found = [
        each
        for ranks in RANKS
        for each in run(cases_of(framework, ranks, ACCUMULATIONS), timeout=1800)
    ]
    by_loop: dict[str, list[Found]] = {}
    for each in found:
        by_loop.setdefault(each.case.loop, []).append(each)
    return [
        (
            framework,
            loop,
            len(every),
            f"{sum(each.steps for each in every):,}",
            f"{sum(each.tokens for each in every):,}",
            f"{max(each.error for each in every):.1e}",
        )
        for loop, every in by_loop.items()
    ]


def print_row(row: Sequence[object]) -> None:
    name, loop, *numbers = row
    print(f"{name:<14}{loop:<20}" + "".join(f"{number:>15}" for number in numbers), flush=True)


if __name__ == "__main__":
    print_row(HEADER)
    for framework in sys.argv[1:] or FRAMEWORKS:
        for row in rows_of(framework):
            print_row(row)
