"""axolotl's configuration."""
