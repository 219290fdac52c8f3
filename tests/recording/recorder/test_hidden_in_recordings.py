"""A secret in each place of a command and of a Trainer's arguments: it is in nothing written."""

import json
from pathlib import Path

import pytest

from batchstat.recording.recording import read_recording
from batchstat.recording.run_facts import run_facts
from conftest import Run, needs
from written import batch, begin, step, write

pytestmark = pytest.mark.torch

CANARY = "S3cretZq9"
OPTIONS = (
    *("--hub_token", f"hf_{CANARY}", f"--api-key={CANARY}", "--password", f"a {CANARY}"),
    *(f"KEY={CANARY}", f"trainer.hf_token={CANARY}", f"https://u:{CANARY}@h/x?token={CANARY}"),
    *("--config", json.dumps({"model": {"token": CANARY}}), f"ghp_{CANARY}", "--pad_token", "<p>"),
)
TRAIN = f"""
import sys
import torch, transformers, trl
assert sum({CANARY!r} in word for word in sys.argv) == 8, sys.argv
class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.embed = torch.nn.Embedding(9, 1)
    def forward(self, input_ids, attention_mask, labels=None):
        return {{"loss": (self.embed(input_ids) * attention_mask[..., None]).mean()}}
def collate(rows):
    width = max(rows)
    ids = torch.tensor([[1] * n + [0] * (width - n) for n in rows])
    return {{"input_ids": ids, "attention_mask": (ids > 0).long()}}
arguments = trl.SFTConfig(
    "out", report_to=[], use_cpu=True, save_strategy="no", remove_unused_columns=False,
    per_device_train_batch_size=4, num_train_epochs=1, bf16=False, pad_token="<p>",
    gradient_checkpointing=False,
    hub_token={CANARY!r}, optim_args="key={CANARY}", dataset_kwargs={{"token": {CANARY!r}}},
    model_init_kwargs={{"a": {{"api_key": {CANARY!r}}}, "url": "https://u:{CANARY}@h/x"}},
)
rows = [1 + n % 7 for n in range(40)]
transformers.Trainer(Model(), arguments, train_dataset=rows, data_collator=collate).train()
"""


def test_a_secret_in_each_place_is_in_nothing_written(tmp_path: Path, run: Run, capfd):
    needs("trl")
    (tmp_path / "code").mkdir()
    script = tmp_path / "code/train.py"
    script.write_text(TRAIN)
    work = tmp_path / "work"
    work.mkdir()
    current = ("--current", "rec")
    for typed, code in (
        (("run", "--dry-run", "-o", "rec", script, *OPTIONS), 0),
        (("run", "-o", "rec", script, "other"), 3),  # it says which recording is there
        (("run", f"HF_TOKEN={CANARY}", script), 3),
        (("measure", "rec"), 0),
        (("compare", *current, "--no-plots", "--html", "page.html"), 0),
        (("check", *current, "--max-padding", "90%", "--format", "junit=j.xml"), 0),
        (("check", *current, "--max-padding", "90%", "--format", "markdown=c.md"), 0),
        (("check", *current, "--max-padding", "90%", "--format", "json=check.json"), 0),
        (("init", *current), 0),
    ):
        ended = run(*typed, cwd=work)
        assert ended.returncode == code, ended.stderr
        printed = capfd.readouterr()
        shown = ended.stdout + ended.stderr + printed.out + printed.err
        assert CANARY not in shown, typed
        (work / f"shown-{typed[0]}.txt").write_text(shown)
    # What is hidden can be put back.
    assert "--hub_token '…' '--api-key=…' --password '…'" in ended.stdout
    assert "  # put back what … leaves out" in ended.stdout
    for file in work.rglob("*"):
        assert not file.is_file() or CANARY.encode() not in file.read_bytes(), file
    [recorded] = (work / "rec").glob("0*.jsonl")
    lines = [json.loads(text) for text in recorded.read_text().splitlines()]
    [arguments] = [line["arguments"] for line in lines if line["k"] == "trainer"]
    assert arguments["model_init_kwargs"] == {"a": {"api_key": "…"}, "url": "https://…@h/x"}
    assert (
        "--pad_token '<p>'"
        in json.loads((work / "rec/preflight.json").read_text())["run"]["command"]
    )


def test_a_recording_of_an_earlier_version_is_shown_without(tmp_path: Path):
    lines = [begin(), *(line for i in range(3) for line in (batch(i, 3, 5), step(i)))]
    folder = write(tmp_path, lines, command=["train.py", "--hub_token", CANARY])
    assert run_facts(read_recording(folder), 1, ()).command == "train.py --hub_token '…'"
