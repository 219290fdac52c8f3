"""The page's random numbers are NumPy's."""

import itertools

from batchstat.planning import rng
from render.html.scripts import call_all

SEEDS = (0, 1, 7, 2**31 - 1, 2**32, 2**40 + 12_345)
EPOCHS = (0, 1, 2**31 - 1)
SIZES = (0, 1, 2, 3, 65, 1_000)


def streams():
    for seed, epoch in itertools.product(SEEDS, EPOCHS):
        yield "orderRng", rng.order_rng, (seed, epoch)
        yield "distributionRng", rng.distribution_rng, (seed, epoch)
        for window in (0, 1, 99_999):
            yield "windowRng", rng.window_rng, (seed, epoch, window)


def test_permutations_are_numpys_one_after_another_of_one_generator():
    # One generator for all sizes, so that half of 64 bits is left over between two of them.
    drawn = "((name, given, sizes) => { const own = random[name](...given); " + (
        "return sizes.map((n) => own.permutation(n)); })"
    )
    found = call_all(
        ["random.js"], [[drawn, name, list(given), SIZES] for name, _, given in streams()]
    )
    for (_, generator, given), mine in zip(streams(), found, strict=True):
        own = generator(*given)
        assert mine == [own.permutation(n).tolist() for n in SIZES]


def test_large_permutations_are_numpys():
    sizes = [100_000, 100_001, 3_000_000]
    digest = "((seed, n) => { const found = random.orderRng(seed, 3).permutation(n); " + (
        "return [...found.slice(0, 50), ...found.slice(-50)]; })"
    )
    found = call_all(["random.js"], [[digest, seed, n] for seed in (0, 5) for n in sizes])
    expected = [rng.order_rng(seed, 3).permutation(n) for seed in (0, 5) for n in sizes]
    for mine, order in zip(found, expected, strict=True):
        assert mine == [*order[:50].tolist(), *order[-50:].tolist()]
