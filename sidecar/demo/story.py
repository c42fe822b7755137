"""The steps of the demo: each says what should happen, makes it happen, and checks that it did."""

from __future__ import annotations

import asyncio
import math
import os
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final, TypeAlias, final

from sidecar.admin.explained import explanation_table
from sidecar.demo.consumer import Consumer, Tally
from sidecar.demo.registries import DemoRegistry, FileRegistry, ZooKeeperRegistry
from sidecar.demo.stage import Stage, wait_for
from sidecar.demo.zookeeper import PrivateZooKeeper, find_class_path, free_port
from sidecar.model.errors import SidecarError
from sidecar.settings.forms import parse_registry_url

Say: TypeAlias = Callable[[str], None]

# Random picks vary; five standard deviations around the expected share are allowed, so that about
# one run in a million fails by chance.
_SIGMAS: Final = 5.0

_TAG_RULE: Final = """\
key: greeter
enabled: true
tags:
  - name: canary
    addresses: ["{address}"]
"""


def tell(registry: str, say: Say) -> int:
    """Run the demo; returns the exit code: 0 only when every step did what it says."""
    started = time.monotonic()
    with tempfile.TemporaryDirectory(prefix="sidecar-demo-") as directory:
        try:
            asyncio.run(_tell(Path(directory), registry, say))
        except SidecarError as error:
            say(f"\nFAILED: {error}")
            return 1
    say(f"\nAll steps did what they say ({time.monotonic() - started:.0f} s).")
    return 0


async def _tell(directory: Path, registry: str, say: Say) -> None:
    server = await _start_zookeeper(directory, registry, say)
    try:
        stage = Stage(await _open_registry(directory, registry, server), free_port(), free_port())
        try:
            story = _Story(stage, say)
            await story.begin(directory)
            for number, step in enumerate(story.steps, 1):
                say(f"\n{number}. {step.__doc__}")
                await step()
        finally:
            await stage.close()
    finally:
        if server is not None:
            await server.stop()


async def _start_zookeeper(directory: Path, registry: str, say: Say) -> PrivateZooKeeper | None:
    """Start a server of our own when no registry was named and this machine has the means."""
    class_path = find_class_path() if not registry else ""
    if not class_path:
        return None
    say("Starting a private ZooKeeper ...")
    server = PrivateZooKeeper(directory, class_path)
    await server.start()
    return server


async def _open_registry(
    directory: Path, registry: str, server: PrivateZooKeeper | None
) -> DemoRegistry:
    if server is not None:
        place = f"127.0.0.1:{server.port}"
        url = f"zookeeper://{place}/dubbo"
        return await ZooKeeperRegistry.connect(f"private ZooKeeper at {place}", url)
    if registry in ("", "file"):
        return FileRegistry(directory / "registry.yaml")
    try:
        parts = parse_registry_url(registry)
    except ValueError as error:
        raise SidecarError(str(error)) from None
    if parts.scheme != "zookeeper":
        raise SidecarError("the demo takes a zookeeper:// URL, or `file` for a file of its own")
    hosts = ",".join(f"{host}:{port}" for host, port in parts.hosts)
    # A root of its own: the demo writes and deletes, and must not meet a real fleet.
    url = f"zookeeper://{hosts}/sidecar-demo-{os.getpid()}"
    return await ZooKeeperRegistry.connect(f"ZooKeeper at {hosts}", url)


@final
class _Story:
    """The steps in their order; each one's docstring is its headline."""

    def __init__(self, stage: Stage, say: Say) -> None:
        self._stage = stage
        self._say = say
        self.steps = (
            self.same_zone,
            self.gray_tag,
            self.triple,
            self.tag_rule,
            self.weight,
            self.power_cut,
            self.zone_down,
            self.farewell,
        )

    async def begin(self, directory: Path) -> None:
        """Start everything and say what runs where."""
        self._say(f"registry   {self._stage.registry.name}")
        await self._stage.start(directory)
        for zone in ("bj-a", "bj-b"):
            places = [
                f"{name} :{provider.address.rpartition(':')[2]}"
                for name, provider in self._stage.providers.items()
                if provider.plan.zone == zone
            ]
            self._say(f"zone {zone}  {', '.join(places)}")
        self._say(f"sidecar    dubbo://127.0.0.1:{self._stage.port}")
        self._say(f"           tri://127.0.0.1:{self._stage.triple_port}, for any gRPC client")
        self._say(f"admin      {self._stage.sidecar.admin}")
        self._say("consumer   application demo-web, zone bj-a")

    async def same_zone(self) -> None:
        """Calls without a tag stay in the consumer's zone and leave gray instances alone."""
        self._expect(await self._call(200), {"a1": 1.0, "a2": 1.0})

    async def gray_tag(self) -> None:
        """Calls with dubbo.tag=gray go to gray instances, of the same zone first."""
        self._expect(await self._call(100, "gray"), {"a-gray": 1.0})
        self._show(await self._stage.sidecar.explain("gray"))

    async def triple(self) -> None:
        """gRPC clients call the same service: same rules, same instances, each call by itself."""
        consumer = self._stage.triple_consumer
        self._expect(await self._call(200, consumer=consumer), {"a1": 1.0, "a2": 1.0})
        self._expect(await self._call(100, "gray", consumer), {"a-gray": 1.0})

    async def tag_rule(self) -> None:
        """A tag rule names b1 as `canary`: calls with that tag follow it, until it is deleted."""
        address = self._stage.providers["b1"].address
        await self._stage.registry.put_rule(_TAG_RULE.format(address=address))
        await self._until_eligible({"b1"}, "canary")
        self._expect(await self._call(100, "canary"), {"b1": 1.0})
        await self._stage.registry.remove_rule()
        await self._until_eligible({"a1", "a2"}, "canary")
        self._expect(await self._call(100, "canary"), {"a1": 1.0, "a2": 1.0})

    async def weight(self) -> None:
        """a1 registers three times its weight; it gets three calls of four."""
        epoch = (await self._stage.sidecar.explain())["epoch"]
        await self._stage.providers["a1"].set_weight(300)
        await self._stage.register(*self._stage.providers)

        async def is_published() -> bool:
            return bool((await self._stage.sidecar.explain())["epoch"] != epoch)

        await wait_for(is_published, "the new weight to arrive")
        self._expect(await self._call(400), {"a1": 3.0, "a2": 1.0})

    async def power_cut(self) -> None:
        """a1 loses power; no call fails, although the registry still lists it."""
        await self._stage.providers["a1"].kill()
        self._expect(await self._call(200), {"a2": 1.0})

    async def zone_down(self) -> None:
        """All of zone bj-a goes; once the registry has noticed, calls go to zone bj-b."""
        for name in ("a2", "a-gray"):
            await self._stage.providers[name].kill()
        await self._stage.register("b1", "b2", "b-gray")
        await self._until_eligible({"b1", "b2"})
        self._expect(await self._call(200), {"b1": 1.0, "b2": 1.0})
        self._show(await self._stage.sidecar.explain())

    async def farewell(self) -> None:
        """SIGTERM: the sidecar serves until its consumer is quiet, then ends with code 0."""
        code = await self._stage.sidecar.stop()
        if code != 0:
            raise SidecarError(f"the sidecar ended with {code}\n{self._stage.sidecar.log_tail()}")
        self._say("   ended with code 0")

    async def _call(self, count: int, tag: str = "", consumer: Consumer | None = None) -> Tally:
        tally = await (consumer or self._stage.consumer).call(count, tag)
        answered = ", ".join(f"{name} {tally.answered[name]}" for name in sorted(tally.answered))
        self._say(f"   {count} calls: {answered or 'none answered'}")
        return tally

    def _expect(self, tally: Tally, shares: dict[str, float]) -> None:
        """Compare who answered with the expected shares."""
        if tally.failures:
            text = f"{len(tally.failures)} calls failed, for example: {tally.failures[0]}"
            raise SidecarError(f"{text}\n{self._stage.sidecar.log_tail()}")
        if set(tally.answered) - set(shares):
            raise SidecarError(f"expected answers from {', '.join(shares)} only")
        total = tally.answered.total()
        for name, share in shares.items():
            part = share / sum(shares.values())
            spread = _SIGMAS * math.sqrt(total * part * (1 - part))
            if abs(tally.answered[name] - total * part) > spread:
                raise SidecarError(f"expected about {total * part:.0f} answers from {name}")

    async def _until_eligible(self, names: set[str], tag: str = "") -> None:
        wanted = {self._stage.providers[name].address for name in names}

        async def is_so() -> bool:
            return set((await self._stage.sidecar.explain(tag))["eligible"]) == wanted

        await wait_for(is_so, f"the sidecar to choose among {', '.join(sorted(names))}")

    def _show(self, explanation: dict[str, Any]) -> None:
        for line in explanation_table(explanation).splitlines():
            self._say(f"   | {line}")
