"""The registry walk as a pure engine: path machines, provider URLs, instance tables, snapshots."""
