"""Immutable values that every ring shares; nothing here imports another ring."""
