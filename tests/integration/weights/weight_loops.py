"""Gradients of cases, each computed by the code of its framework.

One process of a group that torch.distributed.run starts:

    torchrun --nproc-per-node 2 weight_loops.py cases.json
"""

import json
import os
import sys
from contextlib import nullcontext
from dataclasses import asdict
from itertools import groupby
from pathlib import Path

import torch
from torch import distributed
from weight_cases import Case, compared
from weight_tokens import DATASET, IGNORED, Collator, Recorder, Tokens, inputs_of
from weight_trainers import by_transformers, by_trl

from batchstat import BatchSampler
from batchstat.planning.rank_batches import Batch


def reduced(loop: str, losses: torch.Tensor, labels: torch.Tensor) -> torch.Tensor:
    """Return what a training loop makes of the losses of a batch's tokens.

    The mean of none is NaN, but its gradient is 0, so that such a batch changes no weight.
    """
    trained = labels[:, 1:] != IGNORED
    if loop == "token-sum":
        return losses[trained].sum()
    if loop == "sequence-mean":
        rows = (losses * trained).sum(1) / trained.sum(1).clamp(min=1)
        return rows.mean()
    return losses[trained].mean()


def by_torch(case: Case, sampler: BatchSampler) -> Recorder:
    """A loop of one's own around DistributedDataParallel."""
    model = torch.nn.parallel.DistributedDataParallel(Tokens())
    recorder = Recorder(model.module.theta)
    for _, group in groupby(sampler.batches(), lambda batch: batch.step):
        batches = list(group)
        inputs = [inputs_of(batch) for batch in batches]
        tokens = torch.stack([(each["labels"][:, 1:] != IGNORED).sum() for each in inputs]).sum()
        distributed.all_reduce(tokens)
        # Where steps differ in their number of batches, no other number would be a mean.
        divided_by = len(batches) if case.strategy == "asym" else case.accumulation
        for batch, each in zip(batches, inputs, strict=True):
            factor = {
                "token-weight": batch.token_weight,
                "token-sum": distributed.get_world_size() / tokens.clamp(min=1),
            }.get(case.loop, 1 / divided_by)
            with nullcontext() if batch.ends_step else model.no_sync():
                loss = reduced(case.loop, model(each["input_ids"]), each["labels"])
                (loss * factor).backward()
        recorder.step()
        recorder.zero_grad()
    return recorder


def by_accelerate(case: Case, sampler: BatchSampler) -> Recorder:
    """`accumulate` and `backward`, which divides by gradient_accumulation_steps itself."""
    from accelerate import Accelerator
    from accelerate.data_loader import DataLoaderShard

    accelerator = Accelerator(cpu=True, gradient_accumulation_steps=case.accumulation)
    tokens = Tokens()
    recorder = Recorder(tokens.theta)
    model, optimizer = accelerator.prepare(tokens, recorder)
    # Its loader says which batch is the last one, after which `accumulate` steps.
    for batch in DataLoaderShard(list(sampler.batches()), batch_size=None, collate_fn=_as_it_is):
        inputs = inputs_of(batch)
        with accelerator.accumulate(model):
            loss = reduced(case.loop, model(inputs["input_ids"]), inputs["labels"])
            if case.loop == "token-weight":
                loss = loss * batch.token_weight * case.accumulation
            accelerator.backward(loss)
            optimizer.step()
            optimizer.zero_grad()
    return recorder


def _as_it_is(batch: Batch) -> Batch:
    return batch


def by_lightning(case: Case, sampler: BatchSampler) -> Recorder:
    """Automatic optimization, which divides by accumulate_grad_batches itself."""
    import lightning.pytorch as pl

    from batchstat.training.integrations.lightning import BatchLoader

    class Module(pl.LightningModule):
        def __init__(self):
            super().__init__()
            self.tokens = Tokens()
            self.recorder = Recorder(self.tokens.theta)

        def training_step(self, inputs):
            loss = reduced(case.loop, self.tokens(inputs["input_ids"]), inputs["labels"])
            if case.loop == "token-weight":
                batch = self.trainer.train_dataloader.batch
                return loss * batch.token_weight * case.accumulation
            return loss

        def configure_optimizers(self):
            return self.recorder

    trainer = pl.Trainer(
        accelerator="cpu",
        devices=case.ranks,
        strategy="ddp",
        accumulate_grad_batches=case.accumulation,
        max_epochs=1,
        reload_dataloaders_every_n_epochs=1,
        enable_checkpointing=False,
        enable_model_summary=False,
        enable_progress_bar=False,
        logger=False,
    )
    module = Module()
    collator = Collator(sampler)
    trainer.fit(module, BatchLoader(trainer, DATASET, sampler, collate_fn=collator))
    return module.recorder


LOOPS_OF = {
    "torch": by_torch,
    "accelerate": by_accelerate,
    "lightning": by_lightning,
    "transformers": by_transformers,
    "trl": by_trl,
}


def main(asked: Path) -> None:
    torch.set_default_dtype(torch.float64)
    distributed.init_process_group("gloo")
    cases = [Case(**each) for each in json.loads(asked.read_text())]
    samplers = [case.sampler(distributed.get_rank()) for case in cases]
    recorders = [
        LOOPS_OF[case.framework](case, sampler)
        for case, sampler in zip(cases, samplers, strict=True)
    ]
    if distributed.get_rank() == 0:
        found = [
            asdict(compared(case, recorder.gradients))
            for case, recorder in zip(cases, recorders, strict=True)
        ]
        asked.with_name("found.json").write_text(json.dumps(found))
    distributed.barrier()
    # Gloo's threads may abort a Python that ends before them (pytorch#179291).
    os._exit(0)


if __name__ == "__main__":
    main(Path(sys.argv[1]))
