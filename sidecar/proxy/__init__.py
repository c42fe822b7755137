"""The data plane I/O: listeners, consumer and provider connections, pools, drain."""
