"""The benchmark: what is measured, against whom, and how the figures are written down.

Every figure is a ratio taken in one run: the competitors are started together, each pinned to the
same core, and take turns, so a noisy neighbour hits all of them. Load generator and provider are C
programs (`tests/bench/native`) on the other core.
"""
