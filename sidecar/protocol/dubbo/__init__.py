"""Dubbo TCP: frames, request preludes, replies made here, and session tables."""
