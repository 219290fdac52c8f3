"""Weights of trained tokens are the gradients that torch, accelerate, Lightning, transformers' and
TRL's trainers compute, to the last bits of float64.

`grid.py` is the same over more ranks and numbers of batches per step.
"""

import pytest
from weight_cases import FRAMEWORKS, LOOPS, cases_of, run

from conftest import needs


@pytest.mark.torch
@pytest.mark.parametrize(("frameworks", "ranks"), [(tuple(FRAMEWORKS), 2), (("transformers",), 1)])
def test_gradients_are_the_weights(frameworks, ranks):
    """With epochs that end within a step, and with batches that have no trained token. One launch
    for all: to import the frameworks takes longer than their epochs.
    """
    for framework in ("torch", *frameworks):
        needs("lightning.pytorch" if framework == "lightning" else framework)
    cases = [each for name in frameworks for each in cases_of(name, ranks, accumulations=(3,))]
    found = run(cases, timeout=300)
    for each in found:
        assert each.error < 1e-12, each
    for framework in frameworks:
        own = [each for each in found if each.case.framework == framework]
        assert any(each.ends_early for each in own)
        assert any(each.untrained_batches for each in own)


def test_every_loss_has_a_loop():
    from batchstat.planning.rules import LOSSES

    assert set(LOOPS.values()) == set(LOSSES) - {"unknown"}
