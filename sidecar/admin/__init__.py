"""The admin HTTP server: probes, metrics, services, explain, drain."""
