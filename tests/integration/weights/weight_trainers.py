"""The trainers of transformers and TRL, which choose the weights of tokens themselves."""

import inspect
from functools import cache

import torch
from weight_cases import FIRST, Case
from weight_tokens import DATASET, IGNORED, Collator, Recorder, Tokens

from batchstat import BatchSampler
from batchstat.training.integrations.huggingface import with_batches


def by_transformers(case: Case, sampler: BatchSampler) -> Recorder:
    """The Trainer's loop, with the loss of transformers' causal language models."""
    import transformers

    takes_number, takes_none, axolotl = _models_and_trainer()
    means = ("takes-no-number", "with-batches")
    model = (takes_none if case.loop in means else takes_number)()
    make = axolotl if case.loop == "axolotl" else transformers.Trainer
    collator = Collator(sampler)
    arguments = transformers.TrainingArguments(
        # axolotl 0.19 sets this for every run, in core/builders/base.py.
        average_tokens_across_devices=case.loop not in ("axolotl", "num-items-per-rank"),
        **_arguments(case),
    )
    recorder = Recorder(model.model.theta)
    trainer = make(
        model,
        arguments,
        train_dataset=DATASET,
        data_collator=collator,
        optimizers=(recorder, torch.optim.lr_scheduler.LambdaLR(recorder, lambda _: 1.0)),
    )
    assert trainer.model_accepts_loss_kwargs == case.loop.startswith("num-items")
    if case.loop not in ("takes-no-number", "axolotl"):
        with_batches(trainer, sampler)
    else:
        # Nothing but the Trainer itself has a say in the weights of these.
        loader = torch.utils.data.DataLoader(DATASET, batch_sampler=sampler, collate_fn=collator)
        trainer.get_train_dataloader = lambda: loader
    trainer.train()
    return recorder


def _arguments(case: Case) -> dict:
    return {
        "output_dir": "unused",
        "gradient_accumulation_steps": case.accumulation,
        "num_train_epochs": 1,
        "max_grad_norm": 0,
        "use_cpu": True,
        "disable_tqdm": True,
        "logging_strategy": "no",
        "save_strategy": "no",
        "report_to": [],
        "remove_unused_columns": False,
    }


@cache
def _models_and_trainer():
    """Return a model that takes num_items_in_batch, one that does not, and axolotl's decision."""
    import transformers

    class Backbone(torch.nn.Module):
        def __init__(self):
            super().__init__()
            self.theta = torch.nn.Parameter(torch.zeros(FIRST[-1]))

        def forward(self, input_ids, **kwargs):  # noqa: ARG002 - as of transformers' models
            return self.theta[input_ids]

    class TokensForCausalLM(transformers.PreTrainedModel):
        """Its loss function is chosen by transformers, from the name of the class."""

        config_class = transformers.PretrainedConfig
        base_model_prefix = "model"

        def __init__(self):
            super().__init__(transformers.PretrainedConfig())
            self.model = Backbone()

        def forward(self, input_ids, labels, attention_mask=None, **kwargs):
            losses = self.model(input_ids, attention_mask=attention_mask)
            # The cross-entropy of these two logits is exactly the loss of the next token plus 1000.
            chosen = torch.nn.functional.pad(-1000 - losses[:, 1:], (0, 1))
            logits = torch.stack([torch.zeros_like(chosen), chosen], -1)
            return {"loss": self.loss_in_double(logits, labels, **kwargs)}

        def loss_in_double(self, logits, labels, **kwargs):
            """Return transformers' own loss, which would round logits to float32."""
            single, torch.Tensor.float = torch.Tensor.float, torch.Tensor.double
            try:
                return self.loss_function(logits=logits, labels=labels, vocab_size=2, **kwargs)
            finally:
                torch.Tensor.float = single

    class TakesNoNumberForCausalLM(TokensForCausalLM):
        def forward(self, input_ids, labels, attention_mask=None):
            return super().forward(input_ids, labels, attention_mask)

    class Axolotl(transformers.Trainer):
        """Decides as axolotl 0.19 does when it builds its trainer (core/trainers/base.py): whatever
        the model accepts, losses are normalized by num_items_in_batch only where the forward of the
        backbone names it, which those of transformers' models do not.
        """

        def __init__(self, *args, **kwargs):
            super().__init__(*args, **kwargs)
            inner = self.accelerator.unwrap_model(self.model)
            for name in ("base_model", "model"):
                inner = getattr(inner, name, inner)
            if "num_items_in_batch" not in inspect.signature(inner.forward).parameters:
                assert self.model_accepts_loss_kwargs
                self.model_accepts_loss_kwargs = False

    return TokensForCausalLM, TakesNoNumberForCausalLM, Axolotl


def by_trl(case: Case, sampler: BatchSampler) -> Recorder:
    """SFTTrainer's loss, with a model whose log-probabilities are those of `Tokens`."""
    import datasets
    import tokenizers
    import transformers
    import trl
    from trl.trainer.utils import FusedCausalLMOutput

    from batchstat.tokenization.builtin import definition

    small = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
    heads = {"num_attention_heads": 1, "num_key_value_heads": 1, "vocab_size": 16}
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**small, **heads))
    model.requires_grad_(False)
    model.tokens = Tokens()
    recorder = Recorder(model.tokens.theta)
    tokenizer = transformers.PreTrainedTokenizerFast(
        tokenizer_object=tokenizers.Tokenizer.from_str(definition()),
        pad_token="<pad>",
        eos_token="<pad>",
    )
    trainer = trl.SFTTrainer(
        model,
        trl.SFTConfig(
            bf16=False,
            gradient_checkpointing=False,
            dataset_kwargs={"skip_prepare_dataset": True},
            **_arguments(case),
        ),
        train_dataset=datasets.Dataset.from_list(
            [{"input_ids": [0], "labels": [0], **sample} for sample in DATASET]
        ),
        data_collator=Collator(sampler),
        processing_class=tokenizer,
        optimizers=(recorder, torch.optim.lr_scheduler.LambdaLR(recorder, lambda _: 1.0)),
    )

    def forward(input_ids, labels, fused_lm_head, **others):  # noqa: ARG001
        assert fused_lm_head
        trained = labels[:, 1:] != IGNORED
        zeros = torch.zeros_like(trained, dtype=torch.float64)
        return FusedCausalLMOutput(
            log_probs=-model.tokens(input_ids) * trained,
            label_mask=trained,
            entropy=zeros,
            is_top1=zeros,
        )

    trainer.model.forward = forward
    with_batches(trainer, sampler).train()
    return recorder
