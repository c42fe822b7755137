"""Counters as plain integers, the names they are exposed under, and logging."""
