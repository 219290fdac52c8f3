"""The samplers in the hands of torch, torchdata, accelerate, transformers and datasets.

Each test is skipped where its library is not installed.
"""

import json
import os
from collections import Counter
from itertools import islice
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat import BatchSampler, RankSampler, StreamBatcher
from conftest import ROOT, SAMPLE_DATA, needs
from tables import in_pairs

LENGTHS = np.random.default_rng(0).integers(2, 60, 203)
SETTINGS = {"tokens_per_batch": 256, "read_ahead": 50}
TEXTS = [{"input_ids": [i % 90 + 5] * int(n), "labels": i % 2} for i, n in enumerate(LENGTHS)]


def padded(samples):
    """What a collator of the user's does."""
    import torch

    longest = max(len(sample["input_ids"]) for sample in samples)
    rows = [s["input_ids"] + [0] * (longest - len(s["input_ids"])) for s in samples]
    return torch.tensor(rows), torch.tensor([s["labels"] for s in samples])


def loader_of(sampler, workers=0, library="torch.utils.data", name="DataLoader"):
    """The loader of a library, which the test is skipped without."""
    made = getattr(needs(library), name)
    return made(TEXTS, batch_sampler=sampler, collate_fn=padded, num_workers=workers)


def stateful_loader_of(sampler, workers):
    return loader_of(sampler, workers, "torchdata.stateful_dataloader", "StatefulDataLoader")


def ids_of(loader) -> list[list[list[int]]]:
    return [ids.tolist() for ids, _ in loader]


@pytest.mark.torch
@pytest.mark.parametrize("workers", [0, 2])
@pytest.mark.parametrize("stop", [0, 1, 7])
def test_a_stateful_loader_goes_on_where_training_was(workers, stop):
    def loader():
        return stateful_loader_of(BatchSampler(LENGTHS, **SETTINGS), workers)

    whole = ids_of(loader())
    interrupted = loader()
    running = iter(interrupted)
    for _ in range(stop):
        next(running)
    state = interrupted.state_dict()
    del running
    resumed = loader()
    resumed.load_state_dict(state)
    assert ids_of(resumed) == whole[stop:]


@pytest.mark.torch
@pytest.mark.parametrize("workers", [0, 2])
def test_a_stateful_loader_at_the_end_of_an_epoch(workers):
    """It loads its state only when it is iterated, after the next epoch was chosen."""
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    made = stateful_loader_of(sampler, workers)
    assert len(list(made)) == len(sampler)
    state = made.state_dict()
    sampler.set_epoch(1)
    following = ids_of(made)
    again = BatchSampler(LENGTHS, **SETTINGS)
    resumed = stateful_loader_of(again, workers)
    resumed.load_state_dict(state)
    again.set_epoch(1)
    assert ids_of(resumed) == following


@pytest.mark.torch
@pytest.mark.parametrize("stop", [0, 1, 7])
def test_the_caller_keeps_what_was_consumed(stop):
    """A loader with workers runs ahead: the caller counts, and the state is of that."""
    whole = ids_of(loader_of(BatchSampler(LENGTHS, **SETTINGS)))
    sampler = BatchSampler(LENGTHS, **SETTINGS)
    running = iter(loader_of(sampler, workers=2))
    for _ in range(stop):
        next(running)
    assert sampler.state_dict()["batches"] > stop
    state = sampler.state_dict(consumed=stop)
    del running
    other = BatchSampler(LENGTHS, **SETTINGS)
    other.load_state_dict(state)
    assert ids_of(loader_of(other, workers=2)) == whole[stop:]


@pytest.mark.torch
@pytest.mark.parametrize("replacement", [True, False])
def test_torch_samplers_over_ranks_do_not_overlap(replacement):
    torch = needs("torch")
    for generator in (None, torch.Generator()):
        ranks = []
        for rank in range(4):
            torch.manual_seed(rank)
            inner = torch.utils.data.RandomSampler(
                range(203), replacement=replacement, generator=generator
            )
            before = torch.get_rng_state()
            sampler = RankSampler(inner, rank, 4)
            sampler.set_epoch(2)
            ranks.append(list(sampler))
            assert torch.equal(torch.get_rng_state(), before)
        whole = RankSampler(inner, 0, 1)
        whole.set_epoch(2)
        drawn = Counter(whole)
        times = Counter(place for rank in ranks for place in rank)
        assert {len(rank) for rank in ranks} == {51}
        assert times >= drawn
        assert times.total() == 204
        if not replacement:
            assert len(drawn) == 203


@pytest.mark.torch
def test_accelerate_keeps_the_batches():
    accelerate = needs("accelerate")
    loader = loader_of(BatchSampler(LENGTHS, **SETTINGS))
    expected = ids_of(loader)
    assert ids_of(accelerate.Accelerator(cpu=True).prepare(loader)) == expected


@pytest.mark.torch
def test_a_packed_plan_through_the_flattening_collator():
    """Position ids begin anew with every sample of the row, and labels are not shared over them."""
    torch = needs("torch")
    transformers = needs("transformers")
    sampler = BatchSampler(LENGTHS, "packed", tokens_per_batch=64, max_length=64)
    collate = transformers.DataCollatorWithFlattening(return_tensors="pt")
    texts = [{"input_ids": each["input_ids"]} for each in TEXTS]
    loader = torch.utils.data.DataLoader(texts, batch_sampler=sampler, collate_fn=collate)
    for batch, made in zip(loader, sampler.batches(), strict=True):
        assert len(made.rows) == 1
        expected = [place for record in made.records for place in range(LENGTHS[record])]
        assert batch["position_ids"].tolist() == [expected]
        assert batch["input_ids"].shape[1] == sum(made.stops) <= 64
        ids = [token for record in made.records for token in texts[record]["input_ids"]]
        assert batch["input_ids"][0].tolist() == ids


# DistributedDataParallel keeps gloo's threads after destroy_process_group(), and one that still
# lets go of a tensor aborts an interpreter that is ending (pytorch#179291): so it does not end.
AT_ONCE = """
import os, sys
sys.stdout.flush()
os._exit(0)
"""


@pytest.mark.parametrize("remainder", ["repeat", "uneven"])
def test_an_exact_accuracy_over_ranks(remainder):
    """49 samples on 2 ranks, each of them counted once: by a mask, and by uneven ranks."""
    right, sums = np.arange(49) % 3 == 0, np.zeros(2)
    ranks = {"distribute": "samples", "remainder": remainder, "world_size": 2}
    for rank in range(2):
        sampler = BatchSampler([9] * 49, "static", batch_size=4, rank=rank, **ranks)
        for batch in sampler.batches():
            counts = ~np.array(batch.repeated)
            sums += (right[batch.records] & counts).sum(), counts.sum()
    assert sums.tolist() == [17, 49]


def batched(source: Any, **more: Any) -> StreamBatcher:
    """The batches of a stream of samples."""
    spec = "token-budget:read_ahead=32"
    return StreamBatcher(source, length="input_ids", strategy=spec, tokens_per_batch=256, **more)


def of_datasets() -> Any:
    return needs("datasets").Dataset.from_list(TEXTS).to_iterable_dataset(num_shards=3)


def shuffled_datasets() -> Any:
    return of_datasets().shuffle(seed=5, buffer_size=40)


def stateful_loader() -> Any:
    stateful = needs("torchdata.stateful_dataloader")
    return stateful.StatefulDataLoader(TEXTS, batch_size=None, num_workers=1)


@pytest.mark.parametrize("stop", [0, 3, 9, 20])
@pytest.mark.parametrize(
    ("source", "more"),
    [
        (of_datasets, {}),
        # Its state leaves the shuffle buffer out: the source is read again, in the same sequence.
        (shuffled_datasets, {"replay": True}),
        pytest.param(stateful_loader, {}, marks=pytest.mark.torch),
    ],
)
def test_a_stream_restores_itself(source, more, stop):
    """Epochs after a resumed one are whole."""

    def made():
        return batched(source(), **more)

    whole = list(made())
    ids = [sample["input_ids"] for batch in whole for sample in batch]
    assert sorted(ids) == sorted(sample["input_ids"] for sample in TEXTS)
    running = made()
    assert list(islice(iter(running), stop)) == whole[:stop]
    other = made()
    other.load_state_dict(running.state_dict())
    assert list(other) == whole[stop:]
    assert list(other) == whole


def test_lengths_of_a_datasets_column():
    datasets = needs("datasets")
    table = datasets.Dataset.from_dict({"length": LENGTHS})
    assert list(BatchSampler(table["length"], **SETTINGS)) == list(
        BatchSampler(LENGTHS, **SETTINGS)
    )


# A loop around the printed lines.
LOOP = """
from contextlib import nullcontext
import torch
from torch.nn.parallel import DistributedDataParallel

def collate(samples):
    return torch.tensor(samples)[:, None]

dataset = [1.0] * 100
{begin}
{lines}
model = DistributedDataParallel(torch.nn.Linear(1, 1))
seen = []
for inputs, batch in zip(loader, sampler.batches(), strict=True):
    seen.append(len(inputs))
    with nullcontext() if batch.ends_step else model.no_sync():
        (model(inputs).mean() * batch.weight).backward()
print(seen)
"""


@pytest.mark.torch
@pytest.mark.parametrize(
    ("framework", "begin"),
    [
        ("torch", "torch.distributed.init_process_group('gloo')"),
        ("accelerate", "from accelerate import Accelerator\naccelerator = Accelerator(cpu=True)"),
    ],
)
def test_a_recipe_on_two_processes(run, warm_python, tmp_path, framework, begin):
    """Each computes its own batches, which compare counts, and both end: also with a strategy that
    gives ranks unlike numbers of batches in a step.
    """
    lines = (SAMPLE_DATA / "corpus.txt").read_text(encoding="utf-8").splitlines(keepends=True)
    (tmp_path / "some.txt").write_text("".join(lines[:100]), encoding="utf-8")
    assert run("profile", "some.txt", "--no-plots").returncode == 0
    options = ["--strategy", "asym", "--batch-size", 7, "--world-size", 2]
    printed = run("recipe", framework, *options)
    assert printed.returncode == 0, printed.stderr
    text = LOOP.format(begin=begin, lines=printed.stdout) + AT_ONCE
    (script := tmp_path / "train.py").write_text(text, encoding="utf-8")
    ended = warm_python.run(script, ranks=2)
    compared = json.loads(run("compare", *options, "--no-plots", "--json").stdout)
    results = tmp_path / "batchstat-results" / "lengths.parquet"
    total = 0
    for rank in range(2):
        sampler = BatchSampler(results, "asym", rank=rank, batch_size=7, world_size=2)
        sizes = [len(batch.records) for batch in sampler.batches()]
        assert json.loads(ended[rank]) == sizes
        total += len(sizes)
    assert total == compared["strategies"][-1]["batches"]


@pytest.mark.parametrize("strategy", ["token-budget", "padding-free"])
def test_the_trained_ranges_of_samples_are_those_of_the_plan(strategy):
    """After the shift of a causal model, and truncated: as many in each batch as it has."""
    profile = batchstat.profile(
        SAMPLE_DATA / "chat.jsonl", messages_column="messages", assistant_only_loss=True
    )
    samples = batchstat.read_samples(profile)
    sampler = BatchSampler(profile, strategy, max_length=400, tokens_per_batch=2000)
    for batch in sampler.batches():
        ranges = [each for record in batch.records for each in samples[record]["trained"]]
        trained = sum(max(0, min(end, 400) - max(first, 1)) for first, end in ranges)
        assert trained == batch.trained_tokens > 0


@pytest.mark.torch
@in_pairs(
    balance=["none", "upsampling"],
    strategy=["token-budget", "hf-group-by-length", "fairseq", "static", "bucketed"],
    order=["shuffled", "blocks"],
)
def test_loaders_of_all_ranks_are_the_report(balance, strategy, order):
    """Padding, batches, repeats and sequence counted in real loaders, over two epochs."""
    labels = [sample["labels"] if i % 7 else 2 for i, sample in enumerate(TEXTS)]
    settings = SETTINGS | {"sampler": balance, "order": order, "gradient_accumulation_steps": 2}
    for epoch in range(2):
        row = batchstat.compare(
            LENGTHS, labels=labels, strategies=[strategy], world_size=3, epoch=epoch, **settings
        ).strategies[0]
        numel = padding = batches = 0
        times: Counter[int] = Counter()
        for rank in range(3):
            sampler = BatchSampler(
                LENGTHS, strategy, labels=labels, rank=rank, world_size=3, **settings
            )
            sampler.set_epoch(epoch)
            loader = loader_of(sampler, workers=rank % 2)
            assert len(loader) == len(sampler)
            for (ids, _), batch in zip(loader, sampler.batches(), strict=True):
                assert [int(n) for n in (ids != 0).sum(1)] == batch.stops
                numel, padding = numel + ids.numel(), padding + int((ids == 0).sum())
                batches += 1
                times.update(batch.records)
        assert (batches, numel, padding) == (
            *(row.counts.batches, row.counts.total_tokens),
            row.counts.padding_tokens,
        )
        assert dict(row.counts.sample_coverage.times) == Counter(times.values())


JOIN = """
import sys
import torch, torch.distributed as dist
from torch.distributed.algorithms.join import Join
from torch.nn.parallel import DistributedDataParallel
sys.path[:0] = [sys.argv[1], f"{sys.argv[1]}/helpers", f"{sys.argv[1]}/integration"]
from test_recipes import LENGTHS, SETTINGS, TEXTS, padded
from batchstat import BatchSampler

dist.init_process_group("gloo")
rank = dist.get_rank()
model = DistributedDataParallel(torch.nn.Linear(1, 2))
sampler = BatchSampler(LENGTHS, remainder="uneven", rank=rank, world_size=2, **SETTINGS)
loader = torch.utils.data.DataLoader(TEXTS, batch_sampler=sampler, collate_fn=padded)
seen = 0
with Join([model]):  # the rank that is done first shadows the collectives of the other
    for ids, wanted in loader:
        model(ids.float().mean(1, keepdim=True)).sum().backward()
        seen += len(wanted)
counts = [None, None]
dist.all_gather_object(counts, (len(sampler), seen))
if rank == 0:
    print(counts)
dist.destroy_process_group()
"""


@pytest.mark.torch
def test_uneven_ranks_join(warm_python, tmp_path):
    """torch's Join: every sample once, a rank with a batch less waits for nobody."""
    needs("torch")
    (script := tmp_path / "script.py").write_text(JOIN + AT_ONCE, encoding="utf-8")
    ended = warm_python.run(script, ROOT / "tests", ranks=2)
    (batches_0, seen_0), (batches_1, seen_1) = eval(ended[0])  # noqa: S307
    assert (batches_0, seen_0 + seen_1) == (batches_1 + 1, 203)


@pytest.mark.parametrize(
    ("flags", "message"),
    [
        (["--overflow", "split"], "splits samples"),
        (["--strategy", "packed:method=wrapped"], "splits samples"),
        (["--strategy", "boundaries:boundaries=64,512,pad=edge"], "pads to edges"),
        (["--remainder", "dummy"], "has empty batches"),
        (["--remainder", "uneven", "--world-size", 2], "different numbers of steps"),
        (["--distribute", "samples", "--world-size", 2], "different numbers of steps"),
        (["--strategy", "padding-free:document_multiple=16"], "pads each sample of a row"),
        (["trainer", "--strategy", "asym"], "which Trainer does not support"),
        (["lightning", "--strategy", "asym"], "which Lightning does not support"),
    ],
)
def test_what_no_recipe_can_say(run, flags, message):
    run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots")
    ended = run("recipe", *flags)
    assert ended.returncode == 2
    assert message in ended.stderr
    assert "BatchSampler.batches()" in ended.stderr


def test_a_recipe_without_a_profile_suggests_what_can_be_done(run, tmp_path):
    """It takes no corpus, so that naming one is no remedy."""
    (tmp_path / "a.txt").write_text("some words\n")
    ended = run("recipe", "-o", "results")
    assert ended.returncode == 3
    assert ended.stderr == (
        "error: no profile in results: run batchstat profile CORPUS first, or pass its folder with "
        "-o\n"
    )
    assert run("profile", "a.txt", "-o", "results", "--no-plots").returncode == 0
    assert run("recipe", "-o", "results").returncode == 0


def test_samples_are_read_as_they_were_counted(run, tmp_path):
    """Item i is record i, over several files, with what was skipped as None."""
    (tmp_path / "a.csv").write_text('text,label\n"one, two",x\n\n   ,y\nthree,\n')
    (tmp_path / "b.csv").write_text("text,label\nfour,x\n")
    assert run("profile", "a.csv", "b.csv", "--label-column", "label").returncode == 0
    results = tmp_path / "batchstat-results" / "lengths.parquet"
    here = Path.cwd()
    os.chdir(tmp_path)
    try:
        samples = batchstat.read_samples(results)
        sampler = BatchSampler(results, "static", batch_size=1, order="file")
        assert samples[0] == {"text": "one, two", "label": "x"}
        assert [samples[record]["text"] for (record,) in sampler] == ["one, two", "three", "four"]
        assert samples.count(None) == len(samples) - 3
        (tmp_path / "b.csv").write_text("text,label\nfive,x\n")
        with pytest.raises(batchstat.InputError, match=r"b\.csv has changed"):
            batchstat.read_samples(results)
    finally:
        os.chdir(here)
    np.save(tmp_path / "lengths.npy", LENGTHS)
    run("profile", "lengths.npy")
    assert "BatchSampler" in run("recipe").stdout


REVIEWS = ["reviews.csv", "--text-column", "review", "--label-column", "label"]


@pytest.mark.torch
@pytest.mark.parametrize(
    ("corpus", "flags"),
    [
        (["corpus.txt"], ["--batch-size", 8]),
        (["corpus.txt"], ["--tokens-per-batch", 2048, "--strategy", "packed"]),
        (REVIEWS, ["--tokens-per-batch", 2048, "--strategy", "fixed", "--sampler", "downsampling"]),
    ],
)
def test_the_lines_make_a_script_use_the_batches(run, tmp_path, monkeypatch, corpus, flags):
    """Pasted where a dataset, a collator, a model and a trainer are: the batches of the plan."""
    torch, transformers = needs("torch"), needs("transformers")
    accelerate, pl = needs("accelerate"), needs("lightning.pytorch")
    file, *columns = corpus
    assert run("compare", SAMPLE_DATA / file, *columns, *flags, "--no-plots").returncode == 0
    compared = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    best = compared["choice"]["best"]
    (row,) = (each for each in compared["strategies"] if each["label"] == best)
    monkeypatch.chdir(tmp_path)
    dataset = batchstat.read_samples("batchstat-results/lengths.parquet")
    seen = []

    class Model(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.layer = torch.nn.Linear(1, 1)

        def forward(self, size):
            seen.append(len(size))
            return {"loss": self.layer(size).mean()}

        def training_step(self, inputs):
            return self(**inputs)["loss"]

        def configure_optimizers(self):
            return torch.optim.SGD(self.parameters(), 0.1)

    def collate(samples):
        return {"size": torch.tensor([[float(len(each["text"]))] for each in samples])}

    names = {"dataset": dataset, "collate": collate, "model": Model()}
    arguments = transformers.TrainingArguments(
        output_dir="trained",
        num_train_epochs=1,
        report_to=[],
        save_strategy="no",
        use_cpu=True,
        remove_unused_columns=False,
    )
    trainers = {
        "torch": {},
        "accelerate": {"accelerator": accelerate.Accelerator(cpu=True)},
        "trainer": {
            "trainer": transformers.Trainer(
                Model(), arguments, train_dataset=dataset, data_collator=collate
            )
        },
        "lightning": {
            "trainer": pl.Trainer(
                max_epochs=1,
                accelerator="cpu",
                reload_dataloaders_every_n_epochs=1,
                enable_checkpointing=False,
                logger=False,
            )
        },
    }
    for framework, trainer in trainers.items():
        printed = run("recipe", framework, *flags)
        assert printed.returncode == 0, printed.stderr
        assert len(printed.stdout.splitlines()) <= 26
        found = {**names, **trainer}
        exec(printed.stdout, found)  # noqa: S102
        if framework in ("torch", "accelerate"):
            seen = [len(inputs["size"]) for inputs in found["loader"]]
        assert (len(seen), sum(seen)) == (row["batches"], row["samples"])
        seen.clear()


def compared_in(run, *options):
    """The comparison of some lines in the results folder, and what a recipe then says."""
    assert run("profile", SAMPLE_DATA / "corpus.txt", "--no-plots").returncode == 0
    assert run("compare", *options, "--no-plots").returncode == 0


def test_a_recipe_is_for_what_compare_recommends(run, tmp_path):
    """Under the settings of the comparison, with what it means for the learning rate."""
    rows = ["--strategy", "static:batch_size=4", "--strategy", "token-budget:read_ahead=50"]
    options = ["--max-length", 300, "--tokens-per-batch", 2000, "--seed", 5, "--world-size", 2]
    compared_in(run, *rows, *options)
    printed = run("recipe")
    assert printed.stderr == (
        "recipe for token-budget:read_ahead=50, recommended by batchstat-results/compare.json\n"
    )
    compared = json.loads((tmp_path / "batchstat-results" / "compare.json").read_text())
    static, best = compared["strategies"]
    text = printed.stdout
    settings = ("tokens_per_batch=2000", "max_length=300", "seed=5")
    assert all(each in text for each in ('"token-budget:read_ahead=50"', *settings))
    ratio = best["samples"] / best["steps"] / (static["samples"] / static["steps"])
    assert compared["learning_rate"]["batch_ratio"] == pytest.approx(ratio)
    said = " ".join(line.removeprefix("# ") for line in text.splitlines()[:4])
    assert f"{ratio:.3g} times the samples of static:batch_size=4" in said
    assert f"by {ratio:.3g} (linear" in said
    assert f"by {ratio**0.5:.3g} (square root" in said


def test_options_that_agree_with_a_comparison_keep_its_recommendation(run):
    """With any option, the recipe was once for another strategy, without a word."""
    rows = ["--strategy", "static", "--strategy", "bucketed"]
    options = ["--world-size", 4, "--tokens-per-batch", 4096]
    compared_in(run, *rows, *options)
    plain, agreeing = (run("recipe", *each) for each in ([], options))
    assert plain.stdout == agreeing.stdout
    assert agreeing.stderr.startswith("recipe for bucketed, recommended by ")
    other = run("recipe", "--world-size", 4, "--read-ahead", 70)
    assert other.stderr == (
        "warning: recipe for bucketed, which batchstat-results/compare.json recommends for "
        "read_ahead=10000: run batchstat compare with these options to know what is best with "
        "them [recipe/other-settings]\n"
    )
    assert '"bucketed"' in other.stdout
    assert "read_ahead=70" in other.stdout
    assert "Recommended by" not in other.stdout
    named = run("recipe", "--strategy", "static")  # it is taken, and nothing of the comparison
    assert named.stderr == ""
    assert '"static"' in named.stdout
    assert "tokens_per_batch=4096" not in named.stdout
    assert "Recommended by" not in named.stdout


def test_settings_of_the_configuration_are_those_of_the_comparison(run, tmp_path):
    (tmp_path / "batchstat.toml").write_text("tokens-per-batch = 2000\n")
    compared_in(run, "--strategy", "packed")
    printed = run("recipe")
    assert "recipe for packed, recommended by" in printed.stderr
    assert "tokens_per_batch=2000" in printed.stdout
    (tmp_path / "batchstat-results" / "compare.json").unlink()
    printed = run("recipe")
    assert "recipe for token-budget, as batchstat-results has no comparison" in printed.stderr
    assert "tokens_per_batch=2000" in printed.stdout


def test_a_recipe_without_a_comparison_says_so(run, tmp_path):
    default = "recipe for token-budget, as batchstat-results has no"
    (tmp_path / "a.txt").write_text("some words\n")
    assert run("profile", "a.txt", "--no-plots").returncode == 0
    assert run("recipe").stderr.startswith(default)
    compared_in(run)
    other = (tmp_path / "batchstat-results" / "compare.json").read_bytes()
    assert run("profile", "a.txt", "--no-plots").returncode == 0
    assert run("recipe").stderr.startswith(default)
    (tmp_path / "batchstat-results" / "compare.json").write_bytes(other)
    assert run("recipe").stderr.startswith(default)


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"choice": {"current": "static", "best": None}}, "recommends no strategy"),
        ({"choice": {"current": "static", "best": "static:no"}}, "cannot be used"),
        ({"choice": {"best": "static"}}, "cannot be used"),
        ({"choice": []}, "cannot be used"),
        ({"basis": {}}, "cannot be used"),
        ({"learning_rate": None}, "cannot be used"),
        ({"schema": "batchstat.compare/1"}, "cannot be used"),
        (
            {"choice": {"current": "static", "best": "asym", "argument": None}},
            "which Trainer does not support",
        ),
    ],
)
def test_a_comparison_that_recommends_nothing(run, tmp_path, changes, message):
    compared_in(run)
    path = tmp_path / "batchstat-results" / "compare.json"
    path.write_text(json.dumps(json.loads(path.read_text()) | changes))
    ended = run("recipe", "trainer")
    assert ended.returncode == 3
    assert ended.stderr.splitlines()[-1].startswith("error: batchstat-results/compare.json ")
    assert message in ended.stderr
    assert "with --strategy" in ended.stderr
