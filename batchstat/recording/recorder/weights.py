"""A model without weights: its architecture alone, for a dry run that computes nothing with it."""

from __future__ import annotations

from typing import Any

from .patches import Patches
from .recorder import Recorder

_NO_TRAINER = (
    "--no-weights is for a Trainer of transformers, whose loop needs none: this loop computes with "
    "its model; run it without --no-weights"
)


def patch_weights(module: Any, recorder: Recorder, patches: Patches) -> None:
    """Let `from_pretrained` give a model of transformers on the meta device, where it takes no
    memory, without reading its weights. It stays there, and is not quantized.
    """
    if not recorder.orders.without_weights:
        return
    import torch

    def from_pretrained(_original: Any) -> Any:
        # The class for which it is called is its first argument, as of any class method.
        def wrapped(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            config = kwargs.get("config")
            if config is None:
                known = ("cache_dir", "revision", "token", "trust_remote_code", "local_files_only")
                given = {key: kwargs[key] for key in known if key in kwargs}
                config = cls.config_class.from_pretrained(name, **given)
            # A published checkpoint may be quantized, and quantizing needs its weights.
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            with torch.device("meta"):
                model = cls(config, *args)
            model.register_forward_pre_hook(refuse)
            # As the original from_pretrained leaves it.
            model.eval()
            return (model, {}) if kwargs.get("output_loading_info") else model

        return classmethod(wrapped)

    def refuse(*_: Any) -> None:
        # The loop of a Trainer does not come here in a dry run.
        recorder.refuse(_NO_TRAINER)

    def to(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # torch refuses to copy a tensor from the meta device, which has no numbers.
        return self if _has_no_weights(self) else original(self, *args, **kwargs)

    patches.replace(module.PreTrainedModel, "from_pretrained", from_pretrained)
    patches.wrap(torch.nn.Module, "to", to)
    patches.wrap(torch.nn.Module, "cuda", to)


def patch_prepare(module: Any, recorder: Recorder, patches: Patches) -> None:
    """Leave a model without weights as it is on several ranks: what accelerate wraps it in compares
    the parameters of all ranks first, and spreads those of the first.
    """
    if not recorder.orders.without_weights:
        return

    def prepare_model(original: Any, self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        return model if _has_no_weights(model) else original(self, model, *args, **kwargs)

    patches.wrap(module.Accelerator, "prepare_model", prepare_model)


def _has_no_weights(model: Any) -> bool:
    return any(each.is_meta for each in model.parameters())
