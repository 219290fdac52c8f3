"""Make the pictures of the README and the documentation from a real corpus.

    BATCHSTAT_DATA=FOLDER python docs/make_images.py

The folder holds `gsm8k.jsonl` and `tokenizers/qwen2`, as for the tests on real corpora.
"""

import io
import os
from pathlib import Path

from PIL import Image

import batchstat
from batchstat.render.plots.batches import Panel, draw_batches
from batchstat.render.plots.style import Picture
from batchstat.render.text import percent

BATCH_SIZE = 8
HOW = (f"{BATCH_SIZE} samples per batch", "as many samples as fit the same memory")
IMAGES = Path(__file__).parent / "images"


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
        panels.append(Panel(title, row.first_batches))
    static, best = (percent(row.counts.padding_ratio) for row in made.strategies)
    title = f"Orange is padding: {static} of what static batches compute, {best} with token-budget"
    subtitle = f"gsm8k, Qwen2 tokenizer, {len(profile):,} samples"
    return Picture(lambda figure: draw_batches(figure, panels, title, subtitle), 4.2, 9.33)


def compressed(png: bytes) -> bytes:
    """Return the picture with 64 colours, which is all it needs."""
    file = io.BytesIO()
    picture = Image.open(io.BytesIO(png)).convert("RGB")
    picture.quantize(64, dither=Image.Dither.NONE).save(file, "PNG", optimize=True)
    return file.getvalue()


def main() -> None:
    """Write all pictures."""
    IMAGES.mkdir(exist_ok=True)
    data = Path(os.environ["BATCHSTAT_DATA"])
    (IMAGES / "padding.png").write_bytes(compressed(padding(data).encoded("png")))


if __name__ == "__main__":
    main()
