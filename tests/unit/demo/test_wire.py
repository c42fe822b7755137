from sidecar.demo.wire import INTERFACE, METHOD, greet_reply, greet_request, reply_text
from sidecar.protocol.dubbo.frame import STATUS_SERVER_ERROR, FrameReader
from sidecar.protocol.dubbo.message import RequestReader
from sidecar.protocol.dubbo.reply import error_reply


def only(data):
    (frame,) = FrameReader(1 << 20).feed(data)
    return frame


def test_a_request_is_what_the_sidecar_reads():
    frame = only(greet_request(7, "demo", "gray"))
    head = RequestReader().read(frame)
    assert (head.service, head.method, head.tag) == (INTERFACE, METHOD, "gray")
    assert frame.id8 == (7).to_bytes(8, "big")
    assert RequestReader().read(only(greet_request(7, "demo", ""))).tag == ""


def test_replies():
    request = only(greet_request(7, "demo", ""))
    reply = only(greet_reply(request, "Hello from a1"))
    assert reply.id8 == request.id8
    assert reply_text(reply) == (True, "Hello from a1")
    error = only(error_reply(request.id8, STATUS_SERVER_ERROR, "CONNECT_FAILED: x"))
    assert reply_text(error) == (False, "CONNECT_FAILED: x")
    null = reply.raw[:12] + b"\x00\x00\x00\x01\x92"
    assert reply_text(only(null)) == (False, "a reply of kind 0x92")
