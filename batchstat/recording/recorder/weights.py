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
    """With --no-weights, make `from_pretrained` of transformers return a model without weights: its
    parameters are on torch's meta device, where they take no memory, whatever a script moves it to.
    """
    if not recorder.orders.without_weights:
        return
    import torch

    def from_pretrained(_original: Any) -> Any:
        # `cls` is the class for which it is called, such as LlamaForCausalLM.
        def wrapped(cls: Any, name: Any, *args: Any, **kwargs: Any) -> Any:
            config = kwargs.get("config")
            if config is None:
                keys = ("cache_dir", "revision", "token", "trust_remote_code", "local_files_only")
                where = {key: kwargs[key] for key in keys if key in kwargs}
                config = cls.config_class.from_pretrained(name, **where)
            # A published checkpoint may be quantized, and quantizing needs its weights.
            if hasattr(config, "quantization_config"):
                del config.quantization_config
            with torch.device("meta"):
                model = cls(config, *args)
            model.register_forward_pre_hook(refuse)
            model.eval()  # as the original from_pretrained leaves it
            # With this argument it returns a report on the loading too, empty here.
            return (model, {}) if kwargs.get("output_loading_info") else model

        return classmethod(wrapped)

    # Before each forward of such a model: in a dry run a Trainer computes none.
    def refuse(*_: Any) -> None:
        recorder.refuse(_NO_TRAINER)

    def to(original: Any, self: Any, *args: Any, **kwargs: Any) -> Any:
        # torch refuses to copy a tensor from the meta device, which has no numbers.
        return self if _has_no_weights(self) else original(self, *args, **kwargs)

    patches.replace(module.PreTrainedModel, "from_pretrained", from_pretrained)
    patches.wrap(torch.nn.Module, "to", to)
    patches.wrap(torch.nn.Module, "cuda", to)  # `original` is `cuda` there


def patch_prepare(module: Any, recorder: Recorder, patches: Patches) -> None:
    """With --no-weights, make accelerate leave such a model as it is on several ranks, where it
    would wrap it in DistributedDataParallel, which sends the weights of the first to the others.
    """
    if not recorder.orders.without_weights:
        return

    def prepare_model(original: Any, self: Any, model: Any, *args: Any, **kwargs: Any) -> Any:
        return model if _has_no_weights(model) else original(self, model, *args, **kwargs)

    patches.wrap(module.Accelerator, "prepare_model", prepare_model)


def _has_no_weights(model: Any) -> bool:
    return any(each.is_meta for each in model.parameters())
