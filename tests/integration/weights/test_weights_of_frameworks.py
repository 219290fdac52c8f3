"""Weights of trained tokens are the gradients that torch, accelerate, Lightning, transformers' and
TRL's trainers compute, to the last bits of float64.

`grid.py` is the same over more ranks and numbers of batches per step.
"""

import pytest
from weight_cases import LOOPS, cases_of, run

from conftest import needs


@pytest.mark.torch
@pytest.mark.parametrize(
    ("framework", "ranks"),
    [
        ("torch", 2),
        ("accelerate", 2),
        ("lightning", 2),
        ("transformers", 1),
        ("transformers", 2),
        ("trl", 2),
    ],
)
def test_gradients_are_the_weights(framework, ranks):
    """With epochs that end within a step, and with batches that have no trained token."""
    needs("torch")
    needs("lightning.pytorch" if framework == "lightning" else framework)
    found = run(cases_of(framework, ranks, accumulations=(3,)), timeout=300)
    for each in found:
        assert each.error < 1e-12, each
    assert any(each.ends_early for each in found)
    assert any(each.untrained_batches for each in found)


def test_every_loss_has_a_loop():
    from batchstat.planning.rules import LOSSES

    assert set(LOOPS.values()) == set(LOSSES) - {"unknown"}
