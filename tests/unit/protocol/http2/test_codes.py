"""Error codes against another implementation's table."""

from __future__ import annotations

from h2.errors import ErrorCodes

from sidecar.protocol.http2 import codes


def test_the_codes_of_h2() -> None:
    ours = {name: value for name, value in vars(codes).items() if name.isupper()}
    assert ours.pop("CONNECTION_LOST") not in set(ErrorCodes)
    assert ours == {code.name: int(code) for code in ErrorCodes}
