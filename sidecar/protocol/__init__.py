"""Sans-IO codecs: bytes in, values out; no sockets, clocks or tasks."""
