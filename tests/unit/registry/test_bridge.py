from __future__ import annotations

import threading

from sidecar.registry.bridge import Bridge
from tests.fixtures.loop import StillLoop


def make():
    loop, taken = StillLoop(), []
    return loop, taken, Bridge(loop, taken.append)


def test_a_burst_is_one_wakeup_and_one_batch_in_order():
    loop, taken, bridge = make()
    for k in range(100):
        bridge.put(k)
    assert loop.wakeups == 1
    loop.run()
    assert taken == [list(range(100))]
    bridge.put(100)
    loop.run()
    assert loop.wakeups == 2
    assert taken[1] == [100]


def test_what_is_put_while_a_batch_is_taken_comes_with_the_next():
    loop = StillLoop()
    taken = []

    def take(items):
        taken.append(items)
        if len(taken) == 1:
            bridge.put("later")

    bridge = Bridge(loop, take)
    bridge.put("now")
    loop.run()
    assert taken == [["now"], ["later"]]


def test_nothing_is_delivered_after_close():
    loop, taken, bridge = make()
    bridge.put(1)
    bridge.close()
    bridge.put(2)
    loop.run()
    assert taken == []


def test_a_closed_loop_is_no_error():
    class Closed(StillLoop):
        def call_soon_threadsafe(self, *_):
            raise RuntimeError("Event loop is closed")

    Bridge(Closed(), list).put(1)


def test_an_empty_delivery_is_none():
    loop, taken, bridge = make()
    bridge.put(1)
    bridge._items.clear()
    loop.run()
    assert taken == []


async def test_many_threads_lose_nothing():
    import asyncio

    loop = asyncio.get_running_loop()
    taken = []
    done = asyncio.Event()

    def take(items):
        taken.extend(items)
        if len(taken) == 4000:
            done.set()

    bridge = Bridge(loop, take)
    threads = [
        threading.Thread(target=lambda t=t: [bridge.put((t, k)) for k in range(1000)])
        for t in range(4)
    ]
    for thread in threads:
        thread.start()
    await asyncio.wait_for(done.wait(), 10)
    for thread in threads:
        thread.join()
    for t in range(4):
        assert [k for who, k in taken if who == t] == list(range(1000))
