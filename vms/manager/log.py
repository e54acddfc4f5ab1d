"""The TransactionLog and the checkpoints of members, in a folder (design section 8).

    <folder>/<member>/begins                            the generation that this log begins with
    <folder>/<member>/<generation>/log/<epoch>.cut      what stands as the member's cut of the epoch
    <folder>/<member>/<generation>/log/<epoch>.received what other members sent it for the epoch
    <folder>/<member>/<generation>/checkpoints/<epoch>  its whole state at the end of the epoch

Every file is written under another name, made durable, and then given its name; a name once given keeps its
content. So a file that has its name is whole, and one that does not match its checksum was damaged later: it
cannot be mistaken for a write that was cut off. The first cut that gets the name stands, whoever else tries:
that is what makes a second process that believes to host the member harmless.
"""

from __future__ import annotations

import contextlib
import os
import shutil
import uuid
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path

import msgpack
import pyarrow as pa
import xxhash

from vms.errors import CorruptState, StoreError
from vms.maintenance.codec import message_from_bytes, message_to_bytes
from vms.maintenance.cut import (
    Checkpoint,
    Cut,
    batch_from_bytes,
    batch_to_bytes,
    cut_from_bytes,
    cut_to_bytes,
    pack_watermarks,
    unpack_watermarks,
)
from vms.maintenance.messages import Batch, Handoff
from vms.maintenance.record import Record

#: Checkpoints kept of each member: the newest, and one to fall back to if that is damaged.
KEPT_CHECKPOINTS = 2
#: Rows of a checkpoint that are turned into bytes at once. Not higher, or writing a large state would take its
#: size in memory once more; not lower, or the pieces would cost more than the rows.
PIECE_ROWS = 1 << 18
#: Bytes of a file that are checked at once.
_BLOCK = 1 << 20
_DIGEST = 8

Input = list[tuple[str, Batch | Handoff]]


class TransactionLog:
    """The log of all members that keep it in one folder. Methods return when what they wrote is durable."""

    def __init__(self, folder: Path | str, *, fsync: bool = True) -> None:
        self._folder, self._fsync = Path(folder), fsync
        self._folder.mkdir(parents=True, exist_ok=True)
        #: Bytes of cuts and input written through this object.
        self.written = 0

    @property
    def identity(self) -> str:
        """Names this folder, whatever path leads to it: who reads the same name reaches the same log."""
        path = self._folder / ".id"
        self._write(path, [uuid.uuid4().hex.encode()], replace=False)
        return _read(path).decode()

    # --- the life of a log -----------------------------------------------------------------------------------

    def create(self, member: str, generation: int) -> None:
        """Begin the member's log anew: it vouches for every cut from this generation on, and for none before.

        One that begins there already stays: another process may have been faster.
        """
        if self._begins(member) == generation:
            return
        shutil.rmtree(self._folder / member, ignore_errors=True)
        self._write(self._folder / member / "begins", [str(generation).encode()], replace=True)

    def knows(self, member: str) -> bool:
        """Whether it vouches for the member's cuts. If not, nobody knows what the member cut before."""
        return self._begins(member) is not None

    def _begins(self, member: str) -> int | None:
        try:
            return int(_read(self._folder / member / "begins"))
        except (FileNotFoundError, NotADirectoryError, CorruptState):
            return None

    # --- cuts and input --------------------------------------------------------------------------------------

    def propose(self, member: str, cut: Cut) -> tuple[Cut, bool] | None:
        """The cut that stands for the epoch, and whether it is this one.

        None: the log cannot tell any more, because the epoch lies before what it vouches for or before a
        checkpoint. Whoever proposes that has fallen behind.
        """
        record = cut.record
        begins = self._begins(member)
        if begins is None or record.generation < begins:
            return None
        path = self._log_file(member, record.generation, record.epoch, "cut")
        if not self._append(path, cut_to_bytes(cut)):
            return cut_from_bytes(_read(path)), False
        newest = self.checkpoints(member, record.generation)[:1]
        if newest and int(newest[0].name) >= record.epoch:
            path.unlink()  # the cut that stood has been removed since: the checkpoint holds it
            return None
        return cut, True

    def append_received(
        self, member: str, generation: int, epoch: int, batches: Sequence[tuple[str, Batch | Handoff]]
    ) -> None:
        """What other members sent for the epoch. Whoever writes it first, the content is the same."""
        packed = [[sender, message_to_bytes(m)] for sender, m in batches]
        self._append(self._log_file(member, generation, epoch, "received"), msgpack.packb(packed))

    def _append(self, path: Path, body: bytes) -> bool:
        if not self._write(path, [body], replace=False):
            return False
        self.written += len(body)
        return True

    def read(self, member: str, generation: int, after: int) -> Iterator[tuple[Cut, Input | None]]:
        """The cuts of epochs after `after` with what was received for them (None: not logged), in order.

        Raises CorruptState at the first that does not match its checksum.
        """
        for path in _files(self._log_folder(member, generation)):
            if path.suffix == ".cut" and int(path.stem) > after:
                received = path.with_suffix(".received")
                yield cut_from_bytes(_read(path)), _unpack_all(_read(received)) if received.exists() else None

    def size_bytes(self, member: str, generation: int) -> int:
        """Bytes of the log after the newest checkpoint. Looks at every file: not for every epoch."""
        newest = [int(p.name) for p in self.checkpoints(member, generation)[:1]]
        files = _files(self._log_folder(member, generation))
        return sum(p.stat().st_size for p in files if not newest or int(p.stem) > newest[0])

    # --- checkpoints -----------------------------------------------------------------------------------------

    def save_checkpoint(self, member: str, checkpoint: Checkpoint) -> int:
        """Keep the checkpoint, and remove what no kept one needs any more. Returns its size in bytes.

        May run beside everything else, in a thread of its own.
        """
        record = checkpoint.record
        path = self._checkpoint_folder(member, record.generation) / f"{record.epoch:020d}"
        self._write(path, _checkpoint_pieces(checkpoint), replace=True)
        found = self.checkpoints(member, record.generation)
        for unneeded in found[KEPT_CHECKPOINTS:]:
            unneeded.unlink()
        if len(found) >= KEPT_CHECKPOINTS:
            oldest = int(found[KEPT_CHECKPOINTS - 1].name)
            for held in _files(self._log_folder(member, record.generation)):
                if int(held.stem) <= oldest:
                    held.unlink()
        return path.stat().st_size

    def checkpoints(self, member: str, generation: int) -> list[Path]:
        """The checkpoints that are there, newest first."""
        return _files(self._checkpoint_folder(member, generation))[::-1]

    def load_checkpoint(self, path: Path) -> Checkpoint:
        """Read one; raises CorruptState if it does not match its checksum."""
        _check(path)
        state: dict[str, list[pa.RecordBatch]] = {}
        with open(path, "rb") as file:
            file.seek(_DIGEST)
            pieces = msgpack.Unpacker(file, max_buffer_size=0)
            record, watermarks = pieces.unpack()
            for name, body in pieces:
                state.setdefault(name, []).append(batch_from_bytes(body))
        return Checkpoint(Record.from_bytes(record), unpack_watermarks(watermarks), state)

    def remove_generations_before(self, member: str, generation: int) -> None:
        """Free what abandoned generations left."""
        for folder in (self._folder / member).iterdir():
            if folder.name.isdigit() and int(folder.name) < generation:
                shutil.rmtree(folder, ignore_errors=True)

    def remove_unfinished(self, member: str) -> None:
        """Free what a process that is gone was writing. Only where no other process hosts the member."""
        for path in (self._folder / member).rglob("*.new"):
            path.unlink(missing_ok=True)

    # --- files -----------------------------------------------------------------------------------------------

    def _log_folder(self, member: str, generation: int) -> Path:
        return self._folder / member / str(generation) / "log"

    def _checkpoint_folder(self, member: str, generation: int) -> Path:
        return self._folder / member / str(generation) / "checkpoints"

    def _log_file(self, member: str, generation: int, epoch: int, kind: str) -> Path:
        return self._log_folder(member, generation) / f"{epoch:020d}.{kind}"

    def _write(self, path: Path, pieces: Iterable[bytes], *, replace: bool) -> bool:
        """Give the name to this content; False if it has one already and `replace` is not asked."""
        if not replace and path.exists():
            return False
        temporary = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.new")
        try:
            self._make_folder(path.parent)
            with open(temporary, "wb") as file:
                _write_checked(file, pieces)
                file.flush()
                if self._fsync:
                    os.fsync(file.fileno())
            if replace:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
            self._sync_folder(path.parent)
        except FileExistsError:
            return False
        except OSError as error:
            raise StoreError(f"the log cannot write {path}: {error.strerror}; mend that, and open it again") from error
        finally:
            with contextlib.suppress(OSError):
                temporary.unlink()
        return True

    def _make_folder(self, folder: Path) -> None:
        """With its parents, each durable in the one above."""
        if not folder.exists():
            self._make_folder(folder.parent)
            with contextlib.suppress(FileExistsError):
                folder.mkdir()
            self._sync_folder(folder.parent)

    def _sync_folder(self, folder: Path) -> None:
        if self._fsync:
            handle = os.open(folder, os.O_RDONLY)
            try:
                os.fsync(handle)
            finally:
                os.close(handle)


def _files(folder: Path) -> list[Path]:
    """Files that have their name, in the order of their epochs."""
    return sorted(p for p in folder.glob("*") if p.suffix != ".new")


def _write_checked(file, pieces: Iterable[bytes]) -> None:  # type: ignore[no-untyped-def]
    """The checksum, then what it is of."""
    digest = xxhash.xxh3_64()
    file.write(bytes(_DIGEST))
    for piece in pieces:
        digest.update(piece)
        file.write(piece)
    file.seek(0)
    file.write(digest.digest())


def _check(path: Path) -> None:
    digest = xxhash.xxh3_64()
    with open(path, "rb") as file:
        expected = file.read(_DIGEST)
        while block := file.read(_BLOCK):
            digest.update(block)
    if digest.digest() != expected:
        raise CorruptState(f"{path} does not match its checksum")


def _read(path: Path) -> bytes:
    _check(path)
    return path.read_bytes()[_DIGEST:]


def _checkpoint_pieces(checkpoint: Checkpoint) -> Iterator[bytes]:
    yield msgpack.packb([checkpoint.record.to_bytes(), pack_watermarks(checkpoint.watermarks)])
    for name, batches in checkpoint.state.items():
        for batch in batches:
            for start in range(0, max(batch.num_rows, 1), PIECE_ROWS):
                yield msgpack.packb([name, batch_to_bytes(batch.slice(start, PIECE_ROWS))])


def _unpack_all(data: bytes) -> Input:
    found: Input = []
    for sender, packed in msgpack.unpackb(data):
        message = message_from_bytes(packed)
        assert isinstance(message, Batch | Handoff)
        found.append((sender, message))
    return found
