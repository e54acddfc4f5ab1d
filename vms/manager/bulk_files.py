"""What a bulk job leaves for the managers: state and view rows in files, and the list of them.

    <folder>/state/<name>     pieces of state, as in a checkpoint: (name of table or node, batch)
    <folder>/manifest         every file with its checksum; written last: where it is, the job is done

The folder is a path or any URL that Arrow can open: file, hdfs, s3, gs. A task that runs twice writes the same
file twice, and what it does not finish has another name.
"""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Iterator
from typing import NamedTuple

import msgpack
import pyarrow as pa
import pyarrow.fs as pafs
import xxhash

from vms.errors import CorruptState, StoreError
from vms.maintenance.cut import batch_from_bytes, batch_to_bytes

#: Rows of one piece. Not higher, or turning state into bytes would take its size in memory once more.
PIECE_ROWS = 1 << 18


class StateFile(NamedTuple):
    """One file, and how to tell that it is whole."""

    name: str
    digest: int
    rows: int


class Folder:
    """Files below one path or URL."""

    def __init__(self, url: str) -> None:
        self.url = url
        try:
            self._system, self._base = pafs.FileSystem.from_uri(url if "://" in url else f"file://{url}")
        except (pa.ArrowInvalid, OSError) as error:
            raise StoreError(f"the folder {url} cannot be opened: {error}") from error

    def path(self, name: str) -> str:
        return f"{self._base}/{name}"

    def exists(self, name: str) -> bool:
        return self._system.get_file_info(self.path(name)).type != pafs.FileType.NotFound

    def write(self, name: str, pieces: Iterable[bytes]) -> int:
        """Give the name to this content; returns its checksum."""
        path = self.path(name)
        unfinished = f"{path}.{uuid.uuid4().hex}.new"
        digest = xxhash.xxh3_64()
        try:
            self._system.create_dir(path.rpartition("/")[0], recursive=True)
            with self._system.open_output_stream(unfinished) as file:
                for piece in pieces:
                    digest.update(piece)
                    file.write(piece)
            self._system.move(unfinished, path)
        except OSError as error:
            raise StoreError(f"cannot write {self.url}/{name}: {error}") from error
        return digest.intdigest()

    def read(self, name: str) -> bytes:
        try:
            with self._system.open_input_file(self.path(name)) as file:
                return file.read()
        except OSError as error:
            raise StoreError(f"cannot read {self.url}/{name}: {error}") from error

    def delete(self) -> None:
        """With everything in it."""
        if self._system.get_file_info(self._base).type != pafs.FileType.NotFound:
            self._system.delete_dir(self._base)


def write_state(folder: Folder, name: str, state: Iterable[tuple[str, pa.RecordBatch]]) -> StateFile:
    """One file of state."""
    rows = 0

    def pieces() -> Iterator[bytes]:
        nonlocal rows
        for part, batch in state:
            rows += batch.num_rows
            for start in range(0, max(batch.num_rows, 1), PIECE_ROWS):
                yield msgpack.packb([part, batch_to_bytes(batch.slice(start, PIECE_ROWS))])

    return StateFile(name, folder.write(f"state/{name}", pieces()), rows)


def write_manifest(folder: Folder, files: Iterable[StateFile]) -> None:
    """The job is done: these are its files."""
    folder.write("manifest", [msgpack.packb([list(file) for file in sorted(files)])])


def read_state(folder: Folder) -> Iterator[tuple[str, pa.RecordBatch]]:
    """All pieces of all files; raises CorruptState where one is damaged."""
    for name, digest, _ in msgpack.unpackb(folder.read("manifest")):
        data = folder.read(f"state/{name}")
        if xxhash.xxh3_64_intdigest(data) != digest:
            raise CorruptState(f"{folder.url}/state/{name} does not match its checksum; run the bulk job again")
        unpacker = msgpack.Unpacker(max_buffer_size=0)
        unpacker.feed(data)
        for part, body in unpacker:
            yield part, batch_from_bytes(body)
