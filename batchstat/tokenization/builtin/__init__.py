"""The built-in tokenizer: a byte-level BPE with 32,000 entries for English; works offline."""

import gzip
from importlib.resources import files

NAME = "builtin"
MAX_LENGTH = 512  # its `model_max_length`, in tokens

CHAT_TEMPLATE = (
    "{% for message in messages %}{{ '<|im_start|>' + message['role'] + '\n' }}"
    "{% if message['role'] == 'assistant' %}"
    "{% generation %}{{ message['content'] + '<|im_end|>' }}{% endgeneration %}"
    "{% else %}{{ message['content'] + '<|im_end|>' }}{% endif %}{{ '\n' }}{% endfor %}"
    "{% if add_generation_prompt %}{{ '<|im_start|>assistant\n' }}{% endif %}"
)
"""ChatML (OpenAI, 2023); what carries loss where only assistants' turns do is marked."""

FILE = "english-32k.json.gz"


def definition() -> str:
    """Return its tokenizer.json."""
    return gzip.decompress(files(__name__).joinpath(FILE).read_bytes()).decode()
