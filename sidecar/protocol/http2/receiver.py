"""What a session tells: the events of one connection in the order of its bytes."""

from __future__ import annotations

from collections.abc import Sequence

from mypy_extensions import mypyc_attr, trait

# Pseudo-headers first; bytes, repetitions and order as they came.
Headers = Sequence[tuple[bytes, bytes]]


@mypyc_attr(allow_interpreted_subclasses=True)  # as its subclass needs it
@trait
class Receiver:
    """Hears what a peer sent. Its methods may call the session, but neither feed nor deliver."""

    def on_headers(self, stream_id: int, headers: Headers, is_end: bool) -> None:
        """Take a request, or the final head of a response."""

    def on_informational(self, stream_id: int, headers: Headers) -> None:
        """Take a response of status 1xx, before the final head."""

    def on_data(self, stream_id: int, data: bytes, is_end: bool) -> None:
        """Take a piece of a body; each byte is to be acknowledged, also when the stream is over."""

    def on_trailers(self, stream_id: int, headers: Headers) -> None:
        """Take the trailers, which end the peer's half of the stream."""

    def on_closed(self, stream_id: int, code: int) -> None:
        """Forget a stream: last, and exactly once.

        Code 0 is a regular end, or a reset by somebody who saw no error: whether the message was
        complete is known by its end alone.
        """

    def on_goaway(self, last_stream_id: int, code: int) -> None:
        """Hear that the peer takes no new streams; it did not process any above the last one."""

    def on_ping_ack(self) -> None:
        """Hear the answer to a PING of ours."""

    def on_settings(self) -> None:
        """Hear that the peer's settings came: ``max_streams`` and its windows may have changed."""

    def on_window(self, stream_id: int) -> None:
        """Hear that the peer takes more of a stream, or of all streams (0)."""


@mypyc_attr(allow_interpreted_subclasses=True)
class OpenReceiver(Receiver):
    """A receiver that does nothing, for programs that are not compiled to inherit from.

    They cannot inherit from a compiled trait.
    """
