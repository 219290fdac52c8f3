"""Weights of trained tokens are the gradients that torch, accelerate, Lightning, transformers' and
TRL's trainers compute, to the last bits of float64.

`grid.py` is the same over more ranks and numbers of batches per step.
"""

import pytest
from weight_cases import FRAMEWORKS, LOOPS, STRATEGIES, Case, cases_of, run

from conftest import needs


def every_other(framework: str, ranks: int) -> list[Case]:
    """Half of a framework's loops with each strategy; the other half for an odd number of ranks."""
    loops, strategies = FRAMEWORKS[framework], STRATEGIES[framework]
    cases = cases_of(framework, ranks, accumulations=(3,))
    places = [loops.index(each.loop) + strategies.index(each.strategy) for each in cases]
    taken = [case for case, place in zip(cases, places, strict=True) if (place + ranks) % 2 == 0]
    return taken if len(loops) > 1 else cases


@pytest.mark.torch
@pytest.mark.parametrize(("frameworks", "ranks"), [(tuple(FRAMEWORKS), 2), (("transformers",), 1)])
def test_gradients_are_the_weights(warm_python, frameworks, ranks):
    """With epochs that end within a step, and with batches that have no trained token."""
    needs("trl")
    cases = [case for name in frameworks for case in every_other(name, ranks)]
    found = run(cases, timeout=300, launch=warm_python.run)
    for each in found:
        assert each.error < 1e-12, each
    for framework in frameworks:
        own = [each for each in found if each.case.framework == framework]
        assert any(each.ends_early for each in own)
        assert any(each.untrained_batches for each in own)


def test_every_loss_has_a_loop():
    from batchstat.planning.rules import LOSSES

    assert set(LOOPS.values()) == set(LOSSES) - {"unknown"}
