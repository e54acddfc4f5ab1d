"""The TransactionLog and the checkpoints of members, in a folder (design section 8).

    <folder>/g<generation>/<member>/<epoch>.cut         what stands as the member's cut of the epoch
    <folder>/g<generation>/<member>/<epoch>.received    what other members sent it for the epoch
    <folder>/g<generation>/<member>/<epoch>.checkpoint  its whole state at the end of the epoch

Every file is written under another name, made durable, and then given its name; a name once given keeps its
content. Each carries a checksum. The first cut that gets the name stands, whoever else tries: that is what
makes a second process that believes to host the member harmless.
"""

from __future__ import annotations

import os
import shutil
import uuid
from collections.abc import Sequence
from pathlib import Path

import msgpack
import pyarrow as pa
import xxhash

from vms.errors import CorruptState
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

Input = list[tuple[str, Batch | Handoff]]


class TransactionLog:
    """The log of all members that keep it in one folder. Methods return when what they wrote is durable."""

    def __init__(self, folder: Path | str, *, fsync: bool = True) -> None:
        self._folder, self._fsync = Path(folder), fsync
        self._folder.mkdir(parents=True, exist_ok=True)

    def propose(self, member: str, cut: Cut) -> tuple[Cut, bool]:
        """The cut that stands for the epoch, and whether it is this one."""
        path = self._path(cut.record.generation, member, cut.record.epoch, "cut")
        if self._write(path, cut_to_bytes(cut), replace=False):
            return cut, True
        return cut_from_bytes(_read(path)), False

    def append_received(
        self, member: str, generation: int, epoch: int, batches: Sequence[tuple[str, Batch | Handoff]]
    ) -> None:
        """What other members sent for the epoch. Whoever writes it first, the content is the same."""
        packed = [[sender, _pack(m)] for sender, m in batches]
        self._write(self._path(generation, member, epoch, "received"), msgpack.packb(packed), replace=False)

    def read(self, member: str, generation: int, after: int) -> list[tuple[Cut, Input | None]]:
        """The cuts of epochs after `after` with what was received for them (None: not logged), in order."""
        found = []
        for path in self._files(generation, member, "cut"):
            cut = None
            if int(path.stem) > after:
                cut = cut_from_bytes(_read(path))
                received = path.with_suffix(".received")
                found.append((cut, _unpack_all(_read(received)) if received.exists() else None))
        return found

    def save_checkpoint(self, member: str, checkpoint: Checkpoint) -> None:
        """Keep the checkpoint, and remove what no kept one needs any more."""
        record = checkpoint.record
        body = msgpack.packb(
            {
                "record": record.to_bytes(),
                "watermarks": pack_watermarks(checkpoint.watermarks),
                "state": {name: [batch_to_bytes(b) for b in batches] for name, batches in checkpoint.state.items()},
            }
        )
        self._write(self._path(record.generation, member, record.epoch, "checkpoint"), body, replace=True)
        kept = self._files(record.generation, member, "checkpoint")[-KEPT_CHECKPOINTS:]
        if len(kept) == KEPT_CHECKPOINTS:
            for path in kept[0].parent.iterdir():
                if (path.suffix != ".new" and int(path.stem) < int(kept[0].stem)) or (
                    path.suffix != ".checkpoint" and path.stem == kept[0].stem
                ):
                    path.unlink(missing_ok=True)

    def checkpoints(self, member: str, generation: int) -> list[Path]:
        """The checkpoints that are there, newest first."""
        return self._files(generation, member, "checkpoint")[::-1]

    def load_checkpoint(self, path: Path) -> Checkpoint:
        """Read one; raises CorruptState if it does not match its checksum."""
        d = msgpack.unpackb(_read(path))
        state = {name: [batch_from_bytes(b) for b in batches] for name, batches in d["state"].items()}
        return Checkpoint(Record.from_bytes(d["record"]), unpack_watermarks(d["watermarks"]), state)

    def size_bytes(self, member: str, generation: int) -> int:
        """Bytes of the log alone."""
        folder = self._path(generation, member, 0, "cut").parent
        return sum(p.stat().st_size for p in folder.glob("*.*") if p.suffix in (".cut", ".received"))

    def remove_generations_before(self, generation: int) -> None:
        """Free what abandoned generations left."""
        for folder in self._folder.glob("g*"):
            if int(folder.name[1:]) < generation:
                shutil.rmtree(folder, ignore_errors=True)

    def _path(self, generation: int, member: str, epoch: int, kind: str) -> Path:
        return self._folder / f"g{generation}" / member / f"{epoch:020d}.{kind}"

    def _files(self, generation: int, member: str, kind: str) -> list[Path]:
        return sorted((self._folder / f"g{generation}" / member).glob(f"*.{kind}"))

    def _write(self, path: Path, body: bytes, *, replace: bool) -> bool:
        """Give the name to this content; False if it has one already and `replace` is not asked."""
        if not path.parent.exists():
            path.parent.mkdir(parents=True, exist_ok=True)
        if not replace and path.exists():
            return False
        temporary = path.with_name(f"{path.stem}-{uuid.uuid4().hex}.new")
        with open(temporary, "wb") as f:
            f.write(xxhash.xxh3_64_digest(body))
            f.write(body)
            f.flush()
            if self._fsync:
                os.fsync(f.fileno())
        try:
            if replace:
                os.replace(temporary, path)
            else:
                os.link(temporary, path)
                os.unlink(temporary)
        except FileExistsError:
            os.unlink(temporary)
            return False
        if self._fsync:
            folder = os.open(path.parent, os.O_RDONLY)
            try:
                os.fsync(folder)
            finally:
                os.close(folder)
        return True


def _read(path: Path) -> bytes:
    data = path.read_bytes()
    if xxhash.xxh3_64_digest(data[8:]) != data[:8]:
        raise CorruptState(f"{path.name} of member {path.parent.name} does not match its checksum")
    return data[8:]


def _pack(message: Batch | Handoff) -> dict:
    packed = {"generation": message.generation, "epoch": message.epoch, "edge": message.edge}
    if isinstance(message, Batch):
        packed["rows"] = None if message.rows is None else batch_to_bytes(message.rows)
    else:
        packed["state"] = {n: [batch_to_bytes(b) for b in batches] for n, batches in message.state.items()}
        packed["watermarks"] = pack_watermarks(message.watermarks)
    return packed


def _unpack_all(data: bytes) -> Input:
    found: Input = []
    for sender, d in msgpack.unpackb(data):
        if "state" in d:
            state: dict[str, list[pa.RecordBatch]] = {
                n: [batch_from_bytes(b) for b in batches] for n, batches in d["state"].items()
            }
            found.append((sender, Handoff(d["generation"], d["epoch"], state, unpack_watermarks(d["watermarks"]))))
        else:
            rows = None if d["rows"] is None else batch_from_bytes(d["rows"])
            found.append((sender, Batch(d["generation"], d["epoch"], d["edge"], rows)))
    return found
