"""What each command prints to a terminal."""
