"""The error tree.

SidecarError
  ConfigError      the configuration is not usable; carries every problem found
  CodecError       a peer's bytes do not follow the protocol
  RegistryError    a registry could not be reached or understood

Routing raises nothing: an empty set is a value with its reason. No exception crosses the data
plane: the proxy turns a CodecError into a reply or a close in one place.
"""

from __future__ import annotations


class SidecarError(Exception):
    """The root of the errors this program raises on purpose."""


class ConfigError(SidecarError):
    """The configuration is not usable; ``problems`` lists each as ``FILE:LINE:COLUMN: text``."""

    def __init__(self, problems: list[str]) -> None:
        super().__init__("\n".join(problems))
        self.problems = problems


class CodecError(SidecarError):
    """A peer's bytes do not follow the protocol; the text is fit for a reply."""


class RegistryError(SidecarError):
    """A registry could not be reached or understood."""
