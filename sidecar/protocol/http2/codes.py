"""Error codes of RST_STREAM and GOAWAY frames (RFC 9113, section 7)."""

from __future__ import annotations

from typing import Final

NO_ERROR: Final = 0x0
PROTOCOL_ERROR: Final = 0x1
INTERNAL_ERROR: Final = 0x2
FLOW_CONTROL_ERROR: Final = 0x3
SETTINGS_TIMEOUT: Final = 0x4
STREAM_CLOSED: Final = 0x5
FRAME_SIZE_ERROR: Final = 0x6
REFUSED_STREAM: Final = 0x7
CANCEL: Final = 0x8
COMPRESSION_ERROR: Final = 0x9
CONNECT_ERROR: Final = 0xA
ENHANCE_YOUR_CALM: Final = 0xB
INADEQUATE_SECURITY: Final = 0xC
HTTP_1_1_REQUIRED: Final = 0xD

# Never on the wire: the connection ended under the stream.
CONNECTION_LOST: Final = -1
