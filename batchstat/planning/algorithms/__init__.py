"""What strategies cut, pack and pair samples with."""
