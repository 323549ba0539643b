"""Returns what a pickle would import when it is loaded: its opcodes are read, none is executed."""

import pickletools
import re
from collections.abc import Iterator
from typing import BinaryIO

TORCH_MAGIC = 0x1950A86A20F9469CFC6C
"""The first pickle of a file that torch saved before it wrote zip files; four more follow."""
_ALLOWED = re.compile(
    r"collections\.(OrderedDict|Counter)|builtins\.(set|complex|bytearray)|_codecs\.encode"
    r"|torch\.(Size|Tensor|device|nn\.parameter\.Parameter|serialization\._get_layout)"
    r"|torch\._utils\._rebuild_[a-z0-9_]+|torch\._tensor\._rebuild_from_type_v2"
    r"|torch\.storage\.(Untyped|Typed)Storage|torch\.((cuda|sparse|cuda\.sparse)\.)?\w+(Storage|Tensor)"
    r"|torch\.(bool|bfloat16|bcomplex32|(float|q?u?int|complex|bits)\d\w*|per_(tensor|channel)_\w+)"
)
"""What `torch.load(weights_only=True)` imports; torch checks it again when it loads the file."""
_TEXTS = {
    "UNICODE",
    "BINUNICODE",
    "SHORT_BINUNICODE",
    "BINUNICODE8",
    "STRING",
    "BINSTRING",
    "SHORT_BINSTRING",
}
_IMPORTS = {"GLOBAL", "INST", "STACK_GLOBAL", "EXT1", "EXT2", "EXT4"}

_CUT_OFF = ("pickle exhausted", "not enough data", "no newline", "expected")
"""How errors of pickletools begin where a pickle is cut off."""


def imports_of(file: BinaryIO) -> Iterator[str]:
    """Yields `module.name` of each import of the pickle at this place; ValueError if there is none.

    The file is then after the pickle.
    """
    texts: list[str] = []
    memo: dict[int, str] = {}
    for opcode, argument, _ in pickletools.genops(file):
        if opcode.name in _TEXTS:
            texts.append(str(argument))
        elif opcode.name in ("PUT", "BINPUT", "LONG_BINPUT") and texts:
            memo[int(argument or 0)] = texts[-1]
        elif opcode.name == "MEMOIZE":
            memo[len(memo)] = texts[-1] if texts else ""
        elif opcode.name in ("GET", "BINGET", "LONG_BINGET"):
            texts.append(memo.get(int(argument or 0), "?"))
        elif opcode.name == "STACK_GLOBAL":
            yield ".".join(texts[-2:]) or "?"
        elif opcode.name in ("GLOBAL", "INST"):
            yield str(argument).replace(" ", ".", 1)
        elif opcode.name in _IMPORTS:
            yield f"copyreg.extension {argument}"


def first_unsafe(file: BinaryIO, count: int = 1) -> str | None:
    """Returns the first import of `count` pickles that is not for weights, None if there is none."""
    for _ in range(count):
        for name in imports_of(file):
            if not _ALLOWED.fullmatch(name):
                return name
    return None


def is_pickle(head: bytes, *, is_whole: bool) -> bool:
    """Returns whether bytes begin as a pickle, or are an older one that imports something.

    Bytes that are not the whole file may end within it.
    """
    if len(head) > 1 and head[0] == 0x80 and 2 <= head[1] <= 5:
        return True
    imports = False
    try:
        for opcode, _, _ in pickletools.genops(head):
            imports = imports or opcode.name in _IMPORTS
    except ValueError as error:
        return imports and not is_whole and str(error).startswith(_CUT_OFF)
    return imports
