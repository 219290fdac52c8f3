"""What the trainers' configurations have in common."""
