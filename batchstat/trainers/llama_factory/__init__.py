"""LLaMA-Factory's arguments."""
