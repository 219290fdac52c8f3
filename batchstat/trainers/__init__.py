"""What trainers do with a corpus, by their own configurations, objects and recordings."""
