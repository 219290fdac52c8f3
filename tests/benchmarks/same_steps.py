"""Training with the steps of today and with these steps regrouped: losses and times of an epoch.

python tests/benchmarks/same_steps.py [--corpus TEXT] [--model llama|bert] [--steps N]
    [--output FOLDER]

Two gloo ranks of one thread each, four accumulated batches of 8, AdamW, no dropout. The loss is
summed over the step and divided once; what BERT has to guess is drawn for each sample, whatever
batch it is in. Both ranks calibrate first, at the same time as they train later, and what the
calibration says of an epoch stands beside what it took. Four runs with the same seed: the setup
(`hf-trainer`), its steps regrouped, the setup again with two threads, which is as far as rounding
alone takes two equal trainings apart, and `token-budget` until it has computed as many samples,
with three seeds. It writes same_steps.json and same_steps.png, the loss over time, and prints the
table.
"""

import argparse
import json
import os
import time
from itertools import groupby
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np
import torch
from tokenizers import Tokenizer
from torch import distributed, multiprocessing

import batchstat
from batchstat.planning.rank_batches import Batch
from batchstat.tokenization.builtin import definition

RANKS, ACCUMULATED, SIZE, LONGEST, WORDS, IGNORED = 2, 4, 8, 512, 2_000, -100
SETTINGS = {
    "batch_size": SIZE,
    "max_length": LONGEST,
    "world_size": RANKS,
    "gradient_accumulation_steps": ACCUMULATED,
}
ROOT = Path(__file__).parents[2]


def token_ids(corpus: Path) -> list[np.ndarray]:
    """Token ids of each line of a text, in few words, so that most of the time goes to layers."""
    lines = corpus.read_text(encoding="utf-8").splitlines()
    texts = [line for line in lines if line]
    encoded = Tokenizer.from_str(definition()).encode_batch(texts)
    return [np.array(each.ids[:LONGEST]) % (WORDS - 2) + 2 for each in encoded]


def model_of(kind: str) -> torch.nn.Module:
    import transformers

    torch.manual_seed(0)
    sizes = {"hidden_size": 128, "intermediate_size": 344, "num_hidden_layers": 4}
    heads = {"num_attention_heads": 4, "vocab_size": WORDS, "max_position_embeddings": LONGEST}
    if kind == "llama":
        return transformers.LlamaForCausalLM(transformers.LlamaConfig(**sizes, **heads))
    none = {"hidden_dropout_prob": 0.0, "attention_probs_dropout_prob": 0.0}
    return transformers.BertForMaskedLM(transformers.BertConfig(**sizes, **heads, **none))


def inputs_of(batch: Batch, ids: list[np.ndarray], kind: str) -> dict[str, torch.Tensor]:
    """Padded token ids, their mask, and the labels that the logits are of."""
    shape = (len(batch.records), batch.width)
    words, labels = np.zeros(shape, np.int64), np.full(shape, IGNORED)
    mask = np.zeros(shape, np.int64)
    for row, record in enumerate(batch.records):
        own = ids[record]
        words[row, : len(own)], mask[row, : len(own)] = own, 1
        if kind == "llama":
            labels[row, : len(own) - 1] = own[1:]
        else:
            is_hidden = np.random.default_rng(record).random(len(own)) < 0.15
            labels[row, : len(own)] = np.where(is_hidden, own, IGNORED)
            words[row, : len(own)] = np.where(is_hidden, 1, own)
    arrays = {"input_ids": words, "attention_mask": mask, "labels": labels}
    return {name: torch.from_numpy(array) for name, array in arrays.items()}


def trained(spec: str, ids: list[np.ndarray], kind: str, most: dict[str, int], **how: Any) -> dict:
    """Loss of each step, when it ended, and how many samples were computed until then.

    Args:
        spec: the batches.
        ids: the corpus.
        kind: the model.
        most: the most `steps`, or `samples`.
        how: `threads` of each rank; `seed` of the order.
    """
    sampler = batchstat.BatchSampler(
        [len(each) for each in ids],
        spec,
        rank=distributed.get_rank(),
        seed=how.get("seed", 0),
        **SETTINGS,
    )
    torch.set_num_threads(how.get("threads", 1))
    model = torch.nn.parallel.DistributedDataParallel(model_of(kind))
    optimizer = torch.optim.AdamW(model.parameters(), lr=1e-3)
    losses, ends, samples = [], [], 0
    distributed.barrier()
    began = time.perf_counter()
    for _, group in groupby(sampler.batches(), lambda batch: batch.step):
        batches = list(group)
        if len(losses) >= most.get("steps", 1 << 40) or samples >= most.get("samples", 1 << 40):
            break
        inputs = [inputs_of(batch, ids, kind) for batch in batches]
        counts = torch.tensor(
            [
                sum(int((each["labels"] != IGNORED).sum()) for each in inputs),
                sum(len(batch.records) for batch in batches),
            ]
        )
        distributed.all_reduce(counts)
        total = torch.zeros(())
        for number, each in enumerate(inputs):
            labels = each.pop("labels")
            model.require_backward_grad_sync = number == len(inputs) - 1
            logits = model(**each).logits
            loss = torch.nn.functional.cross_entropy(
                logits.reshape(-1, WORDS), labels.reshape(-1), reduction="sum"
            )
            (loss * RANKS / counts[0]).backward()
            total += loss.detach() / counts[0]
        optimizer.step()
        optimizer.zero_grad()
        distributed.all_reduce(total)
        samples += int(counts[1])
        losses.append(float(total))
        ends.append(time.perf_counter() - began)
    return {"losses": losses, "ends": ends, "samples": samples}


def predicted(ids: list[np.ndarray], kind: str) -> dict[str, Any]:
    """What a calibration on this machine says of the setup and of its steps regrouped.

    Every rank calibrates, since they share memory and processors; rank 0's is taken.
    """
    torch.set_num_threads(1)
    distributed.barrier()
    with TemporaryDirectory() as folder:
        model_of(kind).config.save_pretrained(folder)
        calibration = batchstat.calibrate(
            folder, device="cpu", max_length=LONGEST, tokens_per_batch=SIZE * LONGEST
        )
    report = batchstat.compare(
        [len(each) for each in ids],
        current="hf-trainer",
        strategies=["regrouped"],
        calibration=calibration,
        **SETTINGS,
    )
    today, regrouped = report["hf-trainer"], report["regrouped"]
    found = [
        {
            "residual": calibration.time.residual,
            "spec": regrouped.label,
            "steps": today.counts.steps,
            "today": today.on_device.seconds,
            "regrouped": regrouped.on_device.seconds,
        }
    ]
    distributed.broadcast_object_list(found)
    return found[0]


def rank_main(rank: int, given: argparse.Namespace) -> None:
    """Train every run, one after the other, on one of the ranks."""
    os.environ |= {"MASTER_ADDR": "localhost", "MASTER_PORT": str(given.port)}
    distributed.init_process_group("gloo", rank=rank, world_size=RANKS)
    ids = token_ids(given.corpus)
    limit = {} if given.steps is None else {"steps": given.steps}
    estimate = predicted(ids, given.model)
    setup, regrouped = "hf-trainer", estimate["spec"]
    trained(setup, ids, given.model, {"steps": 2})  # what comes first is slower
    found = {
        "today": trained(setup, ids, given.model, limit),
        "regrouped": trained(regrouped, ids, given.model, limit),
        "again": trained(setup, ids, given.model, limit, threads=2),
    }
    samples = {"samples": found["today"]["samples"]}
    for seed in range(3):
        found[f"token-budget, seed {seed}"] = trained(
            "token-budget", ids, given.model, samples, seed=seed
        )
    if rank == 0:
        found["predicted"] = estimate
        (given.output / "same_steps.json").write_text(json.dumps(found, indent=1))
    distributed.destroy_process_group()


def difference(one: dict, other: dict) -> tuple[float, float]:
    """Relative differences of the losses of two runs: of the first step, and the largest."""
    a, b = np.array(one["losses"]), np.array(other["losses"])
    relative = np.abs(a - b) / a
    return float(relative[0]), float(relative.max())


def table(found: dict, by_tokens: float) -> list[str]:
    now, new, again = (found[name] for name in ("today", "regrouped", "again"))
    said, residual = found["predicted"], found["predicted"]["residual"]
    lines = ["| | steps | seconds | calibrated | last losses (mean of 5) |"]
    lines.append("|---|---:|---:|---:|---:|")
    for name, run in found.items():
        if name == "predicted":
            continue
        last, seconds = float(np.mean(run["losses"][-5:])), run["ends"][-1]
        is_known = name in said and len(run["losses"]) == said["steps"]
        off = f"{said[name]:.1f} ({said[name] / seconds - 1:+.0%})" if is_known else ""
        lines.append(f"| {name} | {len(run['losses'])} | {seconds:.1f} | {off} | {last:.3f} |")
    first, largest = difference(now, new)
    by_rounding = difference(now, again)[1]
    measured = now["ends"][-1] / new["ends"][-1]
    return [
        *lines,
        "",
        f"{said['spec']}: {measured:.2f} times as fast as today, estimated {by_tokens:.2f} by "
        f"tokens; the calibration is within {residual:.0%} of its own measurements",
        f"the loss of step 1 within {first:.1e} of today's, of all steps within {largest:.1e}; of "
        f"today's with two threads within {by_rounding:.1e}",
    ]


def draw(found: dict, file: Path) -> None:
    """The loss over time: the same curve, one of them sooner."""
    from matplotlib.figure import Figure

    figure = Figure(figsize=(7, 4), layout="constrained")
    axes = figure.subplots()
    for name, colour in (("today", "#E69F00"), ("regrouped", "#0072B2")):
        run = found[name]
        axes.plot(run["ends"], run["losses"], color=colour, label=name)
        axes.plot(run["ends"][-1], run["losses"][-1], "o", color=colour)
    axes.set(xlabel="seconds", ylabel="loss of the step")
    axes.set_title("The same losses, sooner", loc="left")
    axes.spines[["top", "right"]].set_visible(False)
    axes.legend(frameon=False)
    figure.savefig(file, dpi=150)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--corpus", type=Path, default=ROOT / "sample_data" / "corpus.txt")
    parser.add_argument("--model", choices=("llama", "bert"), default="llama")
    parser.add_argument("--steps", type=int)
    parser.add_argument("--output", type=Path, default=Path())
    parser.add_argument("--port", type=int, default=29_513)
    given = parser.parse_args()
    given.output.mkdir(parents=True, exist_ok=True)
    # Threads of more ranks than processors would wait for each other by computing.
    os.environ["OMP_WAIT_POLICY"] = "PASSIVE"
    multiprocessing.spawn(rank_main, (given,), nprocs=RANKS)
    found = json.loads((given.output / "same_steps.json").read_text())
    lengths = [len(each) for each in token_ids(given.corpus)]
    made = batchstat.compare(lengths, current="hf-trainer", strategies=["regrouped"], **SETTINGS)
    print("\n".join(table(found, made.speed_up(made["regrouped"]))))
    draw(found, given.output / "same_steps.png")


if __name__ == "__main__":
    main()
