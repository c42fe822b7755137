"""Reads the vector files: bytes that other implementations wrote or must accept.

Two forms. A ``.hex`` file is one message: comment lines and hexadecimal text. A ``.txt`` file has
one message per line, ``name = bytes``, where bytes are words of hexadecimal text, ``"text"`` in
ASCII without blanks, or ``word*n`` for n copies of a word.
"""

from __future__ import annotations

from pathlib import Path

ROOT = Path(__file__).parent


def message(path: Path) -> bytes:
    """Return the bytes of a ``.hex`` file."""
    lines = path.read_text(encoding="utf-8").splitlines()
    return bytes.fromhex("".join(line for line in lines if not line.startswith("#")))


def messages(name: str) -> dict[str, bytes]:
    """Return the messages of a ``.txt`` file, given relative to this directory."""
    found: dict[str, bytes] = {}
    for line in (ROOT / name).read_text(encoding="utf-8").splitlines():
        if line and not line.startswith("#"):
            label, _, words = line.partition(" = ")
            assert label not in found, label
            found[label] = b"".join(map(_word, words.split()))
    return found


def _word(word: str) -> bytes:
    text, _, count = word.partition("*")
    data = text[1:-1].encode("ascii") if text.startswith('"') else bytes.fromhex(text)
    return data * int(count or 1)
