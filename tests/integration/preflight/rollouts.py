"""Rollouts of a model, as their numbers of tokens: the corpus of reinforcement learning."""

import json
import random
from pathlib import Path


def lengths_of_rollouts(number: int, most: int, seed: int = 0) -> list[int]:
    """Whole numbers, the same everywhere: many of middle length, some long."""
    rng = random.Random(seed)
    return [min(most, 8 + int(rng.lognormvariate(4, 0.8))) for _ in range(number)]


def save_rollouts(folder: Path, lengths: list[int]) -> Path:
    """Write a file with one rollout per line; its column is `tokens`."""
    path = folder / "rollouts.jsonl"
    path.write_text("".join(json.dumps({"tokens": length}) + "\n" for length in lengths))
    return path
