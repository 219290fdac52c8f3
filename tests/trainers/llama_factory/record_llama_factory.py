"""Record what LLaMA-Factory itself makes of the configurations of `llama_factory_cases`.

    PYTHONPATH=tests/helpers python tests/trainers/llama_factory/record_llama_factory.py

It needs llamafactory 0.9.5, which the tests do not: they read the result, llama_factory.json.
`run_sft` runs up to the training, without the model, for whose size it has one of one layer.
"""

import json
import os
import sys
from importlib.metadata import version
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

HERE = Path(__file__).parent
RECORD = HERE / "llama_factory.json"
# What run_sft needs to believe that it was launched.
LAUNCH = {"RANK": "0", "LOCAL_RANK": "0", "WORLD_SIZE": "1", "MASTER_ADDR": "127.0.0.1"}
# Keys that need a device or a package, and have no influence on what is recorded.
_LEFT_OUT = ("deepspeed", "quantization_bit", "quantization_method", "fp8", "fp8_backend", "fsdp")
_PACKAGES = ("llamafactory", "transformers", "accelerate", "datasets", "torch")


class _PreparedError(Exception):
    """The trainer, at the moment at which training would begin."""


def record(values: dict[str, Any], ranks: int, folder: Path) -> dict[str, Any]:
    """What LLaMA-Factory batches."""
    from llamafactory.hparams import get_train_args
    from llamafactory.train.pt import workflow as of_texts
    from llamafactory.train.sft import workflow as of_chats
    from transformers import LlamaConfig, LlamaForCausalLM

    used = {key: value for key, value in values.items() if key not in _LEFT_OUT}
    used |= {"output_dir": str(folder / "out"), "use_cpu": True, "dataloader_num_workers": 0}
    used.pop("fsdp_transformer_layer_cls_to_wrap", None)
    attention = "flash_attention_2" if used.pop("flash_attn", "") == "fa2" else "sdpa"

    def tiny(tokenizer: Any, *_: Any) -> Any:
        shape = {"hidden_size": 8, "intermediate_size": 8, "num_hidden_layers": 1}
        heads = {"num_attention_heads": 1, "num_key_value_heads": 1}
        model = LlamaForCausalLM(LlamaConfig(vocab_size=len(tokenizer), **shape, **heads))
        model.config._attn_implementation_internal = attention
        return model

    def stop(self: Any, **_: Any) -> None:
        raise _PreparedError(self)

    is_pt = values["stage"] == "pt"
    workflow = of_texts if is_pt else of_chats
    trainer = of_texts.CustomTrainer if is_pt else of_chats.CustomSeq2SeqTrainer
    workflow.load_model = tiny
    trainer.train = stop
    arguments = get_train_args({key: each for key, each in used.items() if each is not None})
    try:
        # Pre-training generates nothing, and takes no arguments for it.
        (of_texts.run_pt if is_pt else of_chats.run_sft)(*arguments[: 4 if is_pt else 5])
    except _PreparedError as prepared:
        del trainer.train
        return _found(prepared.args[0], ranks)
    raise RuntimeError("it did not train")


def _found(trainer: Any, ranks: int) -> dict[str, Any]:
    from trainers import loaders_of, recorded

    loaders = loaders_of(trainer, ranks)
    steps = trainer.set_initial_training_values(trainer.args, loaders[0])[-1]
    return {
        "samples": len(trainer.train_dataset),
        "steps": steps,
        "warmup": trainer.args.get_warmup_steps(steps),
        "batches": [recorded(trainer, loader) for loader in loaders],
    }


def main() -> None:
    """Record all cases."""
    sys.path.insert(0, str(HERE))
    from llama_factory_cases import CASES, save_data, save_tokenizer, values_of

    os.environ |= {**LAUNCH, "MASTER_PORT": os.environ.get("MASTER_PORT", "29541")}
    found = []
    with TemporaryDirectory() as name:
        folder = Path(name)
        save_tokenizer(folder)
        save_data(folder, HERE.parents[2] / "sample_data")
        for i, case in enumerate(CASES):
            found.append(record(values_of(case, folder), case[2], folder / str(i)))
    versions = {name: version(name) for name in _PACKAGES}
    cases = ",\n".join(json.dumps(each, separators=(",", ":")) for each in found)
    head = f'{{"versions": {json.dumps(versions)},\n"cases": [\n'
    RECORD.write_text(f"{head}{cases}\n]}}\n")


if __name__ == "__main__":
    main()
