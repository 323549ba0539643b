"""Which files may be models: what would run code when it is loaded is refused, by its content.

Allowed are safetensors, ONNX, files of torch that `weights_only=True` loads, and any plain file. A pickle is
refused under every name, also within a zip or a tar file, compressed, or in an array of objects.
"""

import bz2
import io
import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

from trackside.artifacts.errors import BadArtifact, UnsafeFormat
from trackside.artifacts.manifests import files_below
from trackside.artifacts.model_files import check_onnx, check_safetensors
from trackside.artifacts.pickle_scan import TORCH_MAGIC, first_unsafe, imports_of, is_pickle

HEAD_BYTES = 65_536
TORCH_PICKLES = 5
"""How many pickles a file has that torch saved before it wrote zip files."""
BROKEN = (OSError, EOFError, zlib.error, lzma.LZMAError)
"""What reading compressed bytes raises that are damaged or cut off."""
ADVICE = "save safetensors, ONNX, or a state_dict with torch.save"


def check_model(path: Path, form: str = "") -> None:
    """Checks a file, or each file of a folder, that is to be a model.

    `form` is what it is said to be, as `safetensors`, `onnx` or `torch`; another one, or none, is a plain
    file unless its content or name says more. UnsafeFormat names what loading it would execute;
    BadArtifact if it is not what it is said to be.
    """
    if not path.is_dir():
        _check_file(path, form)
        return
    for each in files_below(path):
        _check_file(path / each, "")


def _check_file(path: Path, form: str) -> None:
    form = form or path.suffix.lstrip(".")
    with path.open("rb") as file:
        head = file.read(HEAD_BYTES)
        file.seek(0)
        if form == "safetensors":
            check_safetensors(file, path.name)
        elif form == "onnx":
            check_onnx(file, path.name)
        elif head.startswith(b"PK"):
            _check_zip(file, path.name)
        elif form == "torch" or _is_old_torch(head):
            _check_old_torch(file, path.name)
        elif _is_tar(file):
            _check_tar(path)
        else:
            _check_plain(head, path.name)


def _check_plain(head: bytes, name: str) -> None:
    """Refuses what begins as a pickle, plain or compressed, and an array of objects."""
    is_whole = len(head) < HEAD_BYTES
    for content in (head, *_decompressed(head)):
        if content.startswith(b"\x93NUMPY"):
            _check_array(content, name)
        elif is_pickle(content, is_whole=is_whole):
            raise _pickle_error(content, name)


def _pickle_error(content: bytes, name: str) -> UnsafeFormat:
    found: list[str] = []
    with suppress(ValueError):  # the rest of it may not be in these bytes
        found.extend(imports_of(io.BytesIO(content)))
    executes = f", which would execute {found[0]}" if found else ""
    return UnsafeFormat(f"{name} is a pickle{executes}: a pickle is not a model; {ADVICE}")


def _decompressed(head: bytes) -> list[bytes]:
    """Returns the beginning of compressed bytes, by each way in which they are some."""
    ways: list[Callable[[bytes], bytes]] = [
        lambda content: zlib.decompressobj(47).decompress(content, HEAD_BYTES),  # zlib or gzip
        lambda content: bz2.BZ2Decompressor().decompress(content, HEAD_BYTES),
        lambda content: lzma.LZMADecompressor().decompress(content, HEAD_BYTES),
    ]
    found = []
    for way in ways:
        try:
            found.append(way(head))
        except BROKEN:
            continue
    return found


def _check_array(head: bytes, name: str) -> None:
    from numpy.lib import format as arrays  # numpy takes long to import

    file = io.BytesIO(head)
    try:
        version = arrays.read_magic(file)
        read = arrays.read_array_header_1_0 if version == (1, 0) else arrays.read_array_header_2_0
        dtype = read(file)[2]
    except ValueError as error:
        raise BadArtifact(f"{name} is not an array of numpy: {error}") from None
    if dtype.hasobject:
        raise UnsafeFormat(
            f"{name} is an array of objects, which are pickles: save it with a dtype of numbers"
        )


def _check_zip(file: BinaryIO, name: str) -> None:
    """Checks each file of a zip: weights of torch may be pickles, nothing else."""
    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            if any(each.rpartition("/")[2] == "constants.pkl" for each in names):
                raise UnsafeFormat(f"{name} is TorchScript, which has code: {ADVICE}")
            is_torch = any(each.endswith("/data.pkl") for each in names)
            for each in names:
                with archive.open(each) as member:
                    head = member.read(HEAD_BYTES)
                if each.endswith("/data.pkl"):
                    _check_weights(io.BytesIO(archive.read(each)), 1, name)
                elif not (is_torch and "/data/" in each):  # numbers, which may look like a pickle
                    _check_plain(head, f"{each} in {name}")
    except (zipfile.BadZipFile, NotImplementedError, RuntimeError, EOFError, zlib.error) as error:
        raise BadArtifact(f"{name} is not a zip file that can be read: {error}") from None


def _is_tar(file: BinaryIO) -> bool:
    try:
        return tarfile.is_tarfile(file)
    except BROKEN:  # it begins as something compressed
        return False


def _check_tar(path: Path) -> None:
    try:
        with tarfile.open(path) as archive:
            for each in archive:
                member = archive.extractfile(each) if each.isfile() else None
                if member is not None:
                    _check_plain(member.read(HEAD_BYTES), f"{each.name} in {path.name}")
    except (tarfile.TarError, *BROKEN) as error:
        raise BadArtifact(f"{path.name} is not a tar file that can be read: {error}") from None


def _is_old_torch(head: bytes) -> bool:
    return head[2:13] == b"\x8a\x0a" + TORCH_MAGIC.to_bytes(10, "little")[:9]


def _check_old_torch(file: BinaryIO, name: str) -> None:
    head = file.read(HEAD_BYTES)
    if not _is_old_torch(head):
        if is_pickle(head, is_whole=len(head) < HEAD_BYTES):
            raise _pickle_error(head, name)
        raise BadArtifact(f"{name} is not a file of torch: expected what torch.save writes")
    file.seek(0)
    _check_weights(file, TORCH_PICKLES, name)


def _check_weights(file: BinaryIO, count: int, name: str) -> None:
    try:
        unsafe = first_unsafe(file, count)
    except ValueError as error:
        raise BadArtifact(f"{name} is not a file of torch: {error}") from None
    if unsafe is not None:
        raise UnsafeFormat(
            f"{name} is more than weights: loading it would execute {unsafe}, which weights_only=True "
            f"refuses; {ADVICE}"
        )
