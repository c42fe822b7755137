"""What a call is given on its way: values a consumer that dials the sidecar cannot know.

A consumer with a direct URL has not read the provider's registration, so the token, the real path
and the concrete group and version of the chosen instance are added, and the configured default
tag when the call has none. Each is added only where it differs from what the call says already.
"""

from __future__ import annotations

from sidecar.model.instance import Instance
from sidecar.model.service import NO_VERSION
from sidecar.protocol.dubbo.frame import Frame
from sidecar.protocol.dubbo.message import RequestHead, append_attachments
from sidecar.proxy.dubbo.downstream import DubboCall


def outgoing(call: DubboCall, frame: Frame, default_tag: str) -> bytes:
    """Return the frame of a call for its chosen instance, still under the consumer's id."""
    head = call.head
    instance = call.instance
    if instance is None or not head.is_readable:
        return frame.raw
    if (
        not instance.token
        and (not default_tag or head.tag)
        and instance.path == head.path
        and instance.group == head.group
        and instance.version == head.version
    ):
        return frame.raw
    pairs = _pairs(head, instance, default_tag)
    if not pairs:
        return frame.raw
    return append_attachments(frame.raw, frame.serialization, pairs)


def _pairs(head: RequestHead, instance: Instance, default_tag: str) -> list[tuple[str, str]]:
    pairs: list[tuple[str, str]] = []
    if instance.token:
        pairs.append(("token", instance.token))
    if instance.path and instance.path != head.path:
        pairs.append(("path", instance.path))
    if instance.group != head.group:
        pairs.append(("group", instance.group))
    if instance.version != head.version:
        pairs.append(("version", instance.version or NO_VERSION))
    if default_tag and not head.tag:
        pairs.append(("dubbo.tag", default_tag))
    return pairs
