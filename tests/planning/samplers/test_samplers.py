"""Class balance: what samplers draw and where it goes, held against plain loops and torch."""

import json
from collections import Counter
from fractions import Fraction
from itertools import product

import hypothesis.strategies as st
import numpy as np
import pandas as pd
import pytest
from hypothesis import assume, given

import batchstat
from batchstat import InputError, OptionError
from batchstat.cli.weights import with_inlined_weights
from batchstat.documents.balance import balance_document
from batchstat.documents.base import to_text
from batchstat.planning.classes import Classes
from batchstat.planning.distribution import round_robin
from batchstat.planning.samplers import SAMPLERS
from batchstat.planning.samplers.draws import draw_distinct, round_shares
from batchstat.planning.samplers.spec import parse_sampler
from batchstat.planning.samples import Samples
from batchstat.planning.settings import Settings
from batchstat.planning.shares import make_shares
from batchstat.planning.strategies.spec import StrategySpec
from batchstat.planning.windows import plan_windows
from batchstat.simulation.meters.coverage import Coverage, class_mixing
from conftest import SAMPLE_DATA, check_schema, needs
from tables import in_pairs, in_turn

LABELS = st.lists(st.sampled_from(["a", "b", "c", None]), min_size=1, max_size=60)
SPECS = [
    "none",
    "downsampling",
    "upsampling",
    "upsampling:even=true",
    "count=7",
    "count:count=9,even=true",
    "weights=a:1,b:3,length=20",
    "dynamic",
    "dynamic:decay=0.5,cap=2",
    "per-batch:classes=1,samples=3",
    "weighted-random",
    "weighted-random:length=5,replacement=false",
]
SKEWED = np.random.default_rng(0).lognormal(4, 1, 3000).astype(int).clip(1, 512)


def classes_of(labels) -> Classes:
    assume(any(label is not None for label in labels))
    return Classes.encode(labels)


def test_every_sampler_is_tried():
    assert {spec.replace("=", ":").partition(":")[0] for spec in SPECS} == set(SAMPLERS)


@pytest.mark.parametrize("spec", SPECS)
@given(labels=LABELS, seed=st.integers(0, 9), epoch=st.integers(0, 20))
def test_what_is_drawn(spec, labels, seed, epoch):
    """Each sampler against its rule in plain words."""
    if spec.startswith("weights"):  # which needs both classes
        labels = [*labels, "a", "b"]
    if spec == SPECS[-1]:  # which draws five different samples
        labels = [*labels, *"abcab"]
    classes = classes_of(labels)
    sizes = Counter(label for label in labels if label is not None)
    sampler = parse_sampler(spec)
    drawn = sampler.draw(classes, seed=seed, epoch=epoch)
    assert drawn.tolist() == sampler.draw(classes, seed=seed, epoch=epoch).tolist()
    times = Counter(drawn.tolist())
    assert all(labels[place] is not None for place in times)
    after = Counter(labels[place] for place in drawn.tolist())
    smallest = min(sizes.values())
    expected = {
        "none": sizes,
        "downsampling": dict.fromkeys(sizes, smallest),
        "upsampling": dict.fromkeys(sizes, max(sizes.values())),
        "count=7": dict.fromkeys(sizes, 7),
        "count:count=9,even=true": dict.fromkeys(sizes, 9),
        "weights=a:1,b:3,length=20": {"a": 5, "b": 15},
        "dynamic": {
            label: int((size / smallest) ** (0.9**epoch) * smallest + 1e-9)
            for label, size in sizes.items()
        },
        "dynamic:decay=0.5,cap=2": {
            label: int(min((size / smallest) ** (0.5**epoch), 2) * smallest + 1e-9)
            for label, size in sizes.items()
        },
    }
    expected["upsampling:even=true"] = expected["upsampling"]
    if spec in expected:
        assert after == expected[spec]
    for place, count in times.items():
        label = labels[place]
        if "even" in spec:
            assert after[label] // sizes[label] <= count <= -(-after[label] // sizes[label])
        elif not sampler.has_sequence and after[label] <= sizes[label]:
            assert count == 1
    if spec == SPECS[-1]:
        assert sorted(times.values()) == [1] * 5
    if spec in ("none", "dynamic") and epoch == 0:
        assert after == sizes


def test_seeds_and_epochs_draw_otherwise():
    classes = Classes.encode(["a"] * 50 + ["b"] * 20)
    for spec in SPECS[1:]:
        if "weights" in spec or "dynamic" in spec:
            continue
        sampler = parse_sampler(spec)
        draws = {
            tuple(sampler.draw(classes, seed=seed, epoch=epoch).tolist())
            for seed, epoch in ((0, 0), (0, 1), (5, 0))
        }
        assert len(draws) == 3, spec


@given(
    st.lists(st.floats(0, 1e6, allow_nan=False) | st.integers(0, 10), min_size=1, max_size=8),
    st.integers(1, 10_000),
)
def test_shares_are_rounded_so_that_the_total_is_exact(shares, total):
    assume(any(shares))
    found = round_shares(shares, total)
    assert sum(found) == total
    whole = sum(Fraction(share) for share in shares)
    for share, count in zip(shares, found, strict=True):
        assert abs(count - Fraction(share) / whole * total) < 1
        assert share > 0 or count == 0


@given(st.lists(st.integers(1, 12), min_size=1, max_size=40), st.integers(1, 6))
def test_distinct_draws_are_distinct(sizes, count):
    drawn = draw_distinct(np.array(sizes), count, np.random.default_rng(0))
    for size, row in zip(sizes, drawn.tolist(), strict=True):
        assert all(0 <= number < size for number in row)
        assert len(set(row)) == count or size < count


def test_distinct_draws_are_as_likely_as_each_other():
    """Every set of 2 of 4, and every sequence of it: 12 equal chances in 24,000 draws."""
    drawn = draw_distinct(np.full(24_000, 4), 2, np.random.default_rng(1))
    found = Counter(map(tuple, drawn.tolist()))
    assert set(found) == {(i, j) for i, j in product(range(4), repeat=2) if i != j}
    assert all(abs(count - 2000) < 5 * 2000**0.5 for count in found.values())


@pytest.mark.parametrize(("p", "k"), [(1, 1), (2, 3), (3, 4), (3, 40)])
def test_per_batch_is_so_many_classes_of_so_many_samples(p, k):
    rng = np.random.default_rng(2)
    labels = rng.choice(["a", "b", "c"], 400, p=[0.7, 0.2, 0.1]).tolist()
    spec = f"per-batch:classes={p},samples={k}"
    work = make_shares(
        Samples(np.full(400, 5), np.arange(400), Classes.encode(labels)),
        Settings(sampler=spec).resolve(5, None),
    )
    sequence = work.epoch.samples.tolist()
    assert len(sequence) == max(1, 400 // (p * k)) * p * k
    sizes = Counter(labels)
    for first in range(0, len(sequence), p * k):
        batch = sequence[first : first + p * k]
        held = Counter(labels[place] for place in batch)
        assert sorted(held.values()) == [k] * p
        for label in held:
            members = [place for place in batch if labels[place] == label]
            assert len(set(members)) == k or sizes[label] < k
    report = batchstat.balance(
        np.full(400, 5), labels=labels, samplers=[spec], strategy="static"
    ).samplers[0]
    mixing = report.row.counts.sample_coverage.mixing
    assert (mixing.classes_per_batch.min, mixing.classes_per_batch.max) == (p, p)
    assert report.row.counts.batches == max(1, 400 // (p * k))


@pytest.mark.torch
@in_pairs(n=[1, 3, 50, 1000], seed=[0, 7], epoch=[0, 3], replacement=[True, False])
def test_weighted_random_is_torchs(n, seed, epoch, replacement):
    torch = needs("torch")
    labels = np.random.default_rng(n).choice(["a", "b", "c"], n, p=[0.8, 0.15, 0.05]).tolist()
    sizes = Counter(labels)
    expected = torch.utils.data.WeightedRandomSampler(
        [1 / sizes[label] for label in labels],
        n,
        replacement,
        generator=torch.Generator().manual_seed(seed + epoch),
    )
    spec = f"weighted-random:replacement={str(replacement).lower()}"
    classes = Classes.encode(labels)
    drawn = parse_sampler(spec).draw(classes, seed=seed, epoch=epoch)
    assert drawn.tolist() == list(expected)


@pytest.mark.torch
@in_pairs(
    spec=["none", "downsampling", "upsampling", "weighted-random"],
    world_size=[1, 2, 3, 8],
    epoch=[0, 2],
    drop_last=[True, False],
)
def test_distributed_sampler_around_a_balancing_sampler(spec, world_size, epoch, drop_last):
    """What Catalyst's DistributedSamplerWrapper gives where the ranks share random state."""
    torch = needs("torch")
    labels = ["a"] * 61 + ["b"] * 17
    classes = Classes.encode(labels)
    drawn = parse_sampler(spec).draw(classes, seed=5, epoch=epoch).tolist()
    settings = Settings(
        sampler=spec,
        world_size=world_size,
        distribute="samples",
        remainder="drop" if drop_last else "repeat",
        seed=5,
        epoch=epoch,
    )
    work = make_shares(Samples(np.full(78, 3), np.arange(78), classes), settings.resolve(3, None))
    for rank, share in enumerate(work.shares):
        sampler = torch.utils.data.DistributedSampler(
            drawn, world_size, rank, seed=5, drop_last=drop_last
        )
        sampler.set_epoch(epoch)
        assert share.samples.tolist() == [drawn[i] for i in sampler]


@given(
    st.lists(st.lists(st.sampled_from("abcd"), max_size=3, unique=True), min_size=1, max_size=40),
    st.lists(st.sampled_from("abcd"), max_size=2, unique=True),
)
def test_a_sample_of_several_labels_is_of_the_rarest(samples, keep):
    first = list(dict.fromkeys(label for labels in samples for label in labels))
    assume(first)
    assume(set(keep) <= set(first))
    codes, offsets = [], [0]
    for labels in samples:
        codes += [first.index(label) for label in labels] or [-1]
        offsets.append(len(codes))
    kept = [[label for label in labels if not keep or label in keep] for labels in samples]
    counts = Counter(label for labels in kept for label in labels)
    classes = Classes.of(np.array(codes), first, np.array(offsets), keep)
    for labels, code in zip(kept, classes.codes.tolist(), strict=True):
        expected = min(labels, key=lambda label: (counts[label], first.index(label)), default=None)
        assert (classes.names[code] if code >= 0 else None) == expected
    assert all(classes.sizes > 0)
    assert classes.multilabel_count == sum(len(labels) > 1 for labels in kept)


def test_labels_of_any_type():
    classes = Classes.encode([3, None, float("nan"), "x", True, 3, np.int64(7)])
    assert classes.names == ("3", "x", "true", "7")
    assert classes.codes.tolist() == [0, -1, -1, 1, 2, 0, 3]


def distributed(strategy, work, basis):
    """(rank, batch, records) of all that is distributed, from the plans themselves."""
    units = []
    of_rank: list[list[int]] = []
    for share in work.shares:
        of_rank.append([])
        for plan in plan_windows(strategy, share, seed=basis.seed, epoch=basis.epoch):
            rows = plan.row_offsets[plan.batch_offsets]
            for first, last in zip(plan.unit_offsets[:-1], plan.unit_offsets[1:], strict=True):
                of_rank[-1].append(len(units))
                units.append(
                    [
                        [
                            (int(plan.samples[i]), plan.starts is None or plan.starts[i] == 0)
                            for i in range(rows[batch], rows[batch + 1])
                        ]
                        for batch in range(first, last)
                    ]
                )
    if work.is_distributed:
        turns = round_robin(len(units), basis.world_size, basis.remainder)
        of_rank = [[unit for unit in column if unit >= 0] for column in turns.T.tolist()]
    return [
        (rank, batch) for rank, held in enumerate(of_rank) for unit in held for batch in units[unit]
    ]


@in_pairs(
    name=["static", "token-budget", "packed:method=wrapped", "asym"],
    distribute=["batches", "samples", "independent", "chunks"],
    remainder=["repeat", "drop", "uneven"],
    spec=["none", "downsampling", "weighted-random"],
    overflow=["truncate", "split"],
)
def test_samples_are_followed_to_their_ranks(name, distribute, remainder, spec, overflow):
    """Coverage, repeats, shares and classes against sets and counters of records."""
    rng = np.random.default_rng(3)
    lengths = SKEWED[:203]
    labels = rng.choice(["a", "b", "c"], 203, p=[0.8, 0.15, 0.05]).tolist()
    settings = {
        "sampler": spec,
        "distribute": distribute,
        "remainder": remainder,
        "overflow": overflow,
    }
    settings |= {"world_size": 3, "tokens_per_batch": 512, "max_length": 200}
    row = batchstat.compare(lengths, labels=labels, strategies=[name], **settings).strategies[0]
    reach, counts = row.counts.sample_coverage, row.counts
    basis = Settings(**settings).resolve(int(lengths.max()), None)
    classes = Classes.encode(labels)
    work = make_shares(Samples(lengths, np.arange(203), classes), basis)
    batches = distributed(StrategySpec.parse(name).strategy(vars(basis)), work, basis)

    times: Counter[int] = Counter()
    ranks: dict[int, set[int]] = {}
    held: Counter[tuple[int, str]] = Counter()
    for rank, batch in batches:
        for record, begins in batch:
            times[record] += begins
            ranks.setdefault(record, set()).add(rank)
            held[rank, labels[record]] += begins
    computed = {record: max(1, count) for record, count in times.items()}
    assert dict(reach.times) == Counter(computed.values())
    assert reach.unique_samples == len(computed)
    assert reach.coverage == pytest.approx(len(computed) / 203)
    assert reach.max_repeats == max(computed.values())
    assert reach.shared_samples == sum(len(where) > 1 for where in ranks.values())
    for rank, share in enumerate(reach.ranks):
        assert share.classes == tuple(held[rank, name] for name in classes.names)
    drawn = Counter(
        record
        for record, start in zip(
            work.epoch.samples.tolist(),
            [0] * 999 if work.epoch.starts is None else work.epoch.starts.tolist(),
            strict=False,
        )
        if start == 0
    )
    kept = sum(min(count, drawn[record]) for record, count in computed.items())
    assert counts.samples == sum(computed.values())
    assert counts.duplicated_samples == counts.samples - kept
    assert counts.dropped_samples == drawn.total() - kept

    company = [{labels[record] for record, _ in batch} for _, batch in batches]
    assert reach.mixing.classes_per_batch.mean == sum(map(len, company)) / len(company)
    assert reach.mixing.single_class_batches == sum(len(each) == 1 for each in company)


@given(st.lists(st.lists(st.integers(-1, 3), min_size=1, max_size=8), min_size=1, max_size=12))
def test_class_separation_is_fleiss_kappa(batches):
    batch = np.array([i for i, held in enumerate(batches) for _ in held])
    code = np.array([each for held in batches for each in held])
    found = class_mixing(batch, code, len(batches), 4)
    known = [[each for each in held if each >= 0] for held in batches]
    assert found.classes_per_batch.min == min(len(set(held)) for held in known)
    assert found.classes_per_batch.mean == sum(len(set(held)) for held in known) / len(known)
    assert found.single_class_batches == sum(len(set(held)) == 1 for held in known)

    def alike(numbers) -> Fraction:
        pairs = [(i, j) for i in range(len(numbers)) for j in range(len(numbers)) if i != j]
        return Fraction(sum(numbers[i] == numbers[j] for i, j in pairs), len(pairs))

    several = [held for held in known if len(held) > 1]
    every = [each for held in known for each in held]
    if not several or alike(every) == 1:
        assert found.homogeneity is None
        return
    within = sum(len(held) * alike(held) for held in several) / sum(map(len, several))
    expected = (within - alike(every)) / (1 - alike(every))
    assert found.homogeneity == pytest.approx(float(expected))


def test_class_separation_of_random_and_of_sorted_batches():
    codes = np.random.default_rng(0).choice(3, 20_000, p=[0.7, 0.2, 0.1])
    batch = np.arange(20_000) // 20
    assert abs(class_mixing(batch, codes, 1000, 3).homogeneity) < 0.01
    assert class_mixing(np.sort(codes), np.sort(codes), 3, 3).homogeneity == 1


def test_length_sorted_batches_sort_classes_that_differ_in_length():
    rng = np.random.default_rng(0)
    labels = rng.choice(["long", "short"], 2000)
    lengths = np.where(labels == "long", rng.integers(200, 400, 2000), rng.integers(5, 60, 2000))
    rows = batchstat.compare(
        lengths, labels=labels, strategies=["static", "token-budget"], tokens_per_batch=4096
    ).strategies
    plain, budget = (row.counts.sample_coverage.mixing for row in rows)
    assert abs(plain.homogeneity) < 0.1
    assert budget.homogeneity > 0.9
    assert budget.single_class_ratio > 0.9


@given(st.lists(st.integers(0, 3), min_size=1, max_size=9))
def test_the_accuracy_bound_is_the_worst_case(times):
    """All ways in which samples can be right or wrong."""
    assume(any(times))
    known = Counter(count for count in times if count)
    reach = Coverage(len(times), tuple(sorted(known.items())), 0, ())
    worst = max(
        abs(
            sum(c * r for c, r in zip(times, right, strict=True)) / sum(times)
            - sum(right) / len(times)
        )
        for right in product([0, 1], repeat=len(times))
    )
    assert reach.accuracy_bound == pytest.approx(worst)


def test_forty_nine_samples_on_two_ranks():
    """The published evaluation: 25 each, one of them twice, so accuracy is off by up to 1.96 %."""
    row = batchstat.compare([9] * 49, strategies=["static"], world_size=2, distribute="samples")
    reach = row.strategies[0].counts.sample_coverage
    assert [rank.samples for rank in reach.ranks] == [25, 25]
    assert dict(reach.times) == {1: 48, 2: 1}
    assert reach.accuracy_bound == pytest.approx(48 / (49 * 50))
    exact = batchstat.compare(
        [9] * 49, strategies=["static"], world_size=2, distribute="samples", remainder="uneven"
    )
    assert exact.strategies[0].counts.sample_coverage.accuracy_bound == pytest.approx(0)


def test_the_published_notebook_of_rare_positives():
    """5.7 % positive, downsampling, 8 ranks: every rank balanced, no sample on two ranks."""
    n, positive = 100_000, 5_704
    labels = np.array(["negative"] * (n - positive) + ["positive"] * positive)
    lengths = np.random.default_rng(0).integers(5, 200, n)
    report = batchstat.balance(
        lengths,
        labels=labels,
        samplers=["downsampling"],
        strategy="static",
        world_size=8,
        distribute="samples",
        epochs=3,
    )
    row = report.samplers[0]
    assert [(each.label, each.before, each.after) for each in row.classes] == [
        ("negative", n - positive, positive),
        ("positive", positive, positive),
    ]
    assert (row.samples, row.unique, row.max_repeats) == (2 * positive, 2 * positive, 1)
    assert row.coverage == pytest.approx(2 * positive / n)
    reach = row.row.counts.sample_coverage
    assert reach.shared_samples == 0
    assert reach.unique_samples == 2 * positive
    for rank in reach.ranks:
        assert rank.samples == positive // 4
        assert rank.classes[0] / rank.samples == pytest.approx(0.5, abs=0.05)
    negatives = n - positive
    for epoch, each in enumerate(row.seen):
        expected = positive + negatives * (1 - (1 - positive / negatives) ** (epoch + 1))
        assert each == pytest.approx(expected, rel=0.01)


def test_ranks_that_draw_for_themselves_overlap():
    """Each of w ranks takes a w-th of its own shuffle, so a sample is on Binomial(w, 1/w) ranks."""
    n, ranks = 8000, 8
    settings = {"strategies": ["static"], "world_size": ranks}
    synced, independent = (
        batchstat.compare(np.full(n, 5), distribute=distribute, **settings)
        for distribute in ("samples", "independent")
    )
    assert synced.strategies[0].counts.sample_coverage.shared_samples == 0
    assert synced.strategies[0].counts.sample_coverage.unseen_samples == 0
    reach = independent.strategies[0].counts.sample_coverage
    missed = (1 - 1 / ranks) ** ranks
    assert reach.unseen_samples == pytest.approx(missed * n, rel=0.05)
    once = (1 - 1 / ranks) ** (ranks - 1)
    assert reach.shared_samples == pytest.approx((1 - missed - once) * n, rel=0.05)
    message = next(w.message for w in independent.warnings if w.id == "ranks/independent")
    assert f"{reach.shared_samples:,} samples are computed by several ranks" in message
    assert f"{reach.unseen_samples:,} of the corpus by none" in message


def test_a_balance_report_fits_its_schema():
    labels = np.random.default_rng(1).choice(["a", "b", "c"], 300, p=[0.8, 0.15, 0.05])
    report = batchstat.balance(
        SKEWED[:300], labels=labels, samplers=SPECS, world_size=2, tokens_per_batch=2048, epochs=4
    )
    record = json.loads(to_text(balance_document(report)))
    check_schema(record, "balance")
    assert [row["name"] for row in record["samplers"]] == [
        spec.replace("=", ":").partition(":")[0] for spec in SPECS
    ]
    frame = report.to_frame()
    assert len(frame) == len(SPECS) * 3
    for row in record["samplers"]:
        assert sum(each["after"] for each in row["classes"]) == row["samples"]
        assert {each["label"] for each in row["classes"]} == {"a", "b", "c"}
        assert row["unseen_samples"] == 300 - row["unique_samples"]
        covered = [each["coverage"] for each in row["epochs"]]
        assert covered == sorted(covered)
        assert covered[0] == row["coverage"]
        assert covered[-1] == row["coverage_after"]


def test_only_some_labels():
    labels = ["a"] * 30 + ["b"] * 10 + ["c"] * 20
    made = batchstat.compare(
        np.full(60, 5), labels=labels, strategies=["static"], keep_labels=["a", "b"]
    )
    assert made.strategies[0].counts.samples == 40
    report = batchstat.balance(
        np.full(60, 5), labels=labels, samplers=["none", "upsampling"], keep_labels=["b", "c"]
    )
    assert [[each.after for each in row.classes] for row in report.samplers] == [
        [10, 20],
        [20, 20],
    ]
    assert report.unlabelled == 30


@pytest.mark.parametrize("order", ["file", "shuffled", "blocks"])
def test_the_order_of_what_is_drawn(order):
    labels = ["a"] * 3000 + ["b"] * 500
    basis = Settings(sampler="downsampling", order=order).resolve(5, None)
    work = make_shares(Samples(np.full(3500, 5), np.arange(3500), Classes.encode(labels)), basis)
    sequence = work.epoch.samples.tolist()
    drawn = parse_sampler("downsampling").draw(Classes.encode(labels), seed=0, epoch=0)
    assert sorted(sequence) == drawn.tolist()
    assert (sequence == sorted(sequence)) == (order == "file")


@in_turn(
    ("spec", "message"),
    [
        ("upsample", "unknown sampler 'upsample': did you mean 'upsampling'"),
        ("count", "needs count"),
        ("count=0", "count=0: must be between 1"),
        ("count=many", "must be a whole number"),
        ("weights=a", "'a' has no weight"),
        ("weights=a:x", "a:x: must be a number"),
        ("weights=a:-1", "a:-1.0: must be 0 or more"),
        ("weights=a:nan", "a:nan: must be 0 or more"),
        ("weights=a:inf", "a:inf: must be 0 or more"),
        ("weights=a:0,b:0", "all are 0"),
        ("weights=a:1,a:2", "'a' is given twice"),
        ("weights=a:1,length=0", "length=0: must be between 1"),
        ('weights={"a": "1"}', "must be a number"),
        ('weights={"a": 1', "is not valid JSON"),
        ("dynamic:decay=0", "decay=0.0: must be above 0"),
        ("dynamic:decay=nan", "decay=nan: must be above 0"),
        ("dynamic:cap=0.5", "cap=0.5: must be at least 1"),
        ("per-batch:classes=2", "needs samples"),
        ("per-batch:classes=0,samples=2", "classes=0"),
        ("downsampling:even=true", "downsampling has no parameters"),
        ('weights={"a": 1, "a": 2}', "'a' is given twice"),
        ('weights={"a": 1}length=3', "write a comma after the object"),
    ],
)
def test_samplers_that_cannot_be_meant(spec, message):
    with pytest.raises(OptionError, match=message):
        Settings(sampler=spec)


def test_labels_with_commas_and_colons(tmp_path):
    path = tmp_path / "weights.json"
    path.write_text(json.dumps({"a,length=3": 1, "b:c": 2.5}), encoding="utf-8")
    read = Settings(sampler=with_inlined_weights(f"weights={path},length=70,even=true"))
    assert read.class_sampler.weights == {"a,length=3": 1, "b:c": 2.5}
    path.unlink()
    with pytest.raises(OptionError, match="has no weight: write label:weight, or a JSON object"):
        Settings(sampler=f"weights={path}")
    assert Settings(sampler=read.sampler) == read
    assert read.class_sampler.length == 70
    with pytest.raises(InputError, match="weights: no such file: .*weights.json"):
        with_inlined_weights(f"weights={path}")
    path.write_text("[1]", encoding="utf-8")
    with pytest.raises(InputError, match="has no object"):
        with_inlined_weights(f"weights={path}")
    path.write_text('{"a": ', encoding="utf-8")
    with pytest.raises(InputError, match="is not valid JSON"):
        with_inlined_weights(f"weights={path}")
    for wrong in ('{"a": "1"}', '{"a": null}', '{"a": true}', '{"a": -1}', '{"a": NaN}', "{}"):
        path.write_text(wrong, encoding="utf-8")
        with pytest.raises(InputError, match=r"weights\.json: weights"):
            with_inlined_weights(f"weights={path}")
    for wrong in (f'{{"a": {"9" * 5000}}}', '{"a":' * 100_000):
        with pytest.raises(OptionError, match="is not valid JSON"):
            Settings(sampler=f"weights={wrong}")


@pytest.mark.parametrize(
    ("arguments", "code", "message"),
    [
        ([], 3, "needs labels, but none were loaded: pass --label-column"),
        (["--label-column", "label", "--sampler", "weights=bad:1"], 3, "no sample is of class 'b"),
        (["--label-column", "label", "--sampler", "weights=a:-1"], 2, "must be 0 or more"),
        (["--label-column", "label", "--sampler", "weights=a:0"], 2, "all are 0"),
        (["--label-column", "label", "--sampler", "weights=a:1,length=0"], 2, "length=0"),
        (
            ["--label-column", "label", "--sampler", "per-batch:classes=3,samples=1"],
            3,
            "classes=3 in every batch, but the corpus has only 2",
        ),
        (["--label-column", "label", "--keep-labels", "positve"], 3, "did you mean 'positive'?"),
        (["--label-column", "label", "--epochs", "0"], 2, "epochs=0"),
        (["--label-column", "label", "--keep-labels", "[1"], 2, "is not a JSON list"),
        (
            [
                *("--label-column", "label", "--order", "file"),
                *("--sampler", "per-batch:classes=2,samples=1"),
            ],
            2,
            "defines its own order",
        ),
        (
            ["--label-column", "label", "--world-size", "5000", "--remainder", "drop"],
            3,
            "no batches left",
        ),
    ],
)
def test_the_command_says_what_is_wrong(run, arguments, code, message):
    reviews = SAMPLE_DATA / "reviews.csv"
    ended = run("balance", reviews, "--text-column", "review", "--no-plots", *arguments)
    assert ended.returncode == code
    assert message in ended.stderr
    assert "Traceback" not in ended.stderr
    assert ended.stdout == ""


def test_one_class_and_a_class_of_one_sample():
    one = batchstat.balance(np.full(9, 5), labels=["a"] * 9)
    assert "classes/one" in {warning.id for warning in one.warnings}
    rare = batchstat.balance(
        np.full(9, 5), labels=["a"] * 8 + ["b"], samplers=["downsampling", "upsampling"]
    )
    assert [row.samples for row in rare.samplers] == [2, 16]
    assert rare.samplers[1].max_repeats == 8
    batch = batchstat.balance(
        np.full(9, 5), labels=["a"] * 8 + ["b"], samplers=["per-batch:classes=2,samples=3"]
    )
    assert batch.samplers[0].classes[1].after == 3


def test_lengths_without_labels():
    with pytest.raises(InputError, match="none were loaded"):
        batchstat.balance([1, 2, 3])
    with pytest.raises(InputError, match="sampler=upsampling needs labels"):
        batchstat.compare([1, 2, 3], sampler="upsampling")
    with pytest.raises(InputError, match="keep_labels needs labels"):
        batchstat.compare([1, 2, 3], keep_labels=["a"])
    with pytest.raises(OptionError, match="2 labels for 3 lengths"):
        batchstat.compare([1, 2, 3], labels=["a", "b"])
    with pytest.raises(InputError, match="no sample has a label"):
        batchstat.balance([1, 2, 3], labels=[None] * 3)


def test_the_command_and_the_check(run, tmp_path):
    """balance, compare --sampler and check --min-coverage agree on what an epoch sees."""
    reviews = [SAMPLE_DATA / "reviews.csv", "--text-column", "review", "--label-column", "label"]
    shown = run("balance", *reviews, "--world-size", 2, "--details")
    assert shown.returncode == 0
    for column in ("class ratio", "coverage", "after 10", "homogeneity", "shared"):
        assert column in shown.stdout
    plots = tmp_path / "batchstat-results" / "plots"
    assert (plots / "balance.png").exists()
    assert (plots / "coverage.png").exists()
    record = json.loads((tmp_path / "batchstat-results" / "balance.json").read_text())
    down = next(row for row in record["samplers"] if row["name"] == "downsampling")
    compared = json.loads(
        run(
            *("compare", "--sampler", "downsampling", "--strategy", "token-budget"),
            *("--no-plots", "--json"),
        ).stdout
    )
    assert compared["basis"]["sampler"] == "downsampling"
    row = next(row for row in compared["strategies"] if row["name"] == "token-budget")
    assert row["coverage"] == pytest.approx(down["coverage"])
    assert row["mixing"]["classes_per_batch"]["max"] == 2

    kept = ["--sampler", "downsampling", "--min-coverage"]
    assert run("check", *reviews, *kept, "5%").returncode == 0
    failed = run("check", *reviews, *kept, "50%")
    assert failed.returncode == 1
    assert "the share of the corpus that is computed is 11.9" in failed.stdout
    assert "set the limit to 11.94%" in " ".join(failed.stdout.split())


def test_labels_to_keep_on_the_command_line(run):
    reviews = [SAMPLE_DATA / "reviews.csv", "--text-column", "review", "--label-column", "label"]
    for written in (["positive"], ['["positive"]'], ["positive,negative"], ["positive"] * 2):
        flags = [text for each in written for text in ("--keep-labels", each)]
        shown = run("compare", *reviews, "--no-plots", "--json", *flags)
        assert shown.returncode == 0, shown.stderr
        row = json.loads(shown.stdout)["strategies"][0]
        assert row["samples"] == (43 if "negative" not in written[0] else 720)


def test_the_configuration_balances(run, tmp_path):
    (tmp_path / "sub").mkdir()
    (tmp_path / "sub" / "weights.json").write_text('{"positive": 1, "negative": 1}')
    reviews = (SAMPLE_DATA / "reviews.csv").as_posix()
    (tmp_path / "sub" / "batchstat.toml").write_text(
        f'corpus = "{reviews}"\ntext-column = "review"\nlabel-column = "label"\n'
        'sampler = "weights=weights.json,length=100"\nkeep-labels = ["positive", "negative"]\n'
        "[limits]\nequal-steps = true\n"
        '"strategy.samples" = { max = 100, min = 100 }\n'
    )
    checked = run("check", "--config", "sub/batchstat.toml")
    assert checked.returncode == 0, checked.stdout + checked.stderr
    shown = run("config", "--config", "sub/batchstat.toml").stdout
    assert "positive, negative" in shown
    assert any(line.split()[:2] == ["equal-steps", "true"] for line in shown.splitlines())


@pytest.mark.slow
@in_turn("labels", [("[/a]", "[red]x"), ("$\\frac$", "a,b"), ("x:y", "é" * 300), ("", "b")])
def test_labels_are_shown_as_they_are(run, tmp_path, labels):
    """No markup and no formula, on screens and in plots."""
    held = [*labels, labels[0]]
    frame = pd.DataFrame({"text": ["some words", "others", "more"], "label": held})
    frame.to_csv(tmp_path / "a.csv", index=False)
    flags = ["--text-column", "text", "--label-column", "label"]
    shown = run("balance", tmp_path / "a.csv", *flags, COLUMNS="400")
    assert shown.returncode == 0 or "" in labels, shown.stderr
    assert "Traceback" not in shown.stderr
    for label in labels:
        if len(label) < 20 and "" not in labels:
            assert label in shown.stdout


@pytest.mark.parametrize(("small_classes", "is_recommended"), [(1, True), (9, False)])
def test_what_computes_several_times_as_much_is_not_recommended(small_classes, is_recommended):
    labels = ["large"] * 300 + [f"small {i}" for i in range(small_classes)]
    report = batchstat.balance([7] * len(labels), labels=labels, samplers=["none", "upsampling"])
    upsampling = report.samplers[1]
    assert upsampling.is_balanced
    assert upsampling.relative_compute == pytest.approx(1 + small_classes, rel=0.05)
    assert report.recommended is (upsampling if is_recommended else None)


def test_what_evens_nothing_out_is_not_recommended(run):
    reviews = [SAMPLE_DATA / "reviews.csv", "--text-column", "review", "--label-column", "label"]
    only = ["--sampler", "none", "--sampler", "weights=negative:1", "--sampler", "downsampling"]
    shown = run("balance", *reviews, *only, "--no-plots").stdout
    assert "use      batchstat compare --sampler downsampling" in shown
    chance = ["--sampler", "none", "--sampler", "weighted-random", "--seed", 3]
    shown = run("balance", *reviews, *chance, "--no-plots").stdout
    assert "use      batchstat compare --seed 3 --sampler weighted-random" in shown


def test_missing_and_several_labels_of_any_kind():
    classes = Classes.encode(pd.array(["a", pd.NA, "b"]))
    assert classes.codes.tolist() == [0, -1, 1]
    assert Classes.encode(pd.Series([1, None, 2], dtype="Int64")).codes.tolist() == [0, -1, 1]
    several = Classes.encode([["a", "b"], ["a"], [], ("a", "a"), {"b"}, None, "a", np.array(["a"])])
    assert several.names == ("a", "b")
    assert several.codes.tolist() == [1, 0, -1, 0, 1, -1, 0, 0]
    assert several.multilabel_count == 1
    with pytest.raises(OptionError, match="sampler=3: must be text"):
        batchstat.balance([1, 2], labels=["a", "b"], samplers=[3])


@pytest.mark.torch
@pytest.mark.parametrize("spec", ["weighted-random:length=1", "weighted-random:length=2"])
@pytest.mark.parametrize("seed", range(20))
def test_single_draws_are_torchs(spec, seed):
    torch = needs("torch")
    drawn = np.random.default_rng(seed).choice(["a", "b"], 9, p=[0.7, 0.3]).tolist()
    labels = ["a", "b", *drawn]
    sizes = Counter(labels)
    expected = torch.utils.data.WeightedRandomSampler(
        [1 / sizes[label] for label in labels],
        int(spec[-1]),
        generator=torch.Generator().manual_seed(seed),
    )
    drawn = parse_sampler(spec).draw(Classes.encode(labels), seed=seed, epoch=0)
    assert drawn.tolist() == list(expected)


@in_turn(
    ("changed", "kept"),
    [
        ({}, True),
        ({"distribute": "samples", "world_size": 2}, False),
        ({"distribute": "chunks", "world_size": 2}, False),
        ({"distribute": "balanced", "world_size": 2}, True),
        ({"overflow": "drop", "max_length": 30}, False),
        ({"strategy": "static:batch_size=5"}, False),
        ({"strategy": "static:batch_size=8", "batch_size": 5}, True),
        ({"strategy": "token-budget"}, False),
    ],
)
def test_batches_of_other_classes_are_warned_of(changed, kept):
    labels = np.random.default_rng(0).choice(list("abcdefgh"), 800)
    settings = {"strategy": "static", "tokens_per_batch": 2000} | changed
    report = batchstat.balance(
        np.random.default_rng(0).integers(1, 60, 800),
        labels=labels,
        samplers=["per-batch:classes=2,samples=4"],
        **settings,
    )
    assert ("classes/other-batches" not in {warning.id for warning in report.warnings}) == kept


@pytest.mark.parametrize(
    ("spec", "message"),
    [
        ("count=2000000000", "the sampler draws 4,000,000,000 samples per epoch"),
        ("weighted-random:length=2000000000", "the sampler draws 2,000,000,000 samples"),
        ("per-batch:classes=2,samples=1000000000", "the sampler draws 2,000,000,000 samples"),
    ],
)
def test_more_samples_than_an_epoch_can_visit(spec, message):
    with pytest.raises(InputError, match=message):
        batchstat.balance([5, 6], labels=["a", "b"], samplers=[spec])


def test_many_samples_of_few():
    drawn = draw_distinct(np.array([5, 300, 90]), 100, np.random.default_rng(0))
    assert len(set(drawn[1])) == 100
    assert set(drawn[0]) <= set(range(5))
    assert len(drawn[2]) == 100


def test_samplers_are_as_full_as_one_budget_says():
    """One with a batch size of its own had another budget, and so another fill."""
    labels = ["a", "b"] * 200
    found = batchstat.balance(
        SKEWED[:400],
        labels=labels,
        samplers=["none", "per-batch:classes=2,samples=2"],
        strategy="static",
    )
    rows = [each.row.counts for each in found.samplers]
    assert {row.tokens_per_batch for row in rows} == {found.basis.tokens_per_batch}
    assert rows[1].fill == rows[1].total_tokens / (rows[1].batches * rows[0].tokens_per_batch)
