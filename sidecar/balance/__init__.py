"""Balancers: choose one instance of a pool in constant time."""
