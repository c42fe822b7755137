"""The router chain: prepared sets per router, intersected per call, with a reason for each step."""
