"""A private ZooKeeper server for the demo, when this machine has the means."""

from __future__ import annotations

import asyncio
import contextlib
import os
import shutil
import socket
from pathlib import Path
from typing import Final, final

from sidecar.model.errors import RegistryError

DEBIAN_JARS: Final = Path("/usr/share/java")
START_LIMIT: Final = 15.0  # seconds; it takes one or two
STOP_LIMIT: Final = 5.0
TICK_MS: Final = 500  # the shortest session is two ticks


def find_class_path() -> str:
    """Return the class path of a ZooKeeper server, or an empty string.

    Looks at ``ZOOKEEPER_HOME`` (an unpacked release), then at Debian's libzookeeper-java.
    """
    if shutil.which("java") is None:
        return ""
    home = os.environ.get("ZOOKEEPER_HOME", "")
    if home:
        return f"{home}/lib/*"
    if (DEBIAN_JARS / "zookeeper.jar").exists():
        return f"{DEBIAN_JARS}/zookeeper.jar:{DEBIAN_JARS}/slf4j-simple.jar"
    return ""


def free_port() -> int:
    """Return a loopback port that nothing listens on at this moment."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port: int = probe.getsockname()[1]
    return port


@final
class PrivateZooKeeper:
    """One standalone server on a free loopback port."""

    def __init__(self, directory: Path, class_path: str) -> None:
        self._directory = directory
        self._class_path = class_path
        self._process: asyncio.subprocess.Process | None = None
        self.port = free_port()

    async def start(self) -> None:
        """Start the server and wait until it serves; raises RegistryError when it does not."""
        config = self._directory / "zoo.cfg"
        config.write_text(
            f"tickTime={TICK_MS}\ndataDir={self._directory / 'data'}\n"
            f"clientPort={self.port}\nclientPortAddress=127.0.0.1\n"
            "admin.enableServer=false\n4lw.commands.whitelist=srvr\n"
        )
        with (self._directory / "zookeeper.log").open("wb") as log:
            self._process = await asyncio.create_subprocess_exec(
                *("java", "-Xmx128m", "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1"),
                *("-Dzookeeper.forceSync=no", "-cp", self._class_path),
                *("org.apache.zookeeper.server.quorum.QuorumPeerMain", str(config)),
                stdout=log,
                stderr=log,
            )
        try:
            async with asyncio.timeout(START_LIMIT):
                while not await self._is_serving():
                    if self._process.returncode is not None:
                        raise RegistryError("the private ZooKeeper ended at once")
                    await asyncio.sleep(0.05)
        except TimeoutError:
            raise RegistryError("the private ZooKeeper did not start in time") from None

    async def stop(self) -> None:
        """Stop the server."""
        if self._process is None or self._process.returncode is not None:
            return
        self._process.terminate()
        try:
            async with asyncio.timeout(STOP_LIMIT):
                await self._process.wait()
        except TimeoutError:
            self._process.kill()
            await self._process.wait()

    async def _is_serving(self) -> bool:
        try:
            reader, writer = await asyncio.open_connection("127.0.0.1", self.port)
        except OSError:
            return False
        try:
            writer.write(b"srvr")
            return (await reader.read(64)).startswith(b"Zookeeper version")
        except OSError:
            return False
        finally:
            writer.close()
            with contextlib.suppress(OSError):
                await writer.wait_closed()
