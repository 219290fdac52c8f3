"""The configuration of a trainer that does not exist, as small as one can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from batchstat.trainers.base.keys import TrainerConfig, key
from batchstat.trainers.base.setup import Framework, Schedule, TrainingSetup


@dataclass(frozen=True, kw_only=True)
class MadeUpConfig(TrainerConfig):
    """The keys that decide."""

    data: str | None = key(None)
    epochs: float = key(1.0)
    pack: bool = key(False, refused="remove it")
    rows: int = key(2, least=1)
    tokens: int = key(64, least=1)


def read_config(config: MadeUpConfig, **facts: Any) -> TrainingSetup:
    """Return the setup of the configuration."""
    config.check_modelled()
    return TrainingSetup(
        config=config,
        strategy=f"static:batch_size={config.rows}",
        settings={"max_length": config.tokens, "order": "file"},
        reading={} if config.data is None else {"corpus": (config.data,)},
        schedule=Schedule(epochs=config.epochs),
        **facts,
    )


def alternatives(setup: TrainingSetup) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    assert isinstance(setup.config, MadeUpConfig)
    if setup.config.rows > 1:
        yield {"rows": 1}


MADE_UP = Framework(
    title="the configuration of a made-up trainer",
    config=MadeUpConfig,
    own_keys={"batch_size": "rows", "max_length": "tokens"},
    read=read_config,
    alternatives=alternatives,
)
