"""Configurations of LLaMA-Factory with the keys and values of its published examples.

The files are those of github.com/hiyouga/LLaMA-Factory at commit ff6d4d1. Data and tokenizer are
ours, so lengths, and where batches would be few or many, sizes and numbers are scaled.
"""

import json
import random
from pathlib import Path
from typing import Any

_OUTPUT = {
    "output_dir": "saves",
    "logging_steps": 10,
    "save_steps": 500,
    "plot_loss": True,
    "overwrite_output_dir": True,
    "save_only_model": False,
    "report_to": "none",
}
_SHARED = {
    **_OUTPUT,
    "trust_remote_code": True,
    "stage": "sft",
    "do_train": True,
    "dataset": "identity,alpaca_en_demo",
    "cutoff_len": 64,
    "max_samples": 20,
    "preprocessing_num_workers": 16,
    "dataloader_num_workers": 4,
    "per_device_train_batch_size": 1,
    "gradient_accumulation_steps": 8,
    "learning_rate": 1e-4,
    "num_train_epochs": 3.0,
    "lr_scheduler_type": "cosine",
    "warmup_ratio": 0.1,
    "bf16": True,
    "ddp_timeout": 180000000,
}
_LORA = {"finetuning_type": "lora", "lora_rank": 8, "lora_target": "all"}
_FULL = {"finetuning_type": "full", "learning_rate": 1e-5}
_EVALUATION = {
    "val_size": 0.1,
    "per_device_eval_batch_size": 1,
    "eval_strategy": "steps",
    "eval_steps": 500,
}
_CHATS = {"dataset": "chats"}
_TEXTS = {
    "stage": "pt",
    "dataset": "texts",
    "max_samples": None,
    "preprocessing_batch_size": 15,
    "gradient_accumulation_steps": 2,
}
_ONE_PROCESS = {**_LORA, **_CHATS, "preprocessing_num_workers": None}

TEMPLATES = (
    *("mistral", "gemma", "gemma2", "deepseek3", "deepseekr1"),
    *("qwen3", "chatml", "yi", "phi", "phi4_mini"),
)
"""Templates that are tried with various keys."""

# The example, what it sets beside what all of them do, and the ranks.
CASES: list[tuple[str, dict[str, Any], int]] = [
    (
        "train_full/qwen3_full_sft.yaml",
        {
            **_FULL,
            "deepspeed": "examples/deepspeed/ds_z3_config.json",
            "template": "qwen3_nothink",
            "gradient_accumulation_steps": 2,
            "resume_from_checkpoint": None,
        },
        2,
    ),
    ("train_lora/qwen3_lora_sft.yaml", {**_LORA, "template": "qwen3_nothink"}, 1),
    ("train_lora/qwen3_lora_sft.yaml", {**_LORA, "template": "qwen3_nothink", **_EVALUATION}, 2),
    (
        "train_qlora/qwen3_lora_sft_otfq.yaml",
        {**_LORA, "template": "qwen3_nothink", "quantization_bit": 4, "quantization_method": "bnb"},
        3,
    ),
    (
        "extras/eaft/qwen25_05b_eaft_full.yaml",
        {
            **_FULL,
            "template": "qwen",
            "use_eaft_loss": True,
            "per_device_train_batch_size": 2,
            "overwrite_cache": True,
        },
        2,
    ),
    ("extras/dft/qwen2_full_sft.yaml", {**_FULL, "template": "qwen", "use_dft_loss": True}, 1),
    (
        "extras/loraplus/llama3_lora_sft.yaml",
        {**_LORA, "template": "llama3", "loraplus_lr_ratio": 16.0, "overwrite_cache": True},
        1,
    ),
    (
        "extras/llama_pro/llama3_freeze_sft.yaml",
        {
            "finetuning_type": "freeze",
            "freeze_trainable_layers": 1,
            "freeze_trainable_modules": "all",
            "use_llama_pro": True,
            "template": "llama3",
        },
        2,
    ),
    (
        "extras/fp8/llama3_fp8_fsdp_sft.yaml",
        {
            **_FULL,
            "dataset": "identity",
            "template": "llama3",
            "fp8": True,
            "fp8_backend": "torchao",
            "fsdp": ["full_shard", "auto_wrap"],
            "fsdp_transformer_layer_cls_to_wrap": "LlamaDecoderLayer",
            "cutoff_len": 32,
        },
        1,
    ),
    (
        "ascend/qwen3_full_sft_fsdp2.yaml",
        {
            **_FULL,
            "dataset": "alpaca_en_demo",
            "template": "qwen3_nothink",
            "flash_attn": "fa2",
            "max_steps": 500,
            "per_device_train_batch_size": 8,
            "gradient_accumulation_steps": 1,
        },
        2,
    ),
    (
        "ascend/qwen3moe_full_sft_fsdp.yaml",
        {
            **_FULL,
            "dataset": "alpaca_en_demo",
            "template": "qwen3_nothink",
            "cutoff_len": 48,
            "max_samples": None,
            "max_steps": 500,
            "per_device_train_batch_size": 4,
            "gradient_accumulation_steps": 1,
            "seed": 1234,
        },
        2,
    ),
    # The examples with keys that none of them has, each a choice of the documentation.
    ("train_lora/qwen3_lora_sft.yaml", {**_LORA, "template": "qwen3_nothink", "packing": True}, 2),
    (
        "train_full/qwen3_full_sft.yaml",
        {
            **_FULL,
            "template": "llama3",
            "neat_packing": True,
            "flash_attn": "fa2",
            "gradient_accumulation_steps": 2,
            "preprocessing_num_workers": None,
            "preprocessing_batch_size": 15,
            **_CHATS,
        },
        2,
    ),
    (
        "train_lora/qwen3_lora_sft.yaml",
        {
            **_LORA,
            "template": "phi4",
            "neat_packing": True,
            "per_device_train_batch_size": 2,
            "val_size": 5,
            "cutoff_len": 100,
        },
        1,
    ),
    (
        "train_lora/qwen3_lora_sft.yaml",
        {**_LORA, "template": None, **_CHATS, "per_device_train_batch_size": 3, "cutoff_len": 40},
        2,
    ),
    (
        "train_lora/qwen3_lora_sft.yaml",
        {**_LORA, "template": "qwen", **_CHATS, "mask_history": True, "cutoff_len": 56},
        1,
    ),
    (
        "train_lora/qwen3_lora_sft.yaml",
        {
            **_LORA,
            "template": "chatml",
            **_CHATS,
            "train_on_prompt": True,
            "disable_shuffling": True,
            "per_device_train_batch_size": 4,
            "cutoff_len": 50,
        },
        2,
    ),
    (
        "train_lora/qwen3_lora_sft.yaml",
        {
            **_LORA,
            "template": "chatml",
            "dataset": "tagged,broken",
            "preprocessing_num_workers": None,
            "max_samples": 9,
            "cutoff_len": 50,
        },
        1,
    ),
    *(
        (
            "train_lora/qwen3_lora_sft.yaml",
            {
                **_LORA,
                "template": template,
                "preprocessing_num_workers": None,
                "dataset": ("chats", "tagged", "identity,alpaca_en_demo")[i % 3],
                "max_samples": None if i % 3 < 2 else 20,
                "per_device_train_batch_size": 1 + i % 4,
                "cutoff_len": (200, 60, 90, 40)[i % 4],
            },
            1 + i % 2,
        )
        for i, template in enumerate(TEMPLATES)
    ),
    *(
        (
            "train_lora/qwen3_lora_sft.yaml",
            {**_ONE_PROCESS, "template": template, "cutoff_len": cutoff, **more},
            1,
        )
        for template, cutoff, more in (
            ("gemma2", 70, {"packing": True, "neat_packing": True}),
            ("gemma2", 30, {"dataset": "tagged"}),
            ("mistral", 64, {"dataset": "tagged", "mask_history": True}),
            ("qwen3", 64, {"dataset": "thoughts", "train_on_prompt": True}),
            ("deepseekr1", 300, {"dataset": "thoughts"}),
        )
    ),
    *(
        (
            "train_lora/qwen3_lora_pretrain.yaml",
            {**_ONE_PROCESS, **_TEXTS, "template": template, "cutoff_len": cutoff, **more},
            ranks,
        )
        for template, cutoff, ranks, more in (
            (None, 64, 2, {}),
            (None, 40, 1, {"preprocessing_num_workers": 3, "val_size": 0.1}),
            ("llama3", 50, 1, {"packing": True, "dataset": "texts,more"}),
            ("qwen3", 50, 2, {"packing": False, "dataset": "more,texts", "max_samples": 21}),
            ("phi", 100, 1, {"preprocessing_batch_size": 8, "dataset": "lines"}),
        )
    ),
    *(
        (
            "train_lora/qwen3_lora_sft.yaml",
            {**_ONE_PROCESS, "template": "qwen", "cutoff_len": 96, "train_on_prompt": True, **more},
            1,
        )
        for more in ({"packing": True}, {"neat_packing": True, "flash_attn": "fa2"})
    ),
]

_TAGS = {
    "role_tag": "role",
    "content_tag": "content",
    "user_tag": "user",
    "assistant_tag": "assistant",
    "system_tag": "system",
}


def values_of(case: tuple[str, dict[str, Any], int], folder: Path) -> dict[str, Any]:
    """All keys of a configuration whose data and tokenizer are in a folder."""
    paths = {"model_name_or_path": str(folder / "tokenizer"), "dataset_dir": str(folder / "data")}
    return {**_SHARED, **case[1], **paths}


def save_data(folder: Path, samples: Path) -> None:
    """Save data sets of each format, made of the texts of sample_data, and what names them."""
    rng, folder = random.Random(5), folder / "data"
    folder.mkdir()
    lines = (samples / "corpus.txt").read_text(encoding="utf-8").splitlines()
    texts = [line[: rng.randint(5, 300)].strip() or "x" for line in lines[:60]]
    cuts = [rng.choice([rng.randint(1, len(text)), 3, len(text)]) for text in texts]
    alpaca = [
        {
            "instruction": text[:cut],
            "input": "" if i % 3 else "12 letters",
            "output": text[cut:].strip(),
        }
        for i, (text, cut) in enumerate(zip(texts, cuts, strict=True))
    ]
    chats = [
        json.loads(line)["messages"]
        for line in (samples / "conversations.jsonl").read_text(encoding="utf-8").splitlines()
    ]
    names = {"user": "human", "assistant": "gpt", "system": "system"}
    shared = [
        {"conversations": [{"from": names[m["role"]], "value": m["content"]} for m in chat]}
        for chat in chats[:44]
    ]
    system = {"role": "system", "content": "Be brief, and name the year."}
    plain = [[m for m in chat if m["role"] != "system"] for chat in chats]
    tagged = [{"messages": [system] * (i % 2) + chat} for i, chat in enumerate(plain[44:])]
    broken = [
        {"messages": messages}
        for chat in plain[:8]
        for messages in (chat, chat[:-1], [chat[0], *chat])
    ]
    saved = {
        "identity.json": alpaca[:23],
        "alpaca_en_demo.json": alpaca[23:],
        "chats.json": shared,
        "tagged.json": tagged,
        "broken.json": broken,
        "thoughts.json": [{"messages": _thinking(chat, i)} for i, chat in enumerate(plain)],
    }
    ended = [text + ("<|im_end|>" if i % 7 == 2 else "") for i, text in enumerate(texts)]
    saved["texts.json"] = [{"text": text} for text in (*ended, "", " ", "<|im_end|>")]
    saved["more.json"] = [{"text": text[:60]} for text in reversed(texts)]
    (folder / "lines.txt").write_text("".join(f"{line[:90]}\n" for line in (*lines[60:99], "")))
    for name, rows in saved.items():
        (folder / name).write_text(json.dumps(rows))
    messages = {"formatting": "sharegpt", "columns": {"messages": "messages"}, "tags": _TAGS}
    info = {
        "identity": {"file_name": "identity.json"},
        "alpaca_en_demo": {"file_name": "alpaca_en_demo.json"},
        "chats": {"file_name": "chats.json", "formatting": "sharegpt"},
        "tagged": {"file_name": "tagged.json", **messages},
        "broken": {"file_name": "broken.json", **messages},
        "thoughts": {"file_name": "thoughts.json", **messages},
        "texts": {"file_name": "texts.json", "columns": {"prompt": "text"}},
        "more": {"file_name": "more.json", "columns": {"prompt": "text"}},
        "lines": {"file_name": "lines.txt", "columns": {"prompt": "text"}},
    }
    (folder / "dataset_info.json").write_text(json.dumps(info))


def _thinking(chat: list[dict[str, str]], seed: int) -> list[dict[str, str]]:
    """A chat some of whose answers begin with a thought."""
    thought = "<think>\nWhat is asked?\n</think>\n\n"
    return [
        {**each, "content": thought + each["content"]}
        if each["role"] == "assistant" and (i + seed) % 3
        else each
        for i, each in enumerate(chat)
    ]


SPECIAL_TOKENS = (
    *("<|begin_of_text|>", "<|start_header_id|>", "<|end_header_id|>", "<|eot_id|>", "<|eom_id|>"),
    *("<|im_sep|>", "<start_of_turn>", "<end_of_turn>", "<｜User｜>", "<｜Assistant｜>"),
    *("<|system|>", "<|user|>", "<|assistant|>", "<|end|>", "<|end_of_text|>"),
)


def save_tokenizer(folder: Path) -> None:
    """Save the built-in tokenizer with the special tokens of the templates."""
    from tokenizers import Tokenizer
    from transformers import PreTrainedTokenizerFast

    from batchstat.tokenization.builtin import CHAT_TEMPLATE, definition

    unmarked = CHAT_TEMPLATE.replace("{% generation %}", "").replace("{% endgeneration %}", "")
    made = PreTrainedTokenizerFast(
        tokenizer_object=Tokenizer.from_str(definition()),
        bos_token="<|begin_of_text|>",
        eos_token="<|im_end|>",
        pad_token="<|endoftext|>",
        chat_template=unmarked,
    )
    made.add_special_tokens({"extra_special_tokens": list(SPECIAL_TOKENS)})
    made.save_pretrained(folder / "tokenizer")
