"""From lengths to what every rank computes: settings, samplers, strategies, batch plans."""
