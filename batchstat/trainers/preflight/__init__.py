"""What is trained today, by a trainer's configuration, its object, a loader or a recording."""
