"""A file that appears under its name only when it is whole."""

from __future__ import annotations

import contextlib
import errno
import io
import os
import secrets
import shutil
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

from .errors import FoxscopeError

#: Bytes that the name of a file may have.
_LONGEST_NAME = 255


def _flush(descriptor: int) -> None:
    with contextlib.suppress(OSError):  # `commit` says it
        os.fdatasync(descriptor)


class AtomicFile(io.RawIOBase):
    """A file without a name until `commit`, which h5py's driver of file objects takes too.

    The system keeps it without any name (O_TMPFILE) where it can, so that a killed process leaves nothing. Elsewhere it
    has a hidden name beside the target, which `discard` removes. The first failure of a write is kept in `error`, and
    what is written behind it goes nowhere: HDF5 can then close what is to be thrown away. A forked process shares the file
    and the place in it with its parent, and leaves both alone: what it reads is zeros, and what it writes goes nowhere.
    """

    def __init__(self, target: str | os.PathLike[str], overwrite: bool, smaller: str = "") -> None:
        """Refuses a file that exists, unless `overwrite`, what is no file, and a folder that is missing or not writable.

        smaller: words for what makes the file smaller, for the error of a full disk.
        """
        super().__init__()
        self.target = Path(target)
        self.error: OSError | None = None
        self._overwrite, self._smaller = overwrite, smaller
        self._process = os.getpid()
        self._temporary: Path | None = None
        self._descriptor = -1
        self._flusher: ThreadPoolExecutor | None = None
        self._flush: Future[None] | None = None
        place = Path(os.path.realpath(self.target))
        self._place = place
        if len(os.fsencode(place.name)) > _LONGEST_NAME:
            raise FoxscopeError(f"{self.target}: the name is too long: use at most {_LONGEST_NAME} bytes")
        if place.is_dir():
            raise FoxscopeError(f"{self.target}: is a folder: name a file to write")
        if place.exists() and not place.is_file():
            raise FoxscopeError(f"{self.target}: is not a regular file and cannot be replaced: write to another name")
        if place.exists() and not overwrite:
            raise FoxscopeError(f"{self.target}: exists already: pass overwrite=True to replace it, or write to another name")
        if not place.parent.is_dir():
            raise FoxscopeError(f"{self.target}: the folder {place.parent} does not exist: create it, or write elsewhere")
        try:
            self._open(place)
        except OSError as error:
            raise FoxscopeError(
                f"{self.target}: cannot write to its folder ({error.strerror}): choose a folder that you may write to"
            ) from error

    def _open(self, place: Path) -> None:
        if hasattr(os, "O_TMPFILE"):
            try:
                self._descriptor = os.open(place.parent, os.O_TMPFILE | os.O_RDWR | os.O_CLOEXEC, 0o666)
                return
            except OSError as error:
                if error.errno not in (errno.EOPNOTSUPP, errno.EISDIR, errno.ENOENT):
                    raise
        self._temporary = self._beside()
        self._descriptor = os.open(self._temporary, os.O_CREAT | os.O_EXCL | os.O_RDWR | os.O_CLOEXEC, 0o666)

    def _beside(self) -> Path:
        return self._place.parent / f".{self._place.name[:200]}.{secrets.token_hex(4)}"

    def readable(self) -> bool:
        """Always true."""
        return True

    def writable(self) -> bool:
        """Always true."""
        return True

    def seekable(self) -> bool:
        """Always true."""
        return True

    def _is_shared(self) -> bool:
        """Whether the file belongs to the process that this one was forked from."""
        return self._process != os.getpid()

    def seek(self, offset: int, whence: int = os.SEEK_SET) -> int:
        """Moves to a place. Returns it."""
        if self._is_shared():
            return offset
        return os.lseek(self._descriptor, offset, whence)

    def tell(self) -> int:
        """The place of the next byte."""
        return os.lseek(self._descriptor, 0, os.SEEK_CUR)

    def truncate(self, size: int | None = None) -> int:
        """Makes the file so long, with zeros behind what was written."""
        length = self.tell() if size is None else size
        self._attempt(lambda: os.ftruncate(self._descriptor, length))
        return length

    def readinto(self, buffer: memoryview) -> int:  # type: ignore[override]
        """Fills a buffer; zeros behind the end, as in a file with holes."""
        view = memoryview(buffer).cast("B")
        if self._is_shared():
            view[:] = bytes(len(view))
            return len(view)
        done = 0
        while done < len(view):
            count = os.readv(self._descriptor, [view[done:]])
            if count == 0:
                view[done:] = bytes(len(view) - done)
                break
            done += count
        return len(view)

    def write(self, data: memoryview) -> int:  # type: ignore[override]
        """Writes all of the data, or keeps the error. Returns the size of the data."""
        view = memoryview(data).cast("B")

        def write_all() -> None:
            done = 0
            while done < len(view):
                done += os.write(self._descriptor, view[done:])

        self._attempt(write_all)
        return len(view)

    def _attempt(self, work: object) -> None:
        if self.error is not None or self._is_shared():
            return
        try:
            work()  # type: ignore[operator]
        except OSError as error:
            self.error = error

    def check(self) -> None:
        """Raises FoxscopeError if a write failed."""
        if self.error is None:
            return
        full = self.error.errno in (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)
        room = f"make room, write elsewhere, or {self._smaller}" if self._smaller else "make room, or write elsewhere"
        remedy = room if full else "write elsewhere"
        raise FoxscopeError(f"{self.target}: could not be written ({self.error.strerror}): {remedy}")

    def begin_flush(self) -> None:
        """Lets a thread bring to disk what was written so far, so that `commit` has little left to wait for."""
        if self._flush is None or self._flush.done():
            self._flusher = self._flusher or ThreadPoolExecutor(1, "foxscope.flush")
            self._flush = self._flusher.submit(_flush, self._descriptor)

    def _end_flush(self) -> None:
        if self._flusher is not None:
            self._flusher.shutdown(cancel_futures=True)
            self._flusher = self._flush = None

    def commit(self) -> None:
        """Flushes to disk and puts the file in place."""
        self._end_flush()
        self._attempt(lambda: os.fsync(self._descriptor))
        self.check()
        try:
            if self._place.exists() and self._overwrite:
                shutil.copymode(self._place, f"/proc/self/fd/{self._descriptor}")
            self._put_in_place()
        except FileExistsError as error:
            raise FoxscopeError(f"{self.target}: was made by another program meanwhile: write to another name") from error
        except OSError as error:
            raise FoxscopeError(f"{self.target}: could not be put in place ({error.strerror})") from error
        finally:
            self.discard()

    def _put_in_place(self) -> None:
        if self._temporary is None:
            name = self._beside() if self._overwrite else self._place
            # A folder's descriptor makes os.link follow the link in /proc, as linkat needs it.
            folder = os.open(self._place.parent, os.O_RDONLY | os.O_DIRECTORY)
            try:
                os.link(f"/proc/self/fd/{self._descriptor}", name, src_dir_fd=folder, follow_symlinks=True)
                if name != self._place:
                    os.replace(name, self._place)
                os.fsync(folder)
            finally:
                os.close(folder)
        elif self._overwrite:
            os.replace(self._temporary, self._place)
        else:
            try:
                os.link(self._temporary, self._place)
            except FileExistsError:
                raise
            except OSError:  # a file system without hard links
                os.rename(self._temporary, self._place)

    def discard(self) -> None:
        """Lets go of the file. What was not committed is gone."""
        if self._is_shared():
            return
        self._end_flush()
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if self._temporary is not None:
            self._temporary.unlink(missing_ok=True)
            self._temporary = None
