import errno
import os
import socket
import stat
from pathlib import Path

import pytest

from sidecar.proxy import unix_socket
from sidecar.proxy.unix_socket import UnixSocket


@pytest.fixture
def path(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)  # a path of pytest may be longer than a socket's may be
    return "s.sock"


def leave_behind(path):
    """A process listened here and died."""
    with socket.socket(socket.AF_UNIX) as dead:
        dead.bind(path)


def test_its_file_is_for_the_user_and_the_group_before_it_listens(path):
    old = os.umask(0)
    try:
        with UnixSocket(path).bind():
            status = os.stat(path)
            assert stat.S_ISSOCK(status.st_mode)
            assert stat.S_IMODE(status.st_mode) == 0o660
            with socket.socket(socket.AF_UNIX) as early, pytest.raises(ConnectionRefusedError):
                early.connect(path)
    finally:
        os.umask(old)


def test_a_file_left_behind_is_replaced(path):
    leave_behind(path)
    with UnixSocket(path).bind() as bound:
        bound.listen()
        with socket.socket(socket.AF_UNIX) as consumer:
            consumer.connect(path)


def test_a_file_that_is_no_socket_stays(path):
    Path(path).write_text("precious")
    with pytest.raises(FileExistsError) as caught:
        UnixSocket(path).bind()
    assert caught.value.strerror == "the file there is no socket"
    assert Path(path).read_text() == "precious"


def test_a_link_is_not_followed(path, tmp_path):
    leave_behind("target")
    os.symlink("target", path)
    with pytest.raises(FileExistsError):
        UnixSocket(path).bind()
    assert sorted(os.listdir(tmp_path)) == [path, "target"]


@pytest.mark.parametrize("waiting", [0, 1])
def test_a_socket_somebody_listens_on_stays(path, waiting):
    with socket.socket(socket.AF_UNIX) as other, socket.socket(socket.AF_UNIX) as consumer:
        other.bind(path)
        other.listen(0)
        if waiting:
            consumer.connect(path)  # the queue is full: the next one cannot connect at once
        with pytest.raises(OSError, match="another process listens there") as caught:
            UnixSocket(path).bind()
        assert caught.value.errno == errno.EADDRINUSE
        assert os.path.exists(path)


def test_a_socket_of_another_kind_stays(path):
    with socket.socket(socket.AF_UNIX, socket.SOCK_DGRAM) as other:
        other.bind(path)
        with pytest.raises(OSError, match="Protocol wrong type"):
            UnixSocket(path).bind()
        assert os.path.exists(path)


def test_no_directory(path):
    with pytest.raises(FileNotFoundError):
        UnixSocket("none/" + path).bind()


def test_rights_that_cannot_be_set_leave_nothing(path, monkeypatch):
    def refuse(*_arguments):
        raise PermissionError(errno.EPERM, "no")

    monkeypatch.setattr(unix_socket.os, "chmod", refuse)
    with pytest.raises(PermissionError):
        UnixSocket(path).bind()
    assert not os.path.exists(path)


def test_the_file_is_removed_once(path):
    file = UnixSocket(path)
    file.remove()
    with file.bind():
        file.remove()
        assert not os.path.exists(path)
        leave_behind(path)
        file.remove()
        assert os.path.exists(path)


def test_the_file_of_a_successor_stays(path):
    file = UnixSocket(path)
    with file.bind():
        os.unlink(path)
        leave_behind(path)
        os.utime(path, ns=(1, 1))  # its inode number may be the same
        file.remove()
        assert os.path.exists(path)


def test_a_file_that_is_gone_or_cannot_be_removed_is_no_error(path, monkeypatch):
    file = UnixSocket(path)
    with file.bind():
        os.unlink(path)
        file.remove()

    def refuse(*_arguments):
        raise PermissionError(errno.EPERM, "no")

    with file.bind():
        with monkeypatch.context() as patch:
            patch.setattr(unix_socket.os, "unlink", refuse)
            file.remove()
        assert os.path.exists(path)
