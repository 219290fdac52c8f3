"""What is counted while an epoch is planned."""
