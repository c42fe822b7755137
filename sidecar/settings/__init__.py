"""Typed configuration: the schema, and the reader that reports every problem with its place."""
