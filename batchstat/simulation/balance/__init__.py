"""What class balance does to an epoch."""
