"""The built-in tokenizer: a byte-level BPE of 32,000 entries for English; no network needed."""

import gzip
from importlib.resources import files

NAME = "builtin"
MAX_LENGTH = 512
"""The maximum it states, in tokens."""

CHAT_TEMPLATE = (
    "{% for message in messages %}"
    "{{ '<|im_start|>' + message['role'] + '\n' + message['content'] + '<|im_end|>' + '\n' }}"
    "{% endfor %}"
)
"""ChatML (OpenAI, 2023)."""

FILE = "english-32k.json.gz"


def definition() -> str:
    """Its tokenizer.json."""
    return gzip.decompress(files(__name__).joinpath(FILE).read_bytes()).decode()
