"""Registries: the I/O that feeds the discovery engine."""
