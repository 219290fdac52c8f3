"""Outcomes of checks in the formats that CI systems read."""
