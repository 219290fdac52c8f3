"""Make the pictures of the README and the documentation.

    python docs/make_images.py

They show `sample_data`, but for that of the README, which is made where `BATCHSTAT_DATA` names a
folder with `gsm8k.jsonl` and `tokenizers/qwen2`, as for the tests on real corpora.
"""

import io
import os
from collections.abc import Iterator
from pathlib import Path

from PIL import Image

import batchstat
from batchstat.render.plots.balance import balance_plots
from batchstat.render.plots.batches import draw_batches
from batchstat.render.plots.buckets import bucket_plots
from batchstat.render.plots.comparison import comparison_plots
from batchstat.render.plots.profile import profile_plots
from batchstat.render.plots.style import Picture
from batchstat.render.text import percent

BATCH_SIZE = 8
HOW = (f"{BATCH_SIZE} samples per batch", "as many samples as fit the same memory")
WINDOWS = ["bucketed:read_ahead=32", "bucketed:read_ahead=128", "token-budget", "packed"]
IMAGES = Path(__file__).parent / "images"
SAMPLE_DATA = Path(__file__).parent.parent / "sample_data"


def padding(data: Path) -> Picture:
    """Return the batches of `static` and `token-budget`, side by side on the same scale."""
    profile = batchstat.profile(
        data / "gsm8k.jsonl",
        text_column=("question", "answer"),
        tokenizer=str(data / "tokenizers" / "qwen2"),
    )
    made = batchstat.compare(
        profile, strategies=["static", "token-budget"], batch_size=BATCH_SIZE, world_size=1
    )
    panels = []
    for row, how in zip(made.strategies, HOW, strict=True):
        assert row.first_batches is not None
        title = f"{row.label}, {how}: {percent(row.counts.padding_ratio)} padding"
        panels.append((title, row.first_batches))
    static, best = (percent(row.counts.padding_ratio) for row in made.strategies)
    title = f"Orange is padding: {static} of what static batches compute, {best} with token-budget"
    subtitle = f"gsm8k, Qwen2 tokenizer, {len(profile):,} samples"
    return Picture(lambda figure: draw_batches(figure, panels, title, subtitle), 4.2, 9.33)


def plots() -> Iterator[tuple[str, Picture]]:
    """Yield pictures of the sample data, as the commands draw them, with their names."""
    profile = batchstat.profile(SAMPLE_DATA / "corpus.txt")
    yield "lengths", profile_plots(profile)["lengths"]
    comparison = batchstat.compare(profile, strategies=WINDOWS, current="hf-trainer")
    yield "tradeoff", comparison_plots(comparison)["tradeoff"]
    buckets = batchstat.find_buckets(profile, buckets=6, tokens_per_batch=4096)
    yield "buckets", bucket_plots(buckets)["buckets"]
    reviews = batchstat.profile(
        SAMPLE_DATA / "reviews.csv", text_column="review", label_column="label"
    )
    yield "balance", balance_plots(batchstat.balance(reviews, tokens_per_batch=4096))["balance"]


def compressed(png: bytes) -> bytes:
    """Return the picture with 64 colours, which is all it needs."""
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    pictures = dict(plots())
    if "BATCHSTAT_DATA" in os.environ:
        pictures["padding"] = padding(Path(os.environ["BATCHSTAT_DATA"]))
    for name, picture in pictures.items():
        (IMAGES / f"{name}.png").write_bytes(compressed(picture.encoded("png")))


if __name__ == "__main__":
    main()
