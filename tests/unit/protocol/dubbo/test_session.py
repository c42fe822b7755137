"""Session tables and the liveness of a silent peer."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from sidecar.protocol.dubbo.session import ClientSession, ServerSession


def test_every_call_gets_an_id_of_its_own():
    session = ClientSession()
    ids = [session.admit(name) for name in "abc"]
    assert len(set(ids)) == 3
    assert all(len(id8) == 8 for id8 in ids)
    assert [session.take(id8) for id8 in reversed(ids)] == ["c", "b", "a"]
    assert len(session) == 0


def test_a_reply_is_taken_once():
    session = ClientSession()
    id8 = session.admit("call")
    assert session.take(id8) == "call"
    assert session.take(id8) is None


def test_a_late_reply_is_told_from_one_never_asked_for():
    session = ClientSession()
    id8 = session.admit("call")
    session.take(id8)
    assert session.has_issued(id8)
    assert not session.has_issued((2).to_bytes(8, "big"))
    assert not session.has_issued(b"\0" * 8)
    assert not session.has_issued(b"\xff" * 8)


def test_a_heartbeat_id_belongs_to_no_call():
    session = ClientSession()
    id8 = session.next_id()
    assert session.take(id8) is None
    assert session.admit("call") != id8


def test_is_full_at_its_limit():
    session = ClientSession(2)
    first = session.admit("a")
    assert not session.is_full
    session.admit("b")
    assert session.is_full
    session.take(first)
    assert not session.is_full


def test_takes_all_in_order():
    session = ClientSession()
    for name in "abc":
        session.admit(name)
    assert session.take_all() == ["a", "b", "c"]
    assert session.take_all() == []


@given(st.lists(st.tuples(st.booleans(), st.integers(0, 20)), max_size=80))
def test_client_session_agrees_with_a_plain_dict(script):
    session = ClientSession()
    model = {}
    for number, (adds, index) in enumerate(script):
        if adds:
            model[session.admit(number)] = number
        elif model:
            id8 = list(model)[index % len(model)]
            assert session.take(id8) == model.pop(id8)
        assert len(session) == len(model)
    assert session.take_all() == list(model.values())


def test_server_session_refuses_above_its_limit():
    session = ServerSession(2)
    assert session.admit("a")
    assert session.admit("b")
    assert not session.admit("c")
    assert len(session) == 2
    session.release("a")
    session.release("never admitted")
    assert session.admit("c")
    assert sorted(session.take_all()) == ["b", "c"]
    assert len(session) == 0
