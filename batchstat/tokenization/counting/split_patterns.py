"""Published patterns by which byte-level BPE splits texts into words, as in tokenizer.json."""

_CONTRACTIONS = "(?i:'s|'t|'re|'ve|'m|'ll|'d)"
_BEFORE_LETTERS = r"[^\r\n\p{L}\p{N}]?"
_SPACES = r"|\s*[\r\n]+|\s+(?!\S)|\s+"
_SIGNS = r"| ?[^\s\p{L}\p{N}]+[\r\n]*" + _SPACES
_LOWER_END = _BEFORE_LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+"
_UPPER_START = _BEFORE_LETTERS + r"[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*"
_SIGNS_AND_SLASHES = r"| ?[^\s\p{L}\p{N}]+[\r\n/]*" + _SPACES

CL100K = f"{_CONTRACTIONS}|{_BEFORE_LETTERS}" + r"\p{L}+|\p{N}{1,3}" + _SIGNS
"""GPT-4, Llama 3, GLM-4, OLMo 2, Phi-4."""
QWEN2 = f"{_CONTRACTIONS}|{_BEFORE_LETTERS}" + r"\p{L}+|\p{N}" + _SIGNS  # qwen2, Qwen2.5, Qwen3
QWEN35 = (
    f"{_CONTRACTIONS}|{_BEFORE_LETTERS}"
    + r"[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*"
    + _SPACES
)
"""Qwen3.5."""
O200K = (
    f"{_LOWER_END}{_CONTRACTIONS}?|{_UPPER_START}{_CONTRACTIONS}?"
    + r"|\p{N}{1,3}"
    + _SIGNS_AND_SLASHES
)
"""GPT-4o, gpt-oss, Llama 4."""
TEKKEN = f"{_LOWER_END}|{_UPPER_START}" + r"|\p{N}" + _SIGNS_AND_SLASHES  # mistral Nemo and later
DEEPSEEK3 = (
    r"\p{N}{1,3}",
    "[一-龥\u3040-ゟ゠-ヿ]+",
    r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+"""
    r"|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*" + _SPACES,
)
"""DeepSeek V3 and R1, one after the other."""
BLOOM = " ?[^(\\s|[.,!?…。，、।۔،])]+"  # BLOOM
