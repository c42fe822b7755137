"""A connection to a provider, shared by the calls of all consumers.

Each queued part remembers its call until the transport gets it. That is the line between "may be
sent elsewhere" and "may have been processed": a provider that starts to drain, or a connection
that breaks, gives back what was still queued, and nothing else.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable
from typing import Final, final

from mypy_extensions import trait

from sidecar.model import reason
from sidecar.protocol.dubbo.frame import STATUS_BAD_REQUEST, Frame, FrameReader, restamp
from sidecar.protocol.dubbo.message import READONLY, WRITEABLE, event_kind
from sidecar.protocol.dubbo.reply import heartbeat_reply, heartbeat_request
from sidecar.protocol.dubbo.session import ClientSession
from sidecar.proxy.dubbo import local_reply
from sidecar.proxy.dubbo.downstream import DubboCall
from sidecar.proxy.dubbo.extras import outgoing
from sidecar.proxy.dubbo.settlement import DubboSettlement
from sidecar.proxy.endpoint import ProviderLink
from sidecar.proxy.link import LARGE_READ, FlushQueue
from sidecar.resilience.liveness import ASK, DEAD, Liveness
from sidecar.telemetry import names

log = logging.getLogger(__name__)

# Small parts cost more than their bytes: what a list of them may hold for a slow provider.
MAX_QUEUED_PARTS: Final = 16_384


@trait
class UpstreamOwner:
    """What a provider connection reports to the holder of its address."""

    def lost(self, link: Upstream, now: float) -> None:
        """Take a connection out of use that must not get another call."""
        raise NotImplementedError

    def set_draining(self, is_draining: bool, now: float) -> None:
        """Note that the provider asked for no new calls, or takes them again."""
        raise NotImplementedError


@final
class Upstream(ProviderLink):
    """The protocol object of one provider connection."""

    def __init__(
        self,
        owner: UpstreamOwner,
        address: str,
        queue: FlushQueue,
        clock: Callable[[], float],
        settlement: DubboSettlement,
        reader: FrameReader,
        liveness: Liveness,
        max_buffer: int,
        default_tag: str,
    ) -> None:
        super().__init__(queue, liveness.last_read)
        self._owner: Final = owner
        self._address: Final = address
        self._clock: Final = clock
        self._settlement: Final = settlement
        self._reader: Final = reader
        self._max_buffer: Final = max_buffer
        self._default_tag: Final = default_tag
        self._senders: list[DubboCall | None] = []  # for each queued part, the call it belongs to
        self.liveness: Final = liveness
        self.session: Final[ClientSession[DubboCall]] = ClientSession()

    @property
    def is_stuffed(self) -> bool:
        """Whether as much is queued as may be for a provider that does not read."""
        return self.is_write_paused and (
            self.queued_bytes >= self._max_buffer or len(self.parts) >= MAX_QUEUED_PARTS
        )

    @property
    def is_full(self) -> bool:
        """Whether a call should rather go elsewhere: a slow provider, or one that never answers."""
        return self.is_stuffed or self.session.is_full

    @property
    def is_quiet(self) -> bool:
        """Whether nothing is in flight in either direction."""
        return len(self.session) == 0 and not self.parts and not self.is_write_paused

    def connection_made(self, transport: asyncio.Transport) -> None:
        """Start with a connected transport."""
        self.open(transport)

    def forward(self, call: DubboCall, now: float) -> None:
        """Queue a call that has its instance and its frame."""
        frame = call.frame
        if frame is None:
            return
        session = self.session
        if call.is_two_way:
            id8 = session.admit(call)
            call.session = session
            call.upstream_id = id8
        else:
            id8 = session.next_id()
        self.last_call = now
        self._senders.append(call)
        self.send(restamp(outgoing(call, frame, self._default_tag), id8))

    def answer(self, data: bytes) -> None:
        """Queue bytes that belong to no call; a provider that reads none of them gets no more."""
        if not self.is_closed and not self.is_stuffed:
            self._senders.append(None)
            self.send(data)

    def flush(self) -> None:
        """Hand what is queued to the transport; calls given up meanwhile are left out."""
        if not self.is_write_paused:
            senders = self._senders
            for index in range(len(senders)):
                call = senders[index]
                if call is not None:
                    self._leave(call, index)
            self._senders = []
        super().flush()

    def _leave(self, call: DubboCall, index: int) -> None:
        if call.is_done:
            self.parts[index] = b""
        elif not call.is_two_way:
            self._settlement.sent_one_way(call)
            call.frame = None
        elif not call.is_idempotent or not self._may_keep(len(self.parts[index])):
            call.frame = None

    def _may_keep(self, size: int) -> bool:
        """Whether a request stays in memory for a second try.

        The more calls are in flight, the smaller it has to be: their number alone would allow
        65,536 of any size. All that is kept is some times ``max_buffer``, twelve at the very most.
        """
        return size * len(self.session) <= self._max_buffer

    def take_unsent(self) -> list[DubboCall]:
        """Hand out the calls that are still queued here, oldest first, and forget them."""
        calls: list[DubboCall] = []
        kept: list[bytes] = []
        for part, call in zip(self.take_parts(), self._senders, strict=True):
            if call is None:
                kept.append(part)
            elif not call.is_done:
                self.session.take(call.upstream_id)
                call.session = None
                calls.append(call)
        self._senders = []
        for part in kept:
            self.answer(part)
        return calls

    def data_received(self, data: bytes) -> None:
        """Take the bytes of one read."""
        now = self._clock()
        self.liveness.last_read = now
        reader = self._reader
        session = self.session
        for frame in reader.feed(data):
            if frame.is_event or frame.is_request:
                self._react(frame, now)
                continue
            call = session.take(frame.id8)
            if call is None:
                kind = "late" if session.has_issued(frame.id8) else "stray"
                self._settlement.count(names.LATE_REPLIES, kind)
            else:
                call.session = None
                self._settlement.answer(call, frame, now)
        if reader.broken:
            self._give_up("broken_stream", now)
        if len(data) >= LARGE_READ:
            self.give_way()

    def _react(self, frame: Frame, now: float) -> None:
        """Take anything but a reply to a call."""
        if not frame.is_event:
            self._refuse_reverse(frame)
        elif frame.is_request and not frame.oversize:
            kind = event_kind(frame)
            if kind == READONLY:
                self._owner.set_draining(True, now)
            elif kind == WRITEABLE:
                self._owner.set_draining(False, now)
            elif frame.is_two_way:
                self.answer(heartbeat_reply(frame))

    def _refuse_reverse(self, frame: Frame) -> None:
        """Refuse a call of the provider: with shared connections it has no one to go to."""
        self._settlement.count(names.REVERSE_REQUESTS)
        if frame.is_two_way:
            why = "a provider cannot call back through the sidecar"
            self.answer(
                local_reply.status_reply(frame.id8, STATUS_BAD_REQUEST, reason.UNSUPPORTED, "", why)
            )

    def check(self, now: float) -> None:
        """Ask a silent provider for a sign of life, or give it up; called now and then."""
        verdict = self.liveness.check(now)
        if verdict == DEAD:
            self._give_up("dead", now)
        elif verdict == ASK:
            self.answer(heartbeat_request(self.session.next_id()))

    def _give_up(self, why: str, now: float) -> None:
        self.closed_because = why
        log.warning("the connection to %s is given up: %s", self._address, why)
        self._owner.lost(self, now)
        self.abort()

    def abort(self) -> None:
        """End the connection at once; the owner has taken what was queued."""
        super().abort()
        self._senders = []

    def eof_received(self) -> bool:
        """Leave a half-closed connection at once: no reply can come any more."""
        self._owner.lost(self, self._clock())
        return False

    def connection_lost(self, error: Exception | None) -> None:
        """Tell the owner, who may know already."""
        self.is_closed = True
        self.transport = None
        self._settlement.count(names.UPSTREAM_CLOSED, self.closed_because)
        self._owner.lost(self, self._clock())
