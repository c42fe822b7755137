"""Hessian2: skipping values without building them, and small reads and writes."""
