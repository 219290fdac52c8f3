"""TRL's `SFTConfig`."""
