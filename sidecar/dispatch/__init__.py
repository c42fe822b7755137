"""The call walk as a pure engine: directory of services, decision per call, explain."""
