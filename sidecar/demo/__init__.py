"""`sidecar demo`: the main job with nothing installed, every step checked.

Real processes and real bytes: two provider processes (one per zone) speak the Dubbo protocol, a
registry knows them, a sidecar runs from a real configuration file, and a consumer calls through it.
"""
