"""The life of the process: settings to running parts, signals to an orderly end.

The end is asked for by SIGTERM, SIGINT or POST /drain. Readiness is false at once, but calls are
served until the consumers are quiet: the application may end later than its sidecar is told to. A
second signal cuts the waiting short. A drain before the first one does not: that is how a preStop
hook and the signal after it come.
"""

from __future__ import annotations

import asyncio
import contextlib
import ctypes
import gc
import logging
import resource
import signal
import sys
from typing import Final, final

import uvloop

from sidecar import VERSION
from sidecar.admin.server import AdminServer
from sidecar.app.lag import LagSampler
from sidecar.app.services import WatchedServices
from sidecar.app.state import ProgramState
from sidecar.dispatch.directory import Directory
from sidecar.model.errors import SidecarError
from sidecar.proxy.plane import DataPlane
from sidecar.registry.driver import RegistryDriver
from sidecar.settings.forms import parse_address
from sidecar.settings.schema import Settings
from sidecar.telemetry.build import build_kind
from sidecar.telemetry.counters import Counters
from sidecar.telemetry.log import set_up

_log: Final = logging.getLogger("sidecar")

# New objects that make Python's collector look for garbage among them. Calls in flight are some
# thousands, which come and go: at 700, its default, it looks at them several times a turn.
YOUNG_OBJECTS: Final = 10_000

# What glibc keeps when it is freed. Streams need blocks of up to 256 KiB by turns, 1 MiB in all. By
# default such blocks go back to the system, or do not, by chance; new pages cost as much as
# everything else that is done with the bytes.
M_TRIM_THRESHOLD: Final = -1  # malloc.h
M_MMAP_THRESHOLD: Final = -3
SPARE_BYTES: Final = 4 << 20
LARGE_BLOCK: Final = 1 << 20


def serve(settings: Settings) -> None:
    """Run until the end is asked for; raises SidecarError when the start fails."""
    set_up(settings.log.level, settings.log.format, sys.stderr)
    _raise_file_limit()
    _set_up_memory()
    uvloop.run(_serve(settings))


def _raise_file_limit() -> None:
    """Use all the open files that the system allows: each consumer and each instance takes one.

    The limit that a service manager gives by default (1024) is for programs that use select().
    """
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    with contextlib.suppress(OSError, ValueError):  # some systems have no true hard limit
        resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))


def _set_up_memory() -> None:
    """Have what calls need for a moment stay at hand, instead of being looked for each time."""
    gc.freeze()  # what the start has made lives until the end
    gc.set_threshold(YOUNG_OBJECTS)
    with contextlib.suppress(OSError, AttributeError):  # the C library is not glibc
        libc = ctypes.CDLL(None)
        libc.mallopt(M_MMAP_THRESHOLD, LARGE_BLOCK)
        libc.mallopt(M_TRIM_THRESHOLD, SPARE_BYTES)


async def _serve(settings: Settings) -> None:
    program = Program(settings, asyncio.get_running_loop())
    try:
        await program.start()
        await program.until_drained()
    finally:
        await program.stop()


@final
class Program:
    """All parts of one sidecar, made inside the running loop."""

    def __init__(self, settings: Settings, loop: asyncio.AbstractEventLoop) -> None:
        self._settings: Final = settings
        self._loop: Final = loop
        counters = Counters()
        directory = Directory(counters, settings.services.max_services)
        services = WatchedServices(directory)
        self._driver: Final = RegistryDriver(settings, services, counters, loop)
        self._plane: Final = DataPlane(settings, directory, self._driver, counters, loop)
        services.plane = self._plane
        self._state: Final = ProgramState(
            settings, directory, self._driver, self._plane, counters, self.end
        )
        self._admin: Final = AdminServer(self._state)
        self._lag: Final = LagSampler(loop, counters.loop_lag)
        self._end: Final = asyncio.Event()
        self._is_signalled = False

    async def start(self) -> None:
        """Start every part; raises SidecarError when an address cannot be bound."""
        for number in (signal.SIGTERM, signal.SIGINT):
            self._loop.add_signal_handler(number, self._signalled)
        _log.info("sidecar %s (%s) starts", VERSION, build_kind())
        await self._start_admin()
        self._driver.start()
        await self._plane.start()
        self._state.is_listening = True
        for address in self._plane.addresses:
            _log.info("calls are taken on %s", address)

    async def until_drained(self) -> None:
        """Return when the end was asked for and the consumers are quiet."""
        await self._end.wait()
        _log.info("asked to end: not ready any more, serving until the consumers are quiet")
        await self._plane.drain()

    async def stop(self) -> None:
        """End every part."""
        self._state.is_listening = False
        await self._plane.stop()
        await self._driver.stop()
        self._lag.stop()
        await self._admin.stop()
        _log.info("ended")

    def end(self) -> None:
        """Begin the end; asking again changes nothing."""
        self._state.is_draining = True
        self._end.set()

    def _signalled(self) -> None:
        """Begin the end; the second time, hurry."""
        if self._is_signalled:
            _log.info("asked to end again: no new calls")
            self._plane.hurry()
        self._is_signalled = True
        self.end()

    async def _start_admin(self) -> None:
        address = self._settings.admin.address
        try:
            port = await self._admin.start(*parse_address(address))
        except OSError as error:
            text = error.strerror or str(error)
            raise SidecarError(f"cannot listen on {address} for the admin server: {text}") from None
        _log.info("the admin server is on %s:%d", address.rpartition(":")[0], port)
