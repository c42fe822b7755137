import pytest

from sidecar.admin.guard import refusal


@pytest.mark.parametrize("peer", ["127.0.0.1", "127.9.9.9", "::1", "::ffff:127.0.0.1", "::1%lo"])
@pytest.mark.parametrize(
    "host", ["127.0.0.1:15021", "localhost:15021", "localhost", "[::1]:15021", "[::1]", "10.0.0.1"]
)
def test_changes_from_this_machine(peer, host):
    assert refusal(peer, {"Host": host}) == ""


@pytest.mark.parametrize("peer", ["10.0.0.1", "::ffff:10.0.0.1", "", "unix"])
def test_fc_74_changes_from_elsewhere(peer):
    assert "this machine only" in refusal(peer, {"Host": "127.0.0.1"})


@pytest.mark.parametrize("host", ["evil.example", "evil.example:15021", "", "localhost.evil:1"])
def test_fc_74_names_of_web_pages(host):
    assert "is not an address" in refusal("127.0.0.1", {"Host": host})


@pytest.mark.parametrize("origin", ["https://evil.example", "null", "http://127.0.0.1:15021"])
def test_fc_74_requests_of_web_pages(origin):
    assert "Origin" in refusal("127.0.0.1", {"Host": "127.0.0.1", "Origin": origin})
