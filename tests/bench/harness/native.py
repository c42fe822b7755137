"""The C programs: building them, and running the provider and the load generator."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from harness import process

SOURCES = Path(__file__).resolve().parents[1] / "native"
FLAGS = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Werror"]
DUBBO = "dubbo"
TRIPLE = "triple"
INTERFACE = "org.example.Greeter"
VERSION = "1.0.0"
METHOD = "sayHello"
PREFIXES = {DUBBO: "", TRIPLE: "grpc_"}


class LoadError(Exception):
    """The load generator failed, or calls went wrong where none may."""


class Programs:
    """The compiled programs and the place they run at."""

    def __init__(self, folder: Path, place: process.Place) -> None:
        self.folder = folder
        self.place = place
        self._built: set[str] = set()

    def command(self, name: str, *words: str) -> list[str]:
        """Return the command of one program; it is compiled at its first use, in a second.

        Raises StartError when it cannot be compiled.
        """
        target = self.folder / name
        if name not in self._built:
            self.folder.mkdir(parents=True, exist_ok=True)
            libraries = ["-lnghttp2"] if name.startswith(PREFIXES[TRIPLE]) else []
            command = ["gcc", *FLAGS, "-o", str(target), str(SOURCES / f"{name}.c"), *libraries]
            if subprocess.run(command, check=False).returncode != 0:
                raise process.StartError(
                    f"{name}.c does not compile; apt-get install gcc libc6-dev libnghttp2-dev"
                )
            self._built.add(name)
        return self.place.command([str(target), *words])

    @contextmanager
    def provider(
        self, endpoints: int, protocol: str = DUBBO, host: str = "127.0.0.1"
    ) -> Iterator[list[int]]:
        """Run one provider process that listens on several ports; yields the ports."""
        listen = ["--listen", f"{host}:0"] * endpoints
        command = self.command(f"{PREFIXES[protocol]}provider", *listen)
        running = subprocess.Popen(command, stdout=subprocess.PIPE)
        try:
            assert running.stdout is not None
            ports: list[int] = json.loads(running.stdout.readline())["ports"]
            yield ports
        finally:
            process.end(running)
            assert running.stdout is not None
            running.stdout.close()

    def load(self, ports: list[int], protocol: str = DUBBO, **options: float) -> dict[str, Any]:
        """Run the load generator once and return what it prints.

        Raises LoadError when a single call failed: a proxy that loses calls has no throughput.
        """
        targets = [word for port in ports for word in ("--to", f"127.0.0.1:{port}")]
        words = [
            word
            for name, value in options.items()
            for word in ("--" + name.replace("_", "-"), str(value))
        ]
        command = self.command(f"{PREFIXES[protocol]}load", *targets, *words)
        done = subprocess.run(command, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise LoadError(f"{' '.join(command)}: {done.stderr.strip()}")
        result: dict[str, Any] = json.loads(done.stdout)
        if any(result["errors"].values()) or result["calls"] == 0:
            raise LoadError(f"{' '.join(command)}: {done.stdout.strip()}")
        return result
