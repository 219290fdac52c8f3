"""What a report advises can be done, and brings what it promises: every printed change of random
setups is applied by hand, read again and measured.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import batchstat
from batchstat.render.printed import screen_of
from batchstat.trainers.preflight.report import Preflight
from batchstat.trainers.registry import CONFIGURATIONS
from conftest import needs

WIDTH = 64


def lengths_of(seed: int, number: int = 240) -> list[int]:
    return np.random.default_rng(seed).integers(4, 60, number).tolist()


def loaded(lengths: list[int], size: int, width: int | None, labels: str) -> Iterator[Any]:
    """Batches as a loop has them, of rows padded to `width`, or to the longest of a batch."""
    for start in range(0, len(lengths), size):
        rows = lengths[start : start + size]
        mask = np.array([[1] * n + [0] * ((width or max(rows)) - n) for n in rows])
        batch = {"input_ids": 7 * mask, "attention_mask": mask}
        if labels == "tokens":
            batch["labels"] = np.where(mask, 7, -100)
        elif labels == "rows":
            batch["labels"] = np.ones(len(rows), dtype=int)
        yield batch


def shown(report: Preflight) -> str:
    from rich.console import Console

    with (console := Console(width=400)).capture() as captured:
        console.print(screen_of(report))
    return captured.get()


@pytest.mark.parametrize("labels", ["tokens", "rows", ""])
@pytest.mark.parametrize("width", [None, WIDTH])
@pytest.mark.parametrize("accumulation", [1, 4])
def test_every_change_of_a_loop_says_what_its_loader_has_to_do(capsys, labels, width, accumulation):
    lengths, size = lengths_of(seed=accumulation), 4
    batches = [*loaded(lengths, size, width, labels)]
    report = batchstat.preflight(batches, gradient_accumulation_steps=accumulation)
    said = ("no labels of tokens" in capsys.readouterr().err) == (labels == "")
    assert said, "of a classifier, nothing is said of labels of tokens"
    screen, changes = shown(report), report.changes
    # Nothing but taking padding out can be written as a line, so nothing else is starred.
    assert (changes.star is not None) == (width is not None)
    if changes.star is not None:
        assert changes.star.line == "pad to the longest row of a batch where you collate"
        applied = batchstat.measure([*loaded(lengths, size, None, labels)])
        assert applied.counts.padding_ratio == changes.star.row.counts.padding_ratio
    assert changes.in_loader is not None
    assert "your loader has to make batches" in screen.replace("Your", "your")
    assert ("First pad to the longest row" in screen) == (width is not None)
    # What the sentence says, done by hand: samples of similar lengths share a batch.
    done = batchstat.measure([*loaded(sorted(lengths), size, None, labels)])
    promised = changes.in_loader.row.counts.padding_ratio
    assert done.counts.padding_ratio == pytest.approx(promised, abs=0.01)
    # Sorted alone, rows of one width stay as wide as they are.
    assert batchstat.measure(
        [*loaded(sorted(lengths), size, width, labels)]
    ).counts.total_tokens >= (done.counts.total_tokens)


def test_rows_of_one_forward_each_cost_time():
    lengths = lengths_of(seed=5, number=32)
    single = batchstat.preflight(
        [*loaded(lengths, 1, None, "tokens")], gradient_accumulation_steps=8
    )
    assert "each forward computes one row, which costs time, not padding" in shown(single)
    pairs = batchstat.preflight(
        [*loaded(lengths, 2, None, "tokens")], gradient_accumulation_steps=8
    )
    assert "computes one row" not in shown(pairs)


def test_the_script_is_not_told_to_sort_a_stream():
    class IterableDataset:
        """As those of torch and datasets are called."""

    class Loader(list):  # type: ignore[type-arg]
        dataset = IterableDataset()

    for width in (None, WIDTH):
        report = batchstat.preflight(Loader(loaded(lengths_of(seed=2), 4, width, "tokens")))
        screen = shown(report)
        assert "StreamBatcher" in screen
        assert "bucketed" not in screen
        assert "sampler" not in screen
        assert ("pad to the longest row" in screen) == (width is not None)


# --- the Trainer ---------------------------------------------------------------------------------
LINES = {
    "default, labels of tokens": ("default", "tokens", "DataCollatorForSeq2Seq"),
    "default, labels of rows": ("default", "rows", "DataCollatorWithPadding"),
    "with a tokenizer": ("tokenizer", "tokens", "DataCollatorForSeq2Seq"),
    "a language model's": ("language", "tokens", "remove the column labels"),
}


@pytest.mark.torch
@pytest.mark.parametrize("case", LINES)
def test_a_collator_that_cannot_pad_is_replaced_and_the_lines_hold(tmp_path: Path, case: str):
    needs("torch")
    needs("transformers")
    import transformers
    from datasets import Dataset
    from tokenizers import Tokenizer, models

    which, labels, named = LINES[case]
    words = {str(number): number for number in range(100)}
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer(models.WordLevel(words, "99")), pad_token="99"
    )
    shape = {"vocab_size": 100, "hidden_size": 8, "num_hidden_layers": 1, "num_attention_heads": 1}
    kind = "GPT2LMHeadModel" if labels == "tokens" else "BertForSequenceClassification"
    config = transformers.GPT2Config(vocab_size=100, n_embd=8, n_layer=1, n_head=1)
    if labels == "rows":
        config = transformers.BertConfig(**shape, intermediate_size=8)
    model = getattr(transformers, kind)(config)

    def trainer_on(
        width: int, collator: Any = None, columns: tuple[str, ...] = (), **keys: Any
    ) -> Any:
        rows = []
        for n in lengths_of(seed=1):
            pad = max(width - n, 0)
            row = {"input_ids": [7] * n + [99] * pad, "attention_mask": [1] * n + [0] * pad}
            row["labels"] = [7] * n + [-100] * pad if labels == "tokens" else n % 2
            rows.append(row)
        given = {"processing_class": tokenizer} if which == "tokenizer" else {}
        if which == "language":
            collator = transformers.DataCollatorForLanguageModeling(tokenizer, mlm=False)
        return transformers.Trainer(
            model,
            transformers.TrainingArguments(
                str(tmp_path), per_device_train_batch_size=4, report_to=[], use_cpu=True, **keys
            ),
            train_dataset=Dataset.from_list(rows).remove_columns([*columns]),
            data_collator=collator,
            **given,
        )

    report = batchstat.preflight(trainer_on(WIDTH))
    star = report.changes.star
    assert star is not None
    assert named in star.line
    assert "data_collator" not in star.line or f"data_collator={named}(tokenizer)" in star.line
    # The padding taken out alone: the collator of today fails.
    with pytest.raises(ValueError, match="expected sequence|Unable to create tensor"):
        next(iter(trainer_on(0).get_train_dataloader()))
    collator = getattr(transformers, named)(tokenizer) if "data_collator" in star.line else None
    assert 'TrainingArguments(train_sampling_strategy="group_by_length")' in star.line
    grouped = trainer_on(
        0, collator, ("labels",) if which == "language" else (), **dict(star.keys or {})
    )
    done = batchstat.measure([*grouped.get_train_dataloader()])
    assert done.counts.padding_ratio == pytest.approx(star.row.counts.padding_ratio, abs=0.01)
    # The trainer now draws its groups without a seed, which is said.
    assert any(each.id == "order/unseeded-groups" for each in batchstat.preflight(grouped).warnings)


@pytest.mark.parametrize("version", ["4.40.2", "4.46.0", "4.47.1", "5.24.0", ""])
@pytest.mark.parametrize("loss", ["axolotl", "num-items-per-rank", "num-items-in-batch"])
@pytest.mark.parametrize("ranks", [1, 2])
@pytest.mark.parametrize("accumulation", [1, 16])
def test_a_repair_of_the_loss_exists_and_keeps_the_step(version, loss, ranks, accumulation):
    """Of one row and 16 batches a step, not one row and one batch."""
    settings = batchstat.Settings(
        batch_size=1, gradient_accumulation_steps=accumulation, world_size=ranks, loss=loss
    ).resolve(longest=9, stated_max=None)
    said = CONFIGURATIONS["transformers"].weight_remedy(settings, version)
    assert ("average_tokens" in said) == (
        loss == "num-items-per-rank" and version not in ("4.40.2", "4.46.0")
    )
    assert ("compute_loss_func" in said) == (loss == "axolotl" and version != "4.40.2")
    is_one_batch = loss == "axolotl" and ranks == 1 and accumulation > 1
    assert ("per_device_train_batch_size=16, gradient_accumulation_steps=1" in said) == is_one_batch
    assert bool(said) == said.endswith(" repairs it")
