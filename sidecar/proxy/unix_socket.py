"""The file of a Unix socket: made, taken over from a process that died, removed at the end."""

from __future__ import annotations

import contextlib
import errno
import os
import socket
import stat
from typing import Final

# Consumers of the same user or group: who may open a connection is decided by this mode and by
# the rights of the directory.
MODE: Final = 0o660


class UnixSocket:
    """One path to listen on. Its methods touch the file system, for a moment each."""

    def __init__(self, path: str) -> None:
        self._path: Final = path
        self._made: tuple[int, int, int] | None = None

    def bind(self) -> socket.socket:
        """Return a socket that is bound and does not listen yet; raises OSError.

        A socket file on which nobody listens was left behind by a process that died: it is
        replaced. Anything else at this path stays as it is.
        """
        bound = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        try:
            self._bind(bound)
            self._made = self._identity()
            os.chmod(self._path, MODE)  # before anybody can connect: it does not listen yet
        except BaseException:
            bound.close()
            self.remove()
            raise
        return bound

    def _bind(self, unbound: socket.socket) -> None:
        try:
            unbound.bind(self._path)
        except OSError as error:
            if error.errno != errno.EADDRINUSE:
                raise
            self._remove_stale()
            unbound.bind(self._path)

    def _remove_stale(self) -> None:
        if not stat.S_ISSOCK(os.lstat(self._path).st_mode):
            raise FileExistsError(errno.EEXIST, "the file there is no socket")
        with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as probe:
            probe.setblocking(False)
            try:
                probe.connect(self._path)
            except ConnectionRefusedError:
                os.unlink(self._path)
                return
            except BlockingIOError:
                pass  # somebody listens, and has more connections waiting than it can take
        raise OSError(errno.EADDRINUSE, "another process listens there")

    def remove(self) -> None:
        """Remove the file if it is still the one that ``bind`` made.

        Call it while the socket still listens: a successor that starts at this moment then finds
        either a socket that answers, or none.
        """
        made, self._made = self._made, None
        if made is not None and made == self._identity():
            with contextlib.suppress(OSError):  # rights that were taken away meanwhile; it is stale
                os.unlink(self._path)

    def _identity(self) -> tuple[int, int, int] | None:
        """What tells this file from a later one of the same path; inode numbers are used again."""
        try:
            found = os.lstat(self._path)
        except OSError:
            return None
        return found.st_dev, found.st_ino, found.st_mtime_ns
