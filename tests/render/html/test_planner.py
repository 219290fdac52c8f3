"""The page plans what batchstat plans."""

import random
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.documents.strategy import strategy_of
from batchstat.planning.batch_table import BatchTable
from batchstat.planning.epoch import make_epoch
from batchstat.planning.inputs import resolve_inputs
from batchstat.planning.rank_plans import distribute_stream
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import request_row
from batchstat.planning.windows import plan_windows
from batchstat.simulation.device import batch_cost
from batchstat.simulation.rows import make_row
from render.html.scripts import PLANNER, call_all, embedded

STRATEGIES = ("static", "bucketed", "token-budget", "packed")
MODEL = batchstat.CostModel(hidden=768, layers=12, vocabulary=50_257)

PLAN = """(async (whatIf, settings) => {
  const corpus = await planner.load(whatIf);
  return Array.isArray(settings)
    ? settings.map((each) => planner.plan(corpus, each))
    : planner.plan(corpus, settings);
})"""

ROWS = """(async (whatIf, settings) => {
  const { table, contents } = planner.batches(await planner.load(whatIf), settings);
  const { lengths, entries, rowOffsets } = contents();
  return Array.from(table.rows, (rows, batch) => {
    const of = Array.from({ length: rows }, (_, i) => {
      const row = table.firstRows[batch] + i;
      const ends = rowOffsets === null ? [row, row + 1] : [rowOffsets[row], rowOffsets[row + 1]];
      return Array.from(entries.slice(...ends), (place) => lengths[place]);
    });
    return { rows: of, width: table.widths[batch], tokens: table.tokens[batch],
             entries: table.entries[batch], squares: table.squares[batch],
             samples: table.samples[batch] };
  });
})"""


def corpus_of(rng: random.Random, n: int, longest: int) -> list[int]:
    """Lengths of one of several shapes, random or not."""
    shape = rng.randrange(5)
    if shape == 0:
        return [rng.randint(1, longest) for _ in range(n)]
    if shape == 1:
        return [min(longest, int(rng.lognormvariate(3, 1))) for _ in range(n)]
    if shape == 2:
        return [rng.choice((1, longest // 2, longest)) for _ in range(n)]
    if shape == 3:
        return sorted(rng.randint(1, longest) for _ in range(n))
    return [rng.randint(1, longest)] * n


def spec_of(rng: random.Random, name: str) -> str:
    """The strategy, with some of its own parameters."""
    may = {
        "static": {},
        "bucketed": {"shuffle_batches": "false"},
        "token-budget": {"shuffle_batches": "false", "max_samples": rng.randint(1, 9)},
        "packed": {
            "shuffle_batches": "false",
            "max_samples_per_row": rng.randint(1, 5),
            "within_samples": "false",
        },
    }[name]
    chosen = [f"{key}={value}" for key, value in may.items() if rng.random() < 0.4]
    return name + (":" if chosen else "") + ",".join(chosen)


def settings_of(rng: random.Random) -> dict[str, Any]:
    """Settings of which each is given in some cases."""
    found: dict[str, Any] = {
        "max_length": rng.randint(5, 80),
        "tokens_per_batch": rng.choice((1, 37, 200, 1_000, 16_384)),
        "batch_size": rng.randint(1, 40),
        "read_ahead": rng.choice((1, 7, 50, 10_000)),
        "order": rng.choice(("file", "shuffled", "blocks")),
        "seed": rng.choice((0, 1, 2**31 - 1)),
        "epoch": rng.choice((0, 3)),
        "overflow": rng.choice(("truncate", "drop", "split")),
    }
    ranks: dict[str, Any] = {
        "world_size": rng.choice((2, 3, 8, 50)),
        "distribute": rng.choice(("batches", "balanced")),
        "remainder": rng.choice(("repeat", "drop", "uneven", "dummy")),
    }
    may: dict[str, Any] = {
        "pad_to_multiple_of": rng.choice((2, 8, 64)),
        "drop_last": True,
        "gradient_accumulation_steps": rng.choice((2, 5)),
    }
    some = {key: value for key, value in may.items() if rng.random() < 0.4}
    found |= some | (ranks if rng.random() < 0.6 else {})
    return found


def for_page(spec: str, given: dict[str, Any], longest: int, model: Any = None) -> dict[str, Any]:
    """The settings of one row, as the page has them."""
    basis = Settings(**given).resolve(longest, None)
    row = request_row(spec, basis)
    shared = (
        "tokens_per_batch",
        "max_length",
        "overflow",
        "world_size",
        "distribute",
        "remainder",
        "gradient_accumulation_steps",
        "seed",
        "epoch",
    )
    operations = model and {"perToken": model.linear, "perPair": model.quadratic}
    own = {"strategy": row.name, "params": row.params, "operations": operations}
    return own | {name: getattr(row.settings, name) for name in shared}


def planned(spec: str, lengths: list[int], given: dict[str, Any]) -> list[dict[str, Any]]:
    """The batches of an epoch in file order, by batchstat's own strategies."""
    basis = Settings(**given).resolve(max(lengths), None)
    row = request_row(spec, basis)
    whole = np.array(lengths)
    epoch = make_epoch(np.arange(len(whole)), whole, basis.max_length, basis.overflow)
    batches = []
    for plan in plan_windows(row.strategy, epoch, seed=basis.seed, epoch=basis.epoch):
        rows = np.split(plan.lengths, plan.row_offsets[1:-1])
        starts = np.zeros_like(plan.samples) if plan.starts is None else plan.starts
        begun = np.split(starts == 0, plan.row_offsets[1:-1])
        for i, width in enumerate(plan.widths.tolist()):
            of = slice(int(plan.batch_offsets[i]), int(plan.batch_offsets[i + 1]))
            held = [part.tolist() for part in rows[of]]
            flat = [length for row in held for length in row]
            batches.append(
                {
                    "rows": held,
                    "width": width,
                    "tokens": sum(flat),
                    "entries": len(flat),
                    "squares": sum(length**2 for length in flat),
                    "samples": int(np.concatenate(begun[of]).sum()),
                }
            )
    return batches


def random_cases(n: int, seed: int):
    """Strategies, lengths and settings with at least one token left."""
    rng = random.Random(seed)
    found = []
    while len(found) < n:
        name = STRATEGIES[len(found) % 4]
        size = rng.choice((1, 2, 10, 300, 1_200))
        lengths = corpus_of(rng, size, rng.choice((6, 60, 500)))
        if rng.random() < 0.2:
            lengths = [length * (rng.random() < 0.7) for length in lengths]
        given = settings_of(rng)
        left = [x for x in lengths if given["overflow"] != "drop" or x <= given["max_length"]]
        if any(left):
            found.append((spec_of(rng, name), lengths, given))
    return found


def test_500_random_plans_are_batchstats_batch_for_batch():
    cases = random_cases(500, seed=1)
    found = call_all(
        PLANNER,
        [
            [ROWS, embedded(lengths, "file"), for_page(spec, given, max(lengths))]
            for spec, lengths, given in cases
        ],
    )
    for case, mine in zip(cases, found, strict=True):
        assert mine == planned(*case), case


def compared(spec: str, lengths: list[int], given: dict[str, Any], model: Any) -> Any:
    """The row of compare.json, or the error that there is none."""
    inputs = resolve_inputs(lengths)
    request = request_row(spec, inputs.resolve(Settings(**given)))
    try:
        shares = make_shares(inputs.samples, request.settings)
        row = make_row(request, shares, batch_cost(model, None))
    except batchstat.InputError as error:
        return error
    return strategy_of(row, model).to_json()


def assert_same(mine: dict[str, Any], row: Any, case: Any) -> None:
    """All counts of the page are those of compare.json."""
    if isinstance(row, Exception):
        assert str(row).startswith(mine["error"]), case
        return
    assert "error" not in mine, case
    names = (
        *("samples", "rows", "batches", "steps", "real_tokens", "padding_tokens", "total_tokens"),
        *("compute", "max_batch_tokens", "over_budget_batches", "truncated_samples"),
        *("truncated_tokens", "dropped_samples", "dropped_tokens", "duplicated_samples"),
        *("duplicated_tokens",),
    )
    for name in names:
        word, *rest = name.split("_")
        camel = word + "".join(each.title() for each in rest)
        # JSON in a browser has no whole numbers above 2^53, only the nearest float.
        assert float(mine[camel]) == float(row[name]), (name, case)
    assert mine["samplesPerBatch"] == row["samples_per_batch"]
    assert mine["paddingRatio"] == pytest.approx(row["padding_ratio"], abs=1e-12)
    assert mine["rankIdle"] == pytest.approx(row["rank_idle"], abs=1e-12)
    assert mine["estimate"] is False


def test_counts_are_those_of_compare_in_every_order_on_ranks_and_by_a_cost_model():
    cases = [(*case, MODEL if i % 3 == 0 else None) for i, case in enumerate(random_cases(400, 2))]
    found = call_all(
        PLANNER,
        [
            [PLAN, embedded(lengths, given["order"]), for_page(spec, given, max(lengths), model)]
            for spec, lengths, given, model in cases
        ],
    )
    for case, mine in zip(cases, found, strict=True):
        assert_same(mine, compared(*case), case)


HISTOGRAM_LENGTHS = {
    "long tail": lambda rng, n: np.minimum(rng.lognormal(4, 1, n).astype(int) + 1, 4_000),
    "two kinds": lambda rng, n: np.where(rng.random(n) < 0.9, 30, 900) + rng.integers(0, 20, n),
    "uniform": lambda rng, n: rng.integers(0, 2_000, n),
    "equal": lambda _, n: np.full(n, 77),
}


@pytest.mark.parametrize("shape", HISTOGRAM_LENGTHS)
def test_padding_from_the_histogram_is_that_of_a_random_order_within_a_fifth_of_a_point(shape):
    lengths = HISTOGRAM_LENGTHS[shape](np.random.default_rng(4), 120_000)
    base = {"max_length": 1_024, "batch_size": 16, "order": "shuffled", "overflow": "truncate"}
    cases = [("static", base), ("packed", base)]
    for name in ("bucketed", "token-budget"):
        cases += [(name, base | {"read_ahead": size}) for size in (100, 1_000, 10_000, 120_000)]
    cases += [(spec, given | {"overflow": "split"}) for spec, given in cases[2:4]]
    settings = [for_page(spec, given, int(lengths.max())) for spec, given in cases]
    found = call_all(PLANNER, [[PLAN, embedded(lengths, "shuffled", "histogram"), settings]])
    for (spec, given), mine in zip(cases, found[0], strict=True):
        rows = [compared(spec, lengths, given | {"seed": seed}, None) for seed in range(4)]
        ratios = [row["padding_ratio"] for row in rows]
        assert min(ratios) - 0.002 < mine["paddingRatio"] < max(ratios) + 0.002, (spec, given)
        row = rows[0]
        assert mine["realTokens"] == row["real_tokens"]
        assert mine["truncatedTokens"] == row["truncated_tokens"]
        assert mine["estimate"] == (spec != "packed")


def test_more_samples_than_are_drawn_are_scaled():
    lengths = HISTOGRAM_LENGTHS["long tail"](np.random.default_rng(4), 2_500_001)
    given = {"max_length": 512, "order": "shuffled", "overflow": "drop", "world_size": 4}
    specs = ["bucketed", "token-budget"]
    settings = [for_page(spec, given, int(lengths.max())) for spec in specs]
    found = call_all(PLANNER, [[PLAN, embedded(lengths, "shuffled", "histogram"), settings]])
    for spec, mine in zip(specs, found[0], strict=True):
        row = compared(spec, lengths, given, None)
        assert abs(mine["paddingRatio"] - row["padding_ratio"]) < 0.002
        assert mine["droppedTokens"] == row["dropped_tokens"]
        for name in ("samples", "batches", "steps"):
            assert mine[name] == pytest.approx(row[name], rel=0.002)
        assert mine["totalTokens"] == pytest.approx(row["total_tokens"], rel=0.002)
        assert mine["estimate"] is True


@pytest.mark.parametrize("world_size", [1, 3])
def test_packed_is_exact_from_the_histogram_of_any_number_of_samples(world_size):
    lengths = HISTOGRAM_LENGTHS["two kinds"](np.random.default_rng(1), 1_200_000)
    given = {"max_length": 910, "overflow": "truncate", "world_size": world_size}
    settings = for_page("packed", given, int(lengths.max()), MODEL)
    found = call_all(PLANNER, [[PLAN, embedded(lengths, "shuffled", "histogram"), settings]])
    assert_same(found[0], compared("packed", lengths, given, MODEL), given)


def test_lengths_far_apart_are_sorted_too():
    lengths = [2**31 - 1, 5, 2**31 - 2, 5, 0, 2**30, 1]
    for spec in ("bucketed:batch_size=2", "token-budget:tokens_per_batch=11"):
        given = {"max_length": 2**31 - 1, "order": "file"}
        found = call_all(
            PLANNER, [[PLAN, embedded(lengths, "file"), for_page(spec, given, max(lengths))]]
        )
        assert_same(found[0], compared(spec, lengths, given, None), spec)


@pytest.mark.parametrize("remainder", ["repeat", "drop", "uneven", "dummy"])
@pytest.mark.parametrize("distribute", ["batches", "balanced"])
def test_batches_reach_the_ranks_as_batchstat_distributes_them(distribute, remainder):
    rng = np.random.default_rng(8)
    calls, expected = [], []
    for n, world_size in [(1, 2), (22, 8), (900, 3), (1_000, 4), (5, 50)]:
        rows, widths = rng.integers(1, 9, (2, n))
        empty = np.zeros(n, dtype=np.int64)
        table = BatchTable(rows, widths, *[empty] * 5, np.arange(n + 1))
        shared = {"world_size": world_size, "distribute": distribute, "remainder": remainder}
        settings = Settings(**shared, seed=2, epoch=1).resolve(9, None)
        found = [each.units.ravel() for each in distribute_stream([table], settings)]
        expected.append(np.concatenate(found).tolist())
        columns = {"rows": rows.tolist(), "widths": widths.tolist()}
        calls.append(["ranks.distribute", columns, {**shared, "seed": 2, "epoch": 1}])
    assert call_all(PLANNER, calls) == expected


def test_split_samples_whose_first_part_is_dropped_are_counted():
    lengths = np.random.default_rng(3).integers(1, 100, 40).tolist()
    shared = {"max_length": 20, "batch_size": 4, "overflow": "split", "order": "file"}
    shared |= {"world_size": 5, "remainder": "drop"}
    cases = [shared | {"seed": seed} for seed in range(12)]
    calls = [
        [PLAN, embedded(lengths, "file"), for_page("bucketed", given, max(lengths))]
        for given in cases
    ]
    for given, mine in zip(cases, call_all(PLANNER, calls), strict=True):
        assert_same(mine, compared("bucketed", lengths, given, None), given)
