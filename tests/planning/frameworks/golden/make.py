"""Make the golden vectors of packing frameworks by running the originals; not part of the tests.

    python tests/planning/frameworks/golden/make.py NAME REPOSITORY.git
    python tests/planning/frameworks/golden/make.py axolotl axolotl-0.19.0-py3-none-any.whl

REPOSITORY.git is a clone of the framework's repository; its newest commit is what runs. Of axolotl
it is the wheel that users install. Nothing of it is copied here but its results: for random
lengths, the samples of each row in order.
"""

import json
import subprocess
import sys
import types
from collections.abc import Callable, Iterator
from itertools import product
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from zipfile import ZipFile

import numpy as np

Cases = Iterator[dict[str, Any]]


def lengths_of(seed: int, n: int, longest: int) -> list[int]:
    """Lengths of 1 to `longest`, short ones more frequent in every second case."""
    rng = np.random.default_rng(seed)
    drawn = rng.integers(1, longest + 1, n) if seed % 2 else rng.geometric(4 / longest, n)
    return np.minimum(drawn, longest).tolist()


def tokens_of(lengths: list[int]) -> list[list[int]]:
    """Samples whose every token is the number of the sample, from 1."""
    return [[number] * length for number, length in enumerate(lengths, 1)]


def samples_in(row: list[int]) -> list[list[int]]:
    """The [sample, tokens] of a row in order, padding (0) left out."""
    found: list[list[int]] = []
    for token in filter(None, row):
        if not found or found[-1][0] != token - 1:
            found.append([token - 1, 0])
        found[-1][1] += 1
    return found


def stub(name: str, path: Path | None = None, **names: object) -> Any:
    """A module in the place of one that would load a whole framework."""
    module = types.ModuleType(name)
    module.__dict__.update(names)
    if path is not None:
        module.__path__ = [str(path)]
    sys.modules[name] = module
    return module


def llama_factory(tree: Path) -> Cases:
    """What the packed processor makes of samples that are tokenized already."""
    package = tree / "src/llamafactory"
    stub("llamafactory", package)
    stub("llamafactory.data", package / "data")
    stub("llamafactory.data.processor", package / "data/processor")
    stub("llamafactory.extras", logging=types.SimpleNamespace(get_logger=print))
    stub("llamafactory.extras.constants", IGNORE_INDEX=-100)
    from llamafactory.data.processor.supervised import PackedSupervisedDatasetProcessor as Original

    class Tokenized(Original):
        def _encode_data_example(self, prompt: Any, **_: Any) -> Any:
            return prompt[0], prompt[0]

    for seed, (n, cutoff) in enumerate([(1, 9), (60, 33), (90, 65), (200, 129)]):
        lengths = lengths_of(seed, n, cutoff - 1)
        arguments = types.SimpleNamespace(cutoff_len=cutoff - 1, neat_packing=False)
        tokenizer = types.SimpleNamespace(pad_token_id=0)
        processor = Tokenized(None, tokenizer, None, arguments)
        columns = ("_response", "_system", "_tools", "_images", "_videos", "_audios")
        examples = {"_prompt": [[ids] for ids in tokens_of(lengths)]}
        examples |= {column: [[None]] * n for column in columns[:1]}
        examples |= {column: [None] * n for column in columns[1:]}
        made = processor.preprocess_dataset(examples)["input_ids"]
        assert {len(row) for row in made} == {cutoff}
        yield {"max_length": cutoff, "lengths": lengths, "rows": list(map(samples_in, made))}


def llm_foundry(tree: Path) -> Cases:
    """The collator's batches, with a ratio, few leftovers, two workers, and the ratio of auto."""
    import torch

    dist = types.SimpleNamespace(
        is_available=lambda: False, get_global_rank=int, get_local_rank=int
    )
    seeds = types.SimpleNamespace(get_rng_state=int, load_rng_state=print, seed_all=print)
    stub("composer")
    stub("composer.utils", dist=dist, reproducibility=seeds, get_device=print)
    stub("llmfoundry", tree / "llmfoundry")
    stub("llmfoundry.data", tree / "llmfoundry/data")
    stub("llmfoundry.utils")
    stub("llmfoundry.utils.consts", CROSS_ENTROPY_IGNORE_INDEX=-100)
    loading = stub("llmfoundry.data.dataloader")
    from llmfoundry.data.packing import BinPackCollator, auto_packing_ratio

    def padded(samples: list[list[int]]) -> dict[str, Any]:
        width = max(map(len, samples))
        ids = torch.tensor([ids + [0] * (width - len(ids)) for ids in samples])
        return {"input_ids": ids, "labels": ids.clone(), "attention_mask": (ids > 0).long()}

    def loader(*asked: Any) -> Any:
        return types.SimpleNamespace(dataloader=[padded(loading.samples[: asked[-1]])])

    loading.build_dataloader = loader
    shapes = [(1, 9, 2, 3.0), (61, 33, 4, 2.5), (90, 64, 3, 6.0), (200, 400, 2, None)]
    for seed, (n, longest, size, ratio) in enumerate(shapes):
        lengths = lengths_of(2 * seed, n, longest)
        loading.samples = tokens_of(lengths)
        found = ratio or auto_packing_ratio({"dataset": {"max_seq_len": longest}}, None, size)
        for most, workers in ((None, 1), (1, 1), (0, 2)):
            packers = [
                BinPackCollator(padded, size, longest, 0, "right", most) for _ in range(workers)
            ]
            at_once = int(size * found)
            firsts = range(0, n, at_once)
            made = [
                packers[k % workers](loading.samples[first : first + at_once])["input_ids"]
                for k, first in enumerate(firsts)
            ]
            spec = f"num_workers={workers}"
            spec += f",packing_ratio={ratio}" if ratio else ""
            spec += "" if most is None else f",max_leftover_bins_to_keep={most}"
            assert found > 1
            yield {
                "spec": spec,
                "max_length": longest,
                "batch_size": size,
                "lengths": lengths,
                "batches": [[samples_in(row) for row in batch.tolist()] for batch in made],
            }


def nemo(tree: Path) -> Cases:
    """The rows of both algorithms; stored samples have one token more than enters the model."""
    stub("megatron", tree / "src/megatron")
    stub("megatron.bridge", tree / "src/megatron/bridge")
    stub("megatron.bridge.utils")
    stub("megatron.bridge.utils.safe_pickle", safe_load_npy=print)
    stub("megatron.bridge.data")
    stub("megatron.bridge.data.packing", tree / "src/megatron/bridge/data/packing")
    from megatron.bridge.data.packing import algorithms

    for seed, (n, longest) in enumerate([(1, 9), (60, 33), (90, 64), (200, 128)]):
        lengths = lengths_of(seed, n, longest)
        stored = [{"input_ids": [*ids, 0], "answer_start_idx": 0} for ids in tokens_of(lengths)]
        for name in algorithms.PACKING_ALGOS:
            np.random.seed(seed)  # as prepare_gpt_sft_packed_data does
            sequences, counts = algorithms.create_hist(stored, longest)
            packs, _ = algorithms.create_packing_strategy(counts, longest, name)
            made = algorithms.fill_packing_strategy(packs, sequences, longest, 0)
            yield {
                "spec": f"packing_algorithm={name},packing_seed={seed}",
                "max_length": longest,
                "lengths": lengths,
                "rows": [samples_in(row["input_ids"]) for row in made],
            }


def axolotl(tree: Path) -> Cases:
    """The batches of every rank, as the Trainer gets them from accelerate, in two epochs."""
    stub("axolotl", tree / "axolotl")
    stub("axolotl.utils", tree / "axolotl/utils")
    stub("axolotl.utils.samplers", tree / "axolotl/utils/samplers")
    stub("axolotl.utils.distributed", reduce_and_broadcast=lambda find, merge: merge([find()]))
    log = types.SimpleNamespace(debug=print, info=str, warning=str)
    stub("axolotl.utils.logging", get_logger=lambda _: log)
    shapes = [(1, 9, 1, 1), (40, 33, 2, 1), (40, 64, 1, 2), (50, 64, 2, 3), (60, 50, 3, 4)]
    ways: list[dict[str, Any]] = [
        {},
        {"real_batches": True},
        {"sequential": True},
        {"curriculum": True},
        {"read_ahead": 25, "max_samples_per_row": 3},
    ]
    for case, (n, longest, size, ranks) in enumerate(shapes):
        for way in ways[: 1 if n == 1 else None]:
            lengths = lengths_of(case, n, longest)
            given = {"max_length": longest, "batch_size": size, "world_size": ranks, "seed": case}
            epochs = [axolotl_batches(lengths, epoch, **given, **way) for epoch in (0, 1)]
            spec = ",".join(f"{key}={str(value).lower()}" for key, value in way.items())
            yield {"spec": spec, **given, "lengths": lengths, "epochs": epochs}


def axolotl_batches(
    lengths: list[int],
    epoch: int,
    *,
    max_length: int,
    batch_size: int,
    world_size: int,
    seed: int,
    sequential: bool = False,
    read_ahead: int = 100_000,
    max_samples_per_row: int = 200,
    real_batches: bool = False,
    curriculum: bool = False,
) -> list[list[list[list[int]]]]:
    """For each rank, its batches of rows of samples, with what _create_multipack_sampler passes."""
    import os

    import torch
    from accelerate.data_loader import prepare_data_loader
    from axolotl.utils.samplers.multipack import MultipackBatchSampler
    from torch.utils.data import DataLoader, RandomSampler, SequentialSampler

    os.environ["WORLD_SIZE"] = str(world_size)
    ranks = []
    for rank in range(world_size):
        torch.manual_seed(seed)  # as the Trainer does before
        samples = range(len(lengths))
        sampler = MultipackBatchSampler(
            SequentialSampler(samples) if curriculum else RandomSampler(samples),
            lengths=np.array(lengths),
            batch_max_len=max_length * (1 if real_batches else batch_size),
            batch_size=batch_size if real_batches else 1,
            group_size=read_ahead,
            bin_size=max_samples_per_row,
            sequential=sequential,
            drop_last=True,
            num_processes=1,
        )
        len(sampler)
        loader = prepare_data_loader(
            DataLoader(Picked(len(lengths)), batch_sampler=sampler, collate_fn=list),
            num_processes=world_size,
            process_index=rank,
            put_on_device=False,
            use_seedable_sampler=True,
            even_batches=False,
        )
        loader.set_epoch(epoch)
        ranks.append([[*map(list, batch)] for batch in loader])
    return ranks


def grain(tree: Path) -> Cases:
    """The rows of both packers in the sequence in which they are emitted."""
    sys.path.insert(0, str(tree))
    from grain import MapDataset
    from grain.experimental import BestFitPackIterDataset, FirstFitPackIterDataset

    packers = {False: FirstFitPackIterDataset, True: BestFitPackIterDataset}
    shapes = [(1, 9, 2, None), (40, 33, 4, 3), (90, 64, 7, None), (120, 128, 16, 5)]
    for seed, (n, longest, bins, most) in enumerate(shapes):
        lengths = lengths_of(seed, n, longest)
        samples = [{"ids": np.array(ids)} for ids in tokens_of(lengths)]
        for (best, packer), shuffle in product(packers.items(), (True, False)[: 1 + (n == 40)]):
            packed = packer(
                MapDataset.source(samples).to_iter_dataset(),
                length_struct={"ids": longest},
                num_packing_bins=bins,
                seed=seed,
                shuffle_bins=shuffle,
                max_sequences_per_bin=most,
            )
            spec = f"best_fit={str(best).lower()},num_packing_bins={bins},packing_seed={seed}"
            spec += f",shuffle_bins={str(shuffle).lower()}"
            spec += f",max_sequences_per_bin={most}" * (most is not None)
            rows = [samples_in(row["ids"].tolist()) for row in packed]
            yield {"spec": spec, "max_length": longest, "lengths": lengths, "rows": rows}


class Picked:
    """A data set whose samples are their numbers, also several at a time."""

    def __init__(self, n: int):
        self.n = n

    def __len__(self) -> int:
        return self.n

    def __getitem__(self, picked: Any) -> Any:
        return picked


ORIGINALS: dict[str, tuple[str, str, Callable[[Path], Cases]]] = {
    "axolotl": ("axolotl", "axolotl/utils/samplers/multipack.py", axolotl),
    "grain": ("grain", "grain/_src/python/dataset/transformations/packing.py", grain),
    "llama-factory": (
        "hiyouga/LLaMA-Factory",
        "src/llamafactory/data/processor/supervised.py",
        llama_factory,
    ),
    "llm-foundry": ("mosaicml/llm-foundry", "llmfoundry/data/packing.py", llm_foundry),
    "nemo": (
        "NVIDIA-NeMo/Megatron-Bridge",
        "src/megatron/bridge/data/packing/algorithms.py",
        nemo,
    ),
}


def checked_out(repository: str, folder: str, file: str) -> str:
    """Put the part of a repository that has the file into a folder, and return the commit."""
    git = ["git", "-C", repository]
    commit = subprocess.run([*git, "rev-parse", "HEAD"], capture_output=True, check=True, text=True)
    tree = subprocess.run(
        [*git, "archive", "HEAD", file.split("/")[0]], capture_output=True, check=True
    )
    subprocess.run(["tar", "-x", "-C", folder], input=tree.stdout, check=True)
    return commit.stdout.strip()


def main(name: str, original: str) -> None:
    owner, file, run = ORIGINALS[name]
    with TemporaryDirectory() as folder:
        if original.endswith(".whl"):
            ZipFile(original).extractall(folder)
            source = {"wheel": Path(original).name, "file": file}
        else:
            source = {
                "repository": owner,
                "file": file,
                "commit": checked_out(original, folder, file),
            }
        cases = [json.dumps(case, separators=(",", ":")) for case in run(Path(folder))]
    text = f'{{"source": {json.dumps(source)},\n"cases": [\n' + ",\n".join(cases) + "\n]}\n"
    (Path(__file__).parent / f"{name}.json").write_text(text)


if __name__ == "__main__":
    main(*sys.argv[1:])
