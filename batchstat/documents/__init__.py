"""Records as JSON: the contract that other programs rely on, versioned in `schema`."""
