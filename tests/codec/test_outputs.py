"""Files that a user names: links are followed, devices and FIFOs written to, none replaced."""

from __future__ import annotations

import os
import socket
import stat
import threading
from collections.abc import Callable
from pathlib import Path

import pytest

from lanescope.codec.files import PART, write_atomically, write_text
from lanescope.errors import InputError
from lanescope.units.values import File

#: Of Linux: the numbers of /dev/null and /dev/full, of which the tests make their own.
NULL, FULL = (1, 3), (1, 7)


@pytest.fixture
def device(tmp_path: Path) -> Callable[[tuple[int, int]], Path]:
    def make(numbers: tuple[int, int]) -> Path:
        path = tmp_path / f"device-{numbers[1]}.html"
        try:
            os.mknod(path, 0o666 | stat.S_IFCHR, os.makedev(*numbers))
            path.open("wb").close()
        except OSError as error:
            pytest.skip(f"no device nodes can be made and opened here: {error}")
        return path

    return make


def read_in_background(fifo: Path) -> Callable[[], bytes]:
    found: list[bytes] = []
    opened = os.open(fifo, os.O_RDONLY | os.O_NONBLOCK)
    os.set_blocking(opened, True)

    def read() -> None:
        with os.fdopen(opened, "rb") as file:
            found.append(file.read())

    def wait() -> bytes:
        reader = threading.Thread(target=read, daemon=True)
        reader.start()
        reader.join(10)
        return found[0]

    return wait


def test_nothing_is_left_where_ctrl_c_comes_while_the_file_is_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    opened = os.open

    def interrupted(*arguments: object, **options: object) -> int:
        descriptor = opened(*arguments, **options)  # type: ignore[arg-type]
        if any(one.name.endswith(PART) for one in tmp_path.iterdir()):
            os.close(descriptor)
            raise KeyboardInterrupt
        return descriptor

    monkeypatch.setattr(os, "open", interrupted)
    with pytest.raises(KeyboardInterrupt):
        write_atomically(tmp_path / "page.html", b"whole")
    assert not list(tmp_path.iterdir())


def test_a_link_is_followed_and_stays(tmp_path: Path):
    (tmp_path / "there").mkdir()
    target = tmp_path / "there/page.html"
    target.write_text("before")
    (tmp_path / "first").symlink_to("there/page.html")
    (tmp_path / "link").symlink_to(tmp_path / "first")
    before = target.stat().st_ino
    write_text(tmp_path / "link", "after")
    assert (tmp_path / "link").is_symlink()
    assert (tmp_path / "first").is_symlink()
    assert target.read_text() == "after"
    assert target.stat().st_ino != before, "it was not replaced at once"
    assert os.listdir(tmp_path / "there") == ["page.html"]


def test_a_link_to_nothing_makes_its_target_in_a_folder_that_is_there(tmp_path: Path):
    (tmp_path / "link").symlink_to("new")
    write_text(tmp_path / "link", "text")
    assert (tmp_path / "new").read_text() == "text"
    (tmp_path / "lost").symlink_to("nowhere/new")
    with pytest.raises(InputError, match=r"cannot write .*lost: No such file"):
        write_text(tmp_path / "lost", "text")
    with pytest.raises(InputError, match=r"there is no folder '.*/nowhere'; make it first"):
        File("--to").read(str(tmp_path / "lost"))
    (tmp_path / "round").symlink_to("round")
    with pytest.raises(InputError, match=r"cannot write .*round: Too many levels"):
        write_text(tmp_path / "round", "text")


def test_a_link_in_a_run_folder_is_replaced(tmp_path: Path):
    (tmp_path / "other").write_text("other")
    for write in (
        lambda path: write_text(path, "page", inner=1),
        lambda path: write_atomically(path, b"page"),
    ):
        (tmp_path / "link").unlink(missing_ok=True)
        (tmp_path / "link").symlink_to("other")
        write(tmp_path / "link")
        assert not (tmp_path / "link").is_symlink()
        assert (tmp_path / "link").read_text() == "page"
    assert (tmp_path / "other").read_text() == "other"


def test_a_fifo_is_written_to(tmp_path: Path):
    fifo = tmp_path / "fifo"
    os.mkfifo(fifo)
    read = read_in_background(fifo)
    assert File("--to").read(str(fifo)) == fifo
    write_text(fifo, "line\n")
    assert read() == b"line\n"
    assert stat.S_ISFIFO(fifo.lstat().st_mode)
    assert os.listdir(tmp_path) == ["fifo"]


def test_a_fifo_that_nobody_reads_holds_nobody(tmp_path: Path):
    os.mkfifo(tmp_path / "fifo")
    with pytest.raises(InputError, match=r"nobody reads the FIFO .*; start what reads it first"):
        write_text(tmp_path / "fifo", "line\n")


def test_a_socket_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    monkeypatch.chdir(tmp_path)  # names of sockets are short
    with socket.socket(socket.AF_UNIX) as there:
        there.bind("socket")
        for write in (lambda: write_text(Path("socket"), ""), lambda: File("--to").read("socket")):
            with pytest.raises(InputError, match=r"socket is a socket, .*; name a file"):
                write()
    assert stat.S_ISSOCK(Path("socket").lstat().st_mode)


def test_a_device_stays_a_device(device: Callable[[tuple[int, int]], Path]):
    null, full = device(NULL), device(FULL)
    write_text(null, "text")
    with pytest.raises(InputError, match=r"cannot write .*: No space left on device"):
        write_text(full, "text")
    assert stat.S_ISCHR(null.lstat().st_mode)
    assert stat.S_ISCHR(full.lstat().st_mode)


def test_a_descriptor_is_written_where_it_stands(tmp_path: Path):
    with (tmp_path / "log").open("w+b") as log:
        log.write(b"first\n")
        log.flush()
        (tmp_path / "link").symlink_to(f"/proc/self/fd/{log.fileno()}")
        for path in (Path(f"/dev/fd/{log.fileno()}"), tmp_path / "link"):
            write_text(path, "next\n")
    assert (tmp_path / "log").read_bytes() == b"first\nnext\nnext\n"
    assert (tmp_path / "link").is_symlink()


def test_a_closed_descriptor_is_refused():
    opened = os.open("/", os.O_RDONLY)
    os.close(opened)
    with pytest.raises(InputError, match="Bad file descriptor; name another place"):
        write_text(Path(f"/dev/fd/{opened}"), "text")
