"""Recorded batches against what the collate functions of the same trainings logged."""

import secrets
import sys
from collections import Counter
from pathlib import Path

import pytest
from recordings import Recorded, record_case, record_on_two_ranks, run_case

import batchstat
from batchstat.recording.recorded_batches import number_dispatched
from conftest import needs

for _library in ("transformers", "trl", "accelerate", "lightning", "torchdata"):
    needs(_library)
cases = needs("cases")

pytestmark = pytest.mark.torch

CASES = [*cases.TRAINERS, *cases.LOOPS]
UNORDERED = {"workers", "loader workers"}
"""Cases whose workers log in a sequence of their own."""
LONGER = {"stream", "trainer"}
"""Cases that collate more: what a loader prefetched, and an evaluation at the end."""
TORCHRUN = (sys.executable, "-m", "torch.distributed.run", "--nproc-per-node", "2")


@pytest.fixture(autouse=True)
def _same_key_and_folder(monkeypatch, tmp_path):
    monkeypatch.setattr(secrets, "token_bytes", bytes)
    monkeypatch.setenv("OWN_LOG", str(tmp_path / "log"))
    monkeypatch.chdir(tmp_path)


def check(case: str, recorded: Recorded, rank: int = 0) -> None:
    mine, own = recorded.batches(rank), recorded.collated(rank)
    if case in UNORDERED:
        mine, own = sorted(mine), sorted(own)
    if case in LONGER:
        own = own[: len(mine)]
    assert mine
    assert mine == own
    if case not in UNORDERED:
        logged = [line.get("trained") for line in recorded.logged(rank)][: len(mine)]
        for found, expected in zip(recorded.trained(rank), logged, strict=True):
            assert expected is None or found == expected


@pytest.mark.parametrize("case", CASES)
def test_each_batch_as_it_was_collated_and_in_a_dry_run(case, tmp_path, capsys):
    for folder in ("full", "dry"):
        (tmp_path / folder).mkdir()
    full = record_case(case, tmp_path / "full")
    assert "\nrun  " in f"\n{capsys.readouterr().out}"
    dry = record_case(case, tmp_path / "dry", dry_run=True)
    epoch = [each for each in full.recorded() if each.epoch == full.recorded()[0].epoch]
    assert len(epoch) == len(dry.recorded())
    for a, b in zip(epoch, dry.recorded(), strict=True):
        assert [vars(part) for part in a.parts] == [vars(part) for part in b.parts]
        assert (a.step, a.numbers, a.digests) == (b.step, b.numbers, b.digests)
    check(case, full)  # which settles what only all batches tell


def check_ranks(case: str, recorded: Recorded) -> None:
    """The batches of two ranks are those that were collated, and have every sample."""
    assert [rank.rank for rank in recorded.recording.ranks] == [0, 1]
    for rank in (0, 1):
        if case == "dispatcher":  # its first rank collates, and cuts in two
            assert len(recorded.batches(rank)) == len(recorded.collated(0))
        else:
            check(case, recorded, rank)
    assert recorded.recording.wait == "step"  # transformers and accelerate take no_sync
    samples = samples_of(recorded)
    evaluated = 8 if case == "trainer" else 0
    if case != "bfd":  # of whose rows several are laid end to end
        ranks = (0,) if case == "dispatcher" else (0, 1)
        rows = [len(real) for rank in ranks for _, real in recorded.collated(rank)]
        assert sum(samples.values()) == sum(rows) - evaluated * len(ranks)
    assert sorted(samples) == list(range(len(samples)))


def test_each_batch_of_two_ranks_that_torchrun_starts(tmp_path):
    check_ranks("accelerate", run_case("accelerate", tmp_path, launcher=TORCHRUN))


def test_each_batch_of_two_ranks(warm_python, tmp_path):
    """Dry as well, of a loop of a Trainer's and of one of the script's own."""
    whole = ["trainer", "bfd", "dispatcher"]
    dry = ["trainer", "dispatcher"]
    tried = [
        *((case, case, False) for case in whole),
        *((case, f"dry {case}", True) for case in dry),
    ]
    record_on_two_ranks(warm_python, tmp_path, tried)
    for case in whole:
        check_ranks(case, Recorded(tmp_path / case))
    for case in dry:
        recorded, dry_run = Recorded(tmp_path / case), Recorded(tmp_path / f"dry {case}")
        assert samples_of(dry_run) == samples_of(recorded)
        for rank in (0, 1):
            assert dry_run.batches(rank) == recorded.batches(rank)


def samples_of(recorded: Recorded) -> Counter[int]:
    ranks = number_dispatched(recorded.recording.ranks)
    batches = [batch for rank in ranks for batch in rank.batches]
    return Counter(n for batch in batches for part in batch.numbers or () for n in part)


class WithStep:
    """A trainer of the user's own, whose step does more."""

    def training_step(self, *args, **kwargs):
        Path("stepped").write_text("")
        return super().training_step(*args, **kwargs)


def test_a_step_of_the_users_own_is_not_computed_in_a_dry_run(tmp_path):
    from transformers import Trainer

    own = type("Own", (WithStep, Trainer), {})
    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        cases.trainer(own).train()
    assert len(run.recording.ranks[0].batches) == 11
    assert not Path("stepped").exists()


def test_a_dry_run_writes_nothing_but_what_callbacks_of_the_user_write(tmp_path):
    from transformers import TrainerCallback

    class Callback(TrainerCallback):
        def on_step_end(self, *_, **__):
            with Path("called").open("a") as file:
                file.write(".")

    keys = {"save_strategy": "steps", "eval_strategy": "steps", "save_steps": 2, "eval_steps": 2}
    with batchstat.record(tmp_path / "run", dry_run=True):
        made = cases.trainer(**keys, load_best_model_at_end=True, logging_steps=1)
        made.add_callback(Callback)
        made.train()
        raise AssertionError("the block goes on")
    assert Path("called").read_text() == "." * 11
    assert not [path for path in Path("out").rglob("*") if path.is_file()]


def test_every_function_is_put_back(tmp_path):
    import torch
    from torch.optim import optimizer
    from transformers import Trainer

    def patched():
        loader = torch.utils.data.dataloader._BaseDataLoaderIter
        return [
            (owner, name, vars(owner).get(name))
            for owner, names in (
                (torch.nn.Module, ("__call__", "zero_grad", "to", "cuda")),
                (torch.autograd, ("backward",)),
                (torch.amp.GradScaler, ("step",)),
                (loader, ("_next_index", "__next__")),
                (Trainer, ("train", "training_step", "_clip_grad_norm")),
            )
            for name in names
        ] + [len(optimizer._global_optimizer_post_hooks), list(sys.meta_path)]

    before = patched()
    with batchstat.record(tmp_path / "run"):
        assert patched() != before
        cases.train("tuple")
    assert patched() == before
    with batchstat.record(tmp_path / "dry", dry_run=True):
        cases.train("trainer")
    assert patched() == before
    with pytest.raises(KeyError), batchstat.record(tmp_path / "failed"):
        cases.train("no such case")
    assert patched() == before


def test_losses_are_the_same_to_the_bit(tmp_path):
    def losses():
        made = cases.trainer(logging_steps=1)
        made.train()
        return [line["loss"] for line in made.state.log_history if "loss" in line]

    plain = losses()
    with batchstat.record(tmp_path / "run"):
        recorded = losses()
    assert recorded == plain
    assert len(plain) == 11


def test_the_second_training_is_counted(tmp_path):
    with batchstat.record(tmp_path / "run") as run:
        cases.trainer().train()
        cases.trainer(per_device_train_batch_size=8).train()
    assert len(run.recording.ranks[0].batches) == 11
    warnings = [each.message for each in run.report.warnings]
    assert "train() was called 2 times: this is the first" in warnings


def test_arguments_of_any_kind_are_written_down(tmp_path, monkeypatch):
    from transformers import TrainingArguments

    plain = TrainingArguments.to_dict
    odd = {"folder": Path("data"), "warmup_ratio": None}
    monkeypatch.setattr(TrainingArguments, "to_dict", lambda self: {**plain(self), **odd})
    with batchstat.record(tmp_path / "run") as run:
        cases.train("trainer")
    assert run.recording.ranks[0].trainer["arguments"]["folder"] == "data"
    assert run.report.simulation.row.counts.batches == 11


def test_a_callback_that_asks_for_a_checkpoint_gets_none_in_a_dry_run(tmp_path):
    from transformers import TrainerCallback

    class Asks(TrainerCallback):
        def on_step_end(self, _args, _state, control, **_):
            control.should_save = control.should_evaluate = control.should_log = True

    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        made = cases.trainer(eval_strategy="epoch")
        made.add_callback(Asks)
        made.train()
    assert len(run.recording.ranks[0].batches) == 11
    assert not [path for path in Path("out").rglob("*") if path.is_file()]


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(
    ("case", "loss"), [("trainer", True), ("sequence to sequence", False), ("preferences", False)]
)
def test_a_loss_is_ok_only_where_the_model_uses_what_it_is_given(case, loss, dry, tmp_path):
    """T5 is given the number of trained tokens, and takes the mean of its batch all the same; that
    of preferences is of whole answers.
    """
    with batchstat.record(tmp_path / "run", dry_run=dry) as run:
        cases.train(case)
    assert {batch.is_counted for batch in run.recording.ranks[0].batches} == {loss}
    weighed = run.report.simulation.row.request.settings.loss == "num-items-in-batch"
    assert weighed == loss


def test_training_goes_on_without_a_recorder_that_fails(monkeypatch, capsys):
    from batchstat.recording.recorder import trainers

    monkeypatch.setattr(trainers, "facts_of", lambda _: 1 / 0)
    made = cases.trainer()
    with pytest.warns(UserWarning, match="nothing was recorded"), batchstat.record("full"):
        made.train()
    assert made.state.global_step == 11
    assert "batchstat: not recording any more: ZeroDivisionError" in capsys.readouterr().err
    made = cases.trainer()
    with pytest.warns(UserWarning, match="nothing was"), batchstat.record("dry", dry_run=True):
        made.train()
    assert made.state.global_step == 0


def test_what_would_help_is_padded_to_the_multiple_of_the_collator(tmp_path):
    with batchstat.record(tmp_path / "run") as run:
        cases.sft(max_length=64, pad_to_multiple_of=16).train()
    assert {
        part.width % 16 for batch in run.recording.ranks[0].batches for part in batch.parts
    } == {0}
    assert run.report.changes.star.row.request.settings.pad_to_multiple_of == 16


@pytest.mark.parametrize("dry", [False, True])
@pytest.mark.parametrize(("steps", "per_step"), [(2, 1), (2, 4), (11, 1), (12, 1)])
def test_max_steps_is_no_epoch(steps, per_step, dry, tmp_path, capsys):
    """An epoch has 42 samples in 11 batches."""
    with batchstat.record(tmp_path / "run", dry_run=dry) as run:
        cases.trainer(max_steps=steps, gradient_accumulation_steps=per_step).train()
    printed = " ".join("".join(capsys.readouterr()).split())
    per_epoch = -(-11 // per_step)
    assert run.report.steps_per_epoch == per_epoch
    assert run.report.total_steps == steps
    assert run.report.epochs == steps / per_epoch
    samples = len(cases.TEXTS)
    assert run.report.trained_samples == min(samples, steps * per_step * 4)
    in_epoch = min(11, 11 if dry else steps * per_step)
    assert run.report.simulation.row.counts.batches == in_epoch
    is_part = in_epoch < 11
    assert (f"{in_epoch * 4} of {samples} samples recorded" in printed) == is_part
    ids = [each.id for each in run.report.warnings]
    assert ("recording/part-of-epoch" in ids) == is_part
    assert ("schedule/part-of-epoch" in ids) == (steps < per_epoch)


def test_a_dry_run_of_a_stream_is_less_than_an_epoch(tmp_path, capsys):
    with batchstat.record(tmp_path / "run", dry_run=True) as run:
        cases.trainer(max_steps=3, streams=True).train()
    assert run.report.simulation.row.counts.batches == 3
    printed = " ".join("".join(capsys.readouterr()).split())
    assert "less than an epoch: max_steps=3 ends a stream without a length" in printed
    assert "steps 3 of 3 batches · " in printed


@pytest.mark.parametrize(
    ("arguments", "what"),
    [
        ({"accelerator_config": {"split_batches": True}}, "split_batches=True"),
        ({"accelerator_config": {"dispatch_batches": True}}, "dispatch_batches=True"),
        (
            {
                "accelerator_config": {"even_batches": False},
                "train_sampling_strategy": "group_by_length",
            },
            "even_batches=false with group_by_length",
        ),
    ],
)
def test_what_was_observed_is_not_refused(arguments, what, tmp_path):
    arguments = {"max_steps": 5, **arguments}
    with batchstat.record(tmp_path / "run") as run:
        cases.trainer(**arguments).train()
    for report in (run.report, batchstat.preflight(cases.trainer(**arguments))):
        assert (report.total_steps, report.steps_per_epoch) == (5, 11)
        unknown = [each.message for each in report.warnings if each.id == "config/unknown-keys"]
        assert len(unknown) == 1
        assert f"{what} is not modelled" in unknown[0]
        assert not [each for each in report.changes.ranked if each.keys]
    assert batchstat.measure(tmp_path / "run").counts.steps == 5


def test_a_loader_that_a_trainer_has_is_read_for_an_epoch(capsys):
    def own_collator(rows):
        width = max(len(row["input_ids"]) for row in rows)
        ids = [row["input_ids"] + [0] * (width - len(row["input_ids"])) for row in rows]
        mask = [[1] * len(row["input_ids"]) + [0] * (width - len(row["input_ids"])) for row in rows]
        return {"input_ids": cases.torch.tensor(ids), "attention_mask": cases.torch.tensor(mask)}

    for options, batches in (({}, 11), ({"steps": 3}, 3)):
        trainer = cases.trainer(max_steps=2)
        trainer.data_collator = own_collator
        report = batchstat.preflight(trainer, **options)
        assert report.simulation.row.counts.batches == batches
        assert (report.steps_per_epoch, report.total_steps, report.trained_samples) == (11, 2, 8)
    stream = cases.trainer(max_steps=2, streams=True)
    stream.data_collator = own_collator
    capsys.readouterr()
    report = batchstat.preflight(stream)
    assert "steps 2 of 2 batches" in " ".join(capsys.readouterr().out.split())
    assert "recording/part-of-epoch" in [each.id for each in report.warnings]
