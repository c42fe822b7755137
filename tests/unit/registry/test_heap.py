"""Memory of large lists is given back, once for many of them."""

from __future__ import annotations

import asyncio
from collections.abc import Sequence

import pytest

from sidecar.discovery.slot import PROVIDERS, Slot
from sidecar.model.instance import Instance
from sidecar.model.service import ServiceKey
from sidecar.registry import driver as driver_module
from sidecar.registry import heap
from sidecar.registry.driver import LARGE_LIST, RegistryDriver
from sidecar.routing.snapshot import ServiceSnapshot
from sidecar.settings.schema import Registry, Settings
from sidecar.telemetry.counters import Counters


class Services:
    def admit(self, key: ServiceKey, named: bool) -> bool:
        return True

    def remove(self, key: ServiceKey) -> None: ...

    def last_used_ms(self, key: ServiceKey) -> int:
        return 0

    def publish(self, key: ServiceKey, snapshot: ServiceSnapshot) -> None: ...

    def fail(self, key: ServiceKey, reason: str) -> None: ...

    def addresses_changed(
        self, protocol: int, gone: Sequence[str], added: Sequence[Instance]
    ) -> None: ...


async def releases(monkeypatch: pytest.MonkeyPatch, sizes: Sequence[int]) -> int:
    """Return how often the heap was released after lists of these sizes."""
    released: list[None] = []
    monkeypatch.setattr(driver_module, "RELEASE_DELAY", 0.0)
    monkeypatch.setattr(driver_module, "release_heap", lambda: released.append(None))
    settings = Settings(registries=[Registry(name="main", url="zookeeper://127.0.0.1:1/dubbo")])
    driver = RegistryDriver(settings, Services(), Counters(), asyncio.get_running_loop())
    for size in sizes:
        driver.listed("main", Slot(PROVIDERS, "org.example.Greeter"), ["x"] * size)
    await asyncio.sleep(0.01)
    return len(released)


async def test_large_lists_are_followed_by_one_release(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await releases(monkeypatch, [LARGE_LIST, LARGE_LIST * 2]) == 1


async def test_a_small_list_is_not(monkeypatch: pytest.MonkeyPatch) -> None:
    assert await releases(monkeypatch, [LARGE_LIST - 1, 0]) == 0


def test_releasing_does_no_harm(monkeypatch: pytest.MonkeyPatch) -> None:
    heap.release_heap()
    monkeypatch.setattr(heap, "_trim", None)
    heap.release_heap()


def test_a_system_without_the_call_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(heap.ctypes, "CDLL", lambda name: object())
    assert heap._find_trim() is None
