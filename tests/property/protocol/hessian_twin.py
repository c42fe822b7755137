"""A slow Hessian 2 encoder and decoder that build everything, to compare the skipper with.

Values: None, bool, str, bytes, and tuples ``("int", n)``, ``("long", n)``, ``("double", x)``,
``("date", milliseconds)``, ``("list", type, items)``, ``("map", type, pairs)``,
``("object", class, ((field, value), ...))``, ``("reference", index)``. A type is None or a name.
"""

from __future__ import annotations

import random
import struct
from typing import Any

from hypothesis import strategies as st


def to_units(text: str) -> list[int]:
    data = text.encode("utf-16-be", "surrogatepass")
    return [int.from_bytes(data[at : at + 2], "big") for at in range(0, len(data), 2)]


def from_units(units: list[int]) -> str:
    data = b"".join(unit.to_bytes(2, "big") for unit in units)
    return data.decode("utf-16-be", "surrogatepass")


class Decoder:
    """Decodes one value after another; raises ValueError or IndexError for what is malformed."""

    def __init__(self, data: bytes) -> None:
        self.data = data
        self.pos = 0
        self.classes: list[tuple[str, list[str]]] = []
        self.types: list[str] = []

    def byte(self) -> int:
        self.pos += 1
        return self.data[self.pos - 1]

    def raw(self, size: int) -> bytes:
        if size > len(self.data) - self.pos:
            raise ValueError("cut short")
        self.pos += size
        return self.data[self.pos - size : self.pos]

    def number(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "big", signed=True)

    def unsigned(self, size: int) -> int:
        return int.from_bytes(self.raw(size), "big")

    def unit(self) -> int:
        lead = self.byte()
        if lead < 0x80:
            return lead
        if 0xC0 <= lead < 0xE0:
            return (lead & 0x1F) << 6 | self.byte() & 0x3F
        if 0xE0 <= lead < 0xF0:
            return (lead & 0x0F) << 12 | (self.byte() & 0x3F) << 6 | self.byte() & 0x3F
        raise ValueError("bad character")

    def units(self) -> list[int]:
        tag = self.byte()
        if tag <= 0x1F:
            return [self.unit() for _ in range(tag)]
        if 0x30 <= tag <= 0x33:
            return [self.unit() for _ in range((tag - 0x30) * 256 + self.unsigned(1))]
        if tag == ord("S"):
            return [self.unit() for _ in range(self.unsigned(2))]
        if tag == ord("R"):
            chunk = [self.unit() for _ in range(self.unsigned(2))]
            return chunk + self.units()
        raise ValueError("no string")

    def string(self) -> str:
        return from_units(self.units())

    def binary(self) -> bytes:
        tag = self.byte()
        if 0x20 <= tag <= 0x2F:
            return self.raw(tag - 0x20)
        if 0x34 <= tag <= 0x37:
            return self.raw((tag - 0x34) * 256 + self.unsigned(1))
        if tag == ord("B"):
            return self.raw(self.unsigned(2))
        if tag == ord("A"):
            chunk = self.raw(self.unsigned(2))
            return chunk + self.binary()
        raise ValueError("no binary")

    def integer(self) -> int:
        tag = self.byte()
        if 0x80 <= tag <= 0xBF:
            return tag - 0x90
        if 0xC0 <= tag <= 0xCF:
            return (tag - 0xC8) * 256 + self.unsigned(1)
        if 0xD0 <= tag <= 0xD7:
            return (tag - 0xD4) * 65536 + self.unsigned(2)
        if tag == ord("I"):
            return self.number(4)
        raise ValueError("no int")

    def long(self) -> int:
        tag = self.byte()
        if 0xD8 <= tag <= 0xEF:
            return tag - 0xE0
        if tag >= 0xF0:
            return (tag - 0xF8) * 256 + self.unsigned(1)
        if 0x38 <= tag <= 0x3F:
            return (tag - 0x3C) * 65536 + self.unsigned(2)
        return self.number(4) if tag == 0x59 else self.number(8)

    def double(self) -> float:
        tag = self.byte()
        if tag in (0x5B, 0x5C):
            return float(tag - 0x5B)
        if tag == 0x5F:
            return self.number(4) * 0.001
        if tag in (0x5D, 0x5E):
            return float(self.number(tag - 0x5C))
        return float(struct.unpack(">d", self.raw(8))[0])

    def type(self) -> str:
        tag = self.data[self.pos]
        if tag <= 0x1F or 0x30 <= tag <= 0x33 or tag in b"RS":
            self.types.append(self.string())
            return self.types[-1]
        index = self.integer()
        if not 0 <= index < len(self.types):
            raise ValueError("no such type")
        return self.types[index]

    def items(self, count: int) -> list[Any]:
        return [self.value() for _ in range(self.checked(count))]

    def items_to_end(self) -> list[Any]:
        items = []
        while self.data[self.pos] != ord("Z"):
            items.append(self.value())
        self.pos += 1
        return items

    def checked(self, count: int) -> int:
        if not 0 <= count <= len(self.data) - self.pos:
            raise ValueError("bad count")
        return count

    def map(self, type_name: str | None) -> Any:
        items = self.items_to_end()
        if len(items) % 2:
            raise ValueError("a key without a value")
        return ("map", type_name, tuple(zip(items[::2], items[1::2], strict=True)))

    def object(self, index: int) -> Any:
        if not 0 <= index < len(self.classes):
            raise ValueError("no such class")
        name, fields = self.classes[index]
        self.checked(len(fields))
        return ("object", name, tuple((field, self.value()) for field in fields))

    def define(self) -> None:
        name = self.string()
        count = self.checked(self.integer())
        self.classes.append((name, [self.string() for _ in range(count)]))

    def value(self) -> Any:
        while self.data[self.pos] == ord("C"):
            self.pos += 1
            self.define()
        tag = self.data[self.pos]
        if tag <= 0x1F or 0x30 <= tag <= 0x33 or tag in b"RS":
            return self.string()
        if 0x20 <= tag <= 0x2F or 0x34 <= tag <= 0x37 or tag in b"AB":
            return self.binary()
        if 0x80 <= tag <= 0xD7 or tag == ord("I"):
            return ("int", self.integer())
        if tag >= 0xD8 or 0x38 <= tag <= 0x3F or tag in b"\x59L":
            return ("long", self.long())
        if 0x5B <= tag <= 0x5F or tag == ord("D"):
            return ("double", self.double())
        self.pos += 1
        return self.rest(tag)

    def rest(self, tag: int) -> Any:
        if tag in b"NTF":
            return {ord("N"): None, ord("T"): True, ord("F"): False}[tag]
        if tag in b"\x4a\x4b":
            return ("date", self.number(8) if tag == 0x4A else self.number(4) * 60_000)
        if tag == ord("Q"):
            return ("reference", self.integer())
        if tag == ord("O"):
            return self.object(self.integer())
        if 0x60 <= tag <= 0x6F:
            return self.object(tag - 0x60)
        if tag in b"HM":
            return self.map(self.type() if tag == ord("M") else None)
        return self.list(tag)

    def list(self, tag: int) -> Any:
        has_type = tag in (0x55, 0x56) or 0x70 <= tag <= 0x77
        type_name = self.type() if has_type else None
        if tag in (0x55, 0x57):
            items = self.items_to_end()
        elif tag in (0x56, 0x58):
            items = self.items(self.integer())
        elif 0x70 <= tag <= 0x7F:
            items = self.items(tag & 7)
        else:
            raise ValueError("no value")
        return ("list", type_name, tuple(items))


class Encoder:
    """Encodes values one after another, each in a legal form that ``choice`` picks."""

    def __init__(self, choice: random.Random) -> None:
        self.choice = choice
        self.out = bytearray()
        self.classes: list[tuple[str, tuple[str, ...]]] = []
        self.types: list[str] = []

    def put(self, *parts: bytes | int) -> None:
        for part in parts:
            self.out += bytes([part]) if isinstance(part, int) else part

    def string(self, text: str) -> None:
        units = to_units(text)
        while units and self.choice.random() < 0.2:
            size = self.choice.randint(0, len(units))
            self.put(b"R", size.to_bytes(2, "big"))
            self.characters(units[:size])
            units = units[size:]
        heads = [b"S" + len(units).to_bytes(2, "big")]
        if len(units) <= 0x1F:
            heads += [bytes([len(units)])] * 3
        if len(units) <= 0x3FF:
            heads.append(bytes([0x30 + len(units) // 256, len(units) % 256]))
        self.put(self.choice.choice(heads))
        self.characters(units)

    def characters(self, units: list[int]) -> None:
        for unit in units:
            self.put(chr(unit).encode("utf-8", "surrogatepass"))

    def binary(self, data: bytes) -> None:
        while data and self.choice.random() < 0.2:
            size = self.choice.randint(0, len(data))
            self.put(b"A", size.to_bytes(2, "big"), data[:size])
            data = data[size:]
        heads = [b"B" + len(data).to_bytes(2, "big")]
        if len(data) <= 0x0F:
            heads.append(bytes([0x20 + len(data)]))
        if len(data) <= 0x3FF:
            heads.append(bytes([0x34 + len(data) // 256, len(data) % 256]))
        self.put(self.choice.choice(heads), data)

    def integer(self, value: int) -> None:
        forms = [b"I" + value.to_bytes(4, "big", signed=True)]
        if -0x10 <= value <= 0x2F:
            forms.append(bytes([0x90 + value]))
        if -0x800 <= value <= 0x7FF:
            forms.append((0xC800 + value).to_bytes(2, "big"))
        if -0x40000 <= value <= 0x3FFFF:
            forms.append((0xD40000 + value).to_bytes(3, "big"))
        self.put(self.choice.choice(forms))

    def long(self, value: int) -> None:
        forms = [b"L" + value.to_bytes(8, "big", signed=True)]
        if -8 <= value <= 15:
            forms.append(bytes([0xE0 + value]))
        if -0x800 <= value <= 0x7FF:
            forms.append((0xF800 + value).to_bytes(2, "big"))
        if -0x40000 <= value <= 0x3FFFF:
            forms.append((0x3C0000 + value).to_bytes(3, "big"))
        if -(2**31) <= value < 2**31:
            forms.append(b"\x59" + value.to_bytes(4, "big", signed=True))
        self.put(self.choice.choice(forms))

    def double(self, value: float) -> None:
        forms = [b"D" + struct.pack(">d", value)]
        if str(value) == "-0.0":
            return self.put(*forms)
        if value in (0.0, 1.0):
            forms.append(bytes([0x5B + int(value)]))
        if value.is_integer() and -128 <= value <= 127:
            forms.append(b"\x5d" + int(value).to_bytes(1, "big", signed=True))
        if value.is_integer() and -32768 <= value <= 32767:
            forms.append(b"\x5e" + int(value).to_bytes(2, "big", signed=True))
        thousandths = round(value * 1000) if abs(value) < 2_000_000 else 0
        if thousandths * 0.001 == value:
            forms.append(b"\x5f" + thousandths.to_bytes(4, "big", signed=True))
        return self.put(self.choice.choice(forms))

    def date(self, milliseconds: int) -> None:
        forms = [b"\x4a" + milliseconds.to_bytes(8, "big", signed=True)]
        if milliseconds % 60_000 == 0 and abs(milliseconds) < 2**31 * 60_000:
            forms.append(b"\x4b" + (milliseconds // 60_000).to_bytes(4, "big", signed=True))
        self.put(self.choice.choice(forms))

    def type(self, name: str) -> None:
        if name in self.types and self.choice.random() < 0.7:
            self.integer(self.types.index(name))
        else:
            self.types.append(name)
            self.string(name)

    def list(self, type_name: str | None, items: tuple[Any, ...]) -> None:
        is_typed = type_name is not None
        forms = ["variable", "fixed"]
        if len(items) <= 7:
            forms.append("short")
        form = self.choice.choice(forms)
        if form == "short":
            self.put((0x70 if is_typed else 0x78) + len(items))
        elif form == "fixed":
            self.put(0x56 if is_typed else 0x58)
        else:
            self.put(0x55 if is_typed else 0x57)
        if type_name is not None:
            self.type(type_name)
        if form == "fixed":
            self.integer(len(items))
        for item in items:
            self.value(item)
        if form == "variable":
            self.put(b"Z")

    def map(self, type_name: str | None, pairs: tuple[tuple[Any, Any], ...]) -> None:
        self.put(b"H" if type_name is None else b"M")
        if type_name is not None:
            self.type(type_name)
        for key, value in pairs:
            self.value(key)
            self.value(value)
        self.put(b"Z")

    def object(self, name: str, fields: tuple[tuple[str, Any], ...]) -> None:
        shape = (name, tuple(field for field, _ in fields))
        if shape not in self.classes:
            self.define(shape)
            if self.choice.random() < 0.1:
                self.define(("Unused", ("a", "b")))
        index = self.classes.index(shape)
        if index <= 0x0F and self.choice.random() < 0.7:
            self.put(0x60 + index)
        else:
            self.put(b"O")
            self.integer(index)
        for _, value in fields:
            self.value(value)

    def define(self, shape: tuple[str, tuple[str, ...]]) -> None:
        self.classes.append(shape)
        self.put(b"C")
        self.string(shape[0])
        self.integer(len(shape[1]))
        for field in shape[1]:
            self.string(field)

    def value(self, value: Any) -> None:
        if value is None or isinstance(value, bool):
            self.put({None: b"N", True: b"T", False: b"F"}[value])
        elif isinstance(value, str):
            self.string(value)
        elif isinstance(value, bytes):
            self.binary(value)
        else:
            kind, *parts = value
            if kind == "reference":
                self.put(b"Q")
                self.integer(*parts)
            else:
                method = "integer" if kind == "int" else kind
                getattr(self, method)(*parts)


TEXTS = st.text(max_size=40) | st.sampled_from(["x" * 1100, "中" * 400, "😀" * 20, "é"])
NAMES = st.sampled_from(["A", "B", "com.example.Order", "[int", "类"])
TYPES = st.none() | NAMES
LEAVES = st.one_of(
    st.none(),
    st.booleans(),
    TEXTS,
    st.binary(max_size=40) | st.just(b"\x5a" * 1100),
    st.tuples(st.just("int"), st.integers(-300_000, 300_000) | st.integers(-(2**31), 2**31 - 1)),
    st.tuples(st.just("long"), st.integers(-300_000, 300_000) | st.integers(-(2**63), 2**63 - 1)),
    st.tuples(
        st.just("double"),
        st.floats(allow_nan=False) | st.sampled_from([0.0, 1.0, -5.0, 300.0, 12.25, 0.1]),
    ),
    st.tuples(st.just("date"), st.integers(-(10**13), 10**13) | st.just(1_700_000_040_000)),
    st.tuples(st.just("reference"), st.integers(0, 3000)),
)


def _containers(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    items = st.lists(inner, max_size=9).map(tuple)
    pairs = st.lists(st.tuples(inner, inner), max_size=4).map(tuple)
    fields = st.lists(st.tuples(st.sampled_from("abc"), inner), max_size=3).map(tuple)
    return st.one_of(
        st.tuples(st.just("list"), TYPES, items),
        st.tuples(st.just("map"), TYPES, pairs),
        st.tuples(st.just("object"), NAMES, fields),
    )


CHOICES = st.integers(0, 2**32).map(random.Random)
VALUES = st.recursive(LEAVES, _containers, max_leaves=25)


def encode(values: list[Any], choice: random.Random) -> bytes:
    encoder = Encoder(choice)
    for value in values:
        encoder.value(value)
    return bytes(encoder.out)
