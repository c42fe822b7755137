"""The messages and methods of gRPC's interop test service, made without a protobuf compiler.

The schema is what the cases need of ``grpc/testing/messages.proto``; numbers and types are those of
the published file, with enumerations as the integers they are on the wire.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

PACKAGE = "grpc.testing"
SERVICE = f"{PACKAGE}.TestService"
UNIMPLEMENTED_SERVICE = f"{PACKAGE}.UnimplementedService"
FACTS = "/peer.Facts/Get"
"""A server's own account of a call; asked of the server itself, never through a proxy."""

MARK = "x-test-mark"
"""Metadata that names a call in the server's account."""

ECHO_INITIAL = "x-grpc-test-echo-initial"
ECHO_TRAILING = "x-grpc-test-echo-trailing-bin"

SCHEMA = """
Empty
Payload type:int32=1 body:bytes=2
EchoStatus code:int32=1 message:string=2
BoolValue value:bool=1
SimpleRequest response_type:int32=1 response_size:int32=2 payload:Payload=3
SimpleRequest response_compressed:BoolValue=6 response_status:EchoStatus=7
SimpleResponse payload:Payload=1 hostname:string=6
StreamingInputCallRequest payload:Payload=1
StreamingInputCallResponse aggregated_payload_size:int32=1
ResponseParameters size:int32=1 interval_us:int32=2
StreamingOutputCallRequest response_type:int32=1 response_parameters:*ResponseParameters=2
StreamingOutputCallRequest payload:Payload=3 response_status:EchoStatus=7
StreamingOutputCallResponse payload:Payload=1
"""

METHODS: Final[Mapping[str, tuple[str, str, str]]] = {
    "EmptyCall": ("unary_unary", "Empty", "Empty"),
    "UnaryCall": ("unary_unary", "SimpleRequest", "SimpleResponse"),
    "StreamingOutputCall": (
        "unary_stream", "StreamingOutputCallRequest", "StreamingOutputCallResponse",
    ),
    "StreamingInputCall": (
        "stream_unary", "StreamingInputCallRequest", "StreamingInputCallResponse",
    ),
    "FullDuplexCall": (
        "stream_stream", "StreamingOutputCallRequest", "StreamingOutputCallResponse",
    ),
    "UnimplementedCall": ("unary_unary", "Empty", "Empty"),
}  # fmt: skip
"""Kind, request and response of each method."""

Field = descriptor_pb2.FieldDescriptorProto
SCALARS = {
    "int32": Field.TYPE_INT32,
    "bytes": Field.TYPE_BYTES,
    "string": Field.TYPE_STRING,
    "bool": Field.TYPE_BOOL,
}


def _describe_field(message: descriptor_pb2.DescriptorProto, text: str) -> None:
    name, _, rest = text.partition(":")
    kind, _, number = rest.partition("=")
    field = message.field.add(name=name, number=int(number), label=Field.LABEL_OPTIONAL)
    if kind.startswith("*"):
        field.label, kind = Field.LABEL_REPEATED, kind[1:]
    if kind in SCALARS:
        field.type = SCALARS[kind]
    else:
        field.type, field.type_name = Field.TYPE_MESSAGE, f".{PACKAGE}.{kind}"


def _describe() -> descriptor_pb2.FileDescriptorProto:
    file = descriptor_pb2.FileDescriptorProto(
        name="grpc/testing/test.proto", package=PACKAGE, syntax="proto3"
    )
    messages: dict[str, descriptor_pb2.DescriptorProto] = {}
    for line in SCHEMA.split("\n"):
        name, *fields = line.split() or [""]
        if name and name not in messages:
            messages[name] = file.message_type.add(name=name)
        for text in fields:
            _describe_field(messages[name], text)
    service = file.service.add(name=SERVICE.rpartition(".")[2])
    for name, (kind, request, response) in METHODS.items():
        service.method.add(
            name=name,
            input_type=f".{PACKAGE}.{request}",
            output_type=f".{PACKAGE}.{response}",
            client_streaming=kind.startswith("stream"),
            server_streaming=kind.endswith("stream"),
        )
    return file


_POOL = descriptor_pool.Default()
_POOL.Add(_describe())


def message(name: str) -> Any:
    """Return the class of a message."""
    return message_factory.GetMessageClass(_POOL.FindMessageTypeByName(f"{PACKAGE}.{name}"))


Empty = message("Empty")
Payload = message("Payload")
EchoStatus = message("EchoStatus")
SimpleRequest = message("SimpleRequest")
SimpleResponse = message("SimpleResponse")
InputRequest = message("StreamingInputCallRequest")
InputResponse = message("StreamingInputCallResponse")
Parameters = message("ResponseParameters")
OutputRequest = message("StreamingOutputCallRequest")
OutputResponse = message("StreamingOutputCallResponse")


def payload(size: int) -> Any:
    """A payload of zeros."""
    return Payload(body=bytes(size))


def output_request(*sizes: int, interval_us: int = 0, sent: int = 0) -> Any:
    """Ask for responses of these sizes, each after an interval, by a payload of ``sent`` bytes."""
    return OutputRequest(
        response_parameters=[Parameters(size=size, interval_us=interval_us) for size in sizes],
        payload=payload(sent) if sent else None,
    )


class Stub:
    """The methods of one service on a channel, synchronous or asyncio alike.

    ``metadata`` goes with every call, before the call's own.
    """

    def __init__(
        self, channel: Any, metadata: tuple[tuple[str, str], ...] = (), service: str = SERVICE
    ) -> None:
        self.channel = channel
        self.metadata = metadata
        self._methods = {
            name: getattr(channel, kind)(
                f"/{service}/{name}",
                request_serializer=message(request).SerializeToString,
                response_deserializer=message(response).FromString,
            )
            for name, (kind, request, response) in METHODS.items()
        }

    def call(self, method: str, request: Any, metadata: Any = (), **words: Any) -> Any:
        """Begin one call and return what the channel returns."""
        return self._methods[method](request, metadata=(*self.metadata, *metadata), **words)

    def future(self, method: str, request: Any, metadata: Any = (), **words: Any) -> Any:
        """Begin one call with a single response that can be cancelled (synchronous channels)."""
        return self._methods[method].future(request, metadata=(*self.metadata, *metadata), **words)
