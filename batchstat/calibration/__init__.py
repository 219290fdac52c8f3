"""What a batch costs: by the shape of a transformer, or measured on a device."""
