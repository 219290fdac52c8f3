"""Runs whose samples are made of rows, each against what its model is given."""

import contextlib
import random
import warnings
from collections import Counter
from io import StringIO

import pytest
from rich.console import Console

import batchstat
from batchstat.documents.preflight import preflight_document
from batchstat.render.screens.preflight import preflight_screen
from batchstat.trainers.preflight.current import observe_folder, training_of_observed
from batchstat.trainers.preflight.preflight import report_on
from conftest import needs

torch = needs("torch")

pytestmark = pytest.mark.torch
nn = torch.nn

RNG = random.Random(1)
TEXTS = [[RNG.randint(1, 49)] * RNG.randint(3, 60) for _ in range(42)]
PASSAGES = [[RNG.randint(1, 49)] * RNG.randint(30, 90) for _ in range(42)]


class Tower(nn.Module):
    """Embeds rows, and counts what it is given where gradients are on."""

    def __init__(self, counts):
        super().__init__()
        self.embed, self.counts = nn.Embedding(50, 4, padding_idx=0), counts

    def forward(self, input_ids):
        self.counts.update(batches=1, rows=len(input_ids), total_tokens=input_ids.numel())
        self.counts.update(real_tokens=int((input_ids != 0).sum()))
        return self.embed(input_ids).sum(1)


def padded(rows, width=0):
    width = width or max(map(len, rows))
    return torch.tensor([row + [0] * (width - len(row)) for row in rows])


def collator(form, width):
    return {
        "halves": lambda batch: padded([TEXTS[i] for i in batch] * 2, width),
        "side by side": lambda batch: padded([TEXTS[i] for i in batch for _ in range(2)], width),
        "two forwards": lambda batch: padded([TEXTS[i] for i in batch], width),
        "two towers": lambda batch: {
            "query": padded([TEXTS[i] for i in batch], width),
            "passage": padded([PASSAGES[i] for i in batch], width and 2 * width),
        },
    }[form]


def embedded(form, model, other, batch):
    if form == "halves":
        return model(batch).chunk(2)
    if form == "side by side":
        rows = model(batch)
        return rows[::2], rows[1::2]
    if form == "two forwards":
        return model(batch), model(batch)
    passages = other(batch["passage"])  # the one whose ids are not the first of the batch
    return model(batch["query"]), passages


def train(folder, form, *, accumulate=1, width=0, stream=False, **options):
    """Train and record an epoch; return what the models were given."""
    counts = Counter()
    model, other = Tower(counts), Tower(counts)
    optimizer = torch.optim.SGD([*model.parameters(), *other.parameters()], 0.1)
    data = list(range(len(TEXTS)))

    class Stream(torch.utils.data.IterableDataset):
        def __iter__(self):
            return iter(data)

    loader = torch.utils.data.DataLoader(
        Stream() if stream else data, 7, shuffle=not stream, collate_fn=collator(form, width)
    )
    recorded = warnings.catch_warnings()
    with recorded, contextlib.suppress(SystemExit), batchstat.record(folder, **options):
        warnings.simplefilter("ignore")
        for number, batch in enumerate(loader, 1):
            one, two = embedded(form, model, other, batch)
            scores = one @ two.T
            nn.functional.cross_entropy(scores, torch.arange(len(scores))).backward()
            if number % accumulate == 0:
                optimizer.step()
                optimizer.zero_grad()
    return counts


def report_of(folder):
    return report_on(training_of_observed(observe_folder(folder), {}))


def shown(report):
    """The screen, on one line."""
    console = Console(width=100, file=StringIO())
    console.print(preflight_screen(report, lambda change: change.line))
    return " ".join(console.file.getvalue().split())


FORMS = ("halves", "side by side", "two forwards", "two towers")


@pytest.mark.parametrize("stream", [False, True], ids=["", "stream"])
@pytest.mark.parametrize("form", FORMS)
def test_views_are_rows_of_one_sample(form, stream, tmp_path):
    told = train(tmp_path / "run", form, accumulate=2, stream=stream)
    report = report_of(tmp_path / "run")
    counts = report.simulation.row.counts
    assert {name: getattr(counts, name) for name in told} == told
    assert (counts.samples, counts.steps) == (42, 3)
    assert report.simulation.basis.gradient_accumulation_steps == 2
    assert report.profile.rows.kind == "view"
    second = PASSAGES if form == "two towers" else TEXTS
    pairs = sorted((len(a), len(b)) for a, b in zip(TEXTS, second, strict=True))
    rows = report.profile.rows.lengths
    assert sorted(map(sorted, rows.tolist())) == sorted(map(sorted, pairs))
    # Whatever is compared with other rows of its batch must stay with these.
    assert not report.changes.ranked
    assert "data 42 samples in 2 views each recorded" in shown(report)
    assert "its loss may compare the rows of a batch" in shown(report)


@pytest.mark.parametrize("form", FORMS)
def test_a_dry_run_reads_all_views(form, tmp_path):
    train(tmp_path / "dry", form, dry_run=True)
    counts = report_of(tmp_path / "dry").simulation.row.counts
    assert (counts.samples, counts.rows, counts.steps) == (42, 84, 6)


@pytest.mark.parametrize("form", FORMS)
def test_padding_of_views_to_a_width_is_taken_out(form, tmp_path):
    told = train(tmp_path / "fixed", form, width=64)
    star = report_of(tmp_path / "fixed").changes.star
    assert star.row.label == "static"
    # In the same batches, as the run without a width has them.
    torch.manual_seed(0)
    train(tmp_path / "fixed2", form, width=64)
    promised = report_of(tmp_path / "fixed2").changes.star.row.counts.total_tokens
    torch.manual_seed(0)
    assert train(tmp_path / "longest", form)["total_tokens"] == promised < told["total_tokens"]


def test_losses_of_two_batches_that_are_added_up_are_no_views(tmp_path):
    counts = Counter()
    model = Tower(counts)
    optimizer = torch.optim.SGD(model.parameters(), 0.1)
    loader = torch.utils.data.DataLoader(TEXTS, 7, collate_fn=padded)
    with batchstat.record(tmp_path / "run"):
        batches = iter(loader)
        for one, two in zip(batches, batches, strict=True):
            (model(one).sum() + model(two).sum()).backward()
            optimizer.step()
    report = report_of(tmp_path / "run")
    assert report.profile.rows is None
    assert report.simulation.row.counts.samples == 42


# --- trainers of TRL ------------------------------------------------------------------------------
def tokenizer_of(words):
    from tokenizers import Tokenizer, models, pre_tokenizers
    from transformers import PreTrainedTokenizerFast

    vocabulary = {word: number for number, word in enumerate(["<pad>", "<eos>", *words])}
    made = Tokenizer(models.WordLevel(vocabulary, "<pad>"))
    made.pre_tokenizer = pre_tokenizers.Whitespace()
    return PreTrainedTokenizerFast(tokenizer_object=made, pad_token="<pad>", eos_token="<eos>")


WORDS = [f"w{number}" for number in range(30)]
OPTIONS = {"report_to": [], "use_cpu": True, "bf16": False, "disable_tqdm": True}
OPTIONS |= {"save_strategy": "no", "num_train_epochs": 1, "per_device_train_batch_size": 4}


def text(most):
    return " ".join(RNG.choices(WORDS, k=RNG.randint(2, most)))


def preference_trainer(kind, folder, counts):
    """A trainer of 40 pairs, whose model counts what it is given."""
    import trl
    from datasets import Dataset
    from transformers import GPT2Config, GPT2ForSequenceClassification, GPT2LMHeadModel

    tokenizer = tokenizer_of(WORDS)
    config = GPT2Config(
        n_layer=1,
        n_head=1,
        n_embd=8,
        vocab_size=len(tokenizer),
        n_positions=128,
        num_labels=1,
        pad_token_id=0,
    )
    RNG.seed(3)
    rows = [
        {"prompt": text(5), "chosen": " " + text(60), "rejected": " " + text(60)} for _ in range(40)
    ]
    more = {}
    if kind == "DPO":
        more = {"ref_model": GPT2LMHeadModel(config)}
    model = (GPT2LMHeadModel if kind == "DPO" else GPT2ForSequenceClassification)(config)
    arguments = getattr(trl, f"{kind}Config")(str(folder), gradient_checkpointing=False, **OPTIONS)
    made = getattr(trl, f"{kind}Trainer")(
        model,
        args=arguments,
        train_dataset=Dataset.from_list(rows),
        processing_class=tokenizer,
        **more,
    )
    original = made.model.forward

    def forward(*args, **kwargs):
        if torch.is_grad_enabled():
            ids, mask = kwargs["input_ids"], kwargs["attention_mask"]
            counts.update(batches=1, rows=len(ids), total_tokens=ids.numel())
            counts.update(real_tokens=int(mask.sum()))
        return original(*args, **kwargs)

    made.model.forward = forward
    return made


@pytest.mark.parametrize("kind", ["DPO", "Reward"])
def test_pairs_save_what_is_promised(kind, tmp_path):
    needs("trl")
    told = Counter()
    trainer = preference_trainer(kind, tmp_path, told)
    of_object = batchstat.preflight(trainer)
    with batchstat.record(tmp_path / "run"):
        trainer.train()
    assert told["rows"] == 80
    report = report_of(tmp_path / "run")
    for each in (report, of_object):
        counts = each.simulation.row.counts
        assert {name: getattr(counts, name) for name in told} == told
        assert (counts.samples, counts.steps) == (40, 10)
        assert (each.profile.rows.kind, each.samples_per_step) == ("pair", 4)
    assert "data 40 pairs (80 rows) recorded" in shown(report)
    assert "trained/unmarked" not in [finding.id for finding in report.warnings]
    found = batchstat.compare(current=str(tmp_path / "run"))
    assert found.current.counts == report.simulation.row.counts
    assert "padding/unequal-peak" not in [finding.id for finding in found.warnings]
    # No argument of the trainer knows the length of a pair.
    changes = [change for change in report.changes.ranked if change.row.name == "bucketed"]
    assert all(change.keys is None for change in report.changes.ranked)
    # Trained as it is advised, by a batch sampler of the longest rows of the data set's pairs.
    counted = Counter()
    changed = preference_trainer(kind, tmp_path, counted)
    batch = [changed.data_collator([example]) for example in changed.train_dataset]
    longest = [int(each["attention_mask"].sum(1).max()) for each in batch]
    sampler = batchstat.BatchSampler(longest, "bucketed", batch_size=4)
    changed.get_train_dataloader = lambda: torch.utils.data.DataLoader(
        changed.train_dataset, batch_sampler=sampler, collate_fn=changed.data_collator
    )
    changed.train()
    [change] = changes
    measured = told["total_tokens"] / counted["total_tokens"]
    assert counted["total_tokens"] == change.row.counts.total_tokens
    assert change.speed_up == pytest.approx(measured)


def test_prompts_of_a_group_are_counted_and_nothing_is_promised(tmp_path):
    needs("trl")
    from datasets import Dataset
    from transformers import GPT2Config, GPT2LMHeadModel
    from trl import GRPOConfig, GRPOTrainer

    tokenizer = tokenizer_of(WORDS)
    config = GPT2Config(n_layer=1, n_head=1, n_embd=8, vocab_size=32, n_positions=64)
    arguments = GRPOConfig(
        str(tmp_path),
        num_generations=2,
        gradient_accumulation_steps=2,
        max_completion_length=5,
        gradient_checkpointing=False,
        **OPTIONS,
    )
    trainer = GRPOTrainer(
        GPT2LMHeadModel(config),
        reward_funcs=lambda completions, **_: [float(len(each)) for each in completions],
        args=arguments,
        train_dataset=Dataset.from_list([{"prompt": text(9)} for _ in range(8)]),
        processing_class=tokenizer,
    )
    with batchstat.record(tmp_path / "run"):
        trainer.train()
    report = report_of(tmp_path / "run")
    assert (report.observed.per_prompt, report.samples_per_step) == (2, 8)  # of 4 prompts
    assert not report.changes.ranked
    assert "4 prompts of 2 completions and" in shown(report)
    assert "Completions are generated" in shown(report)
    document = preflight_document(report)
    assert document["samples"]["rows_are"] == "group"
    assert document["samples"]["rows_per_sample"] == 2
