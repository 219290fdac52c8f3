"""The configuration of a trainer that does not exist, as small as one can be."""

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from batchstat.planning.strategies.spec import StrategySpec
from batchstat.trainers.base.keys import TrainerConfig, key
from batchstat.trainers.base.rules import Batching, CorpusRules, Schedule, TrainingRules
from batchstat.trainers.base.setup import Framework


@dataclass(frozen=True, kw_only=True)
class MadeUpConfig(TrainerConfig):
    """The keys that decide."""

    data: str | None = key(None)
    epochs: float = key(1.0)
    pack: bool = key(False, refused="remove it")
    rows: int = key(2, least=1)
    tokens: int = key(64, least=1)


def read_config(config: MadeUpConfig) -> TrainingRules:
    """Return what the configuration means."""
    config.check_modelled()
    return TrainingRules(
        config=config,
        corpus=CorpusRules(reading={} if config.data is None else {"corpus": (config.data,)}),
        batching=Batching(
            strategy=StrategySpec.of("static", batch_size=config.rows),
            settings={"max_length": config.tokens, "order": "file"},
        ),
        schedule=Schedule(epochs=config.epochs),
    )


def alternatives(config: MadeUpConfig) -> Iterator[dict[str, Any]]:
    """Yield changes of keys that may save compute."""
    if config.rows > 1:
        yield {"rows": 1}


MADE_UP = Framework(
    title="the configuration of a made-up trainer",
    python="MadeUpConfig",
    config=MadeUpConfig,
    own_keys={"batch_size": "rows", "max_length": "tokens"},
    read=read_config,
    alternatives=alternatives,
)
