"""The kind text: one text, or rows of them."""

from trackside.summaries.event_files.values import TextRows
from trackside.summaries.kinds.bodies import (
    LEAST_INT64,
    pack_json,
    to_integer,
    to_list,
    to_object,
    to_text,
    to_texts,
    unpack_json,
)
from trackside.summaries.kinds.kind import Body, Packed, SummaryKind
from trackside.summaries.kinds.text_lines import counted, printable

BEGINNING = 1_000
"""Characters of a long text that its body has."""


def pack(rows: TextRows) -> Packed:
    """Returns texts as they are stored.

    The body has `texts`, how many they are, and `characters`, how many they have together; with an artifact
    also `beginning`, the first characters of the first text, control characters escaped.
    """
    description: Body = {"texts": len(rows.texts), "characters": sum(map(len, rows.texts))}
    packed = pack_json(description, {"texts": rows.texts, "shape": list(rows.shape)})
    if packed.data is None:
        return packed
    beginning = _readable(rows.texts[0][:BEGINNING]) if rows.texts else ""
    return packed._replace(body={**description, "beginning": beginning})


def unpack(body: Body, data: bytes | None) -> TextRows:
    """Returns the texts. Raises BadValue."""
    value = to_object(unpack_json(body, data), "a text")
    shape = to_list(value.get("shape"), "the shape of a text")
    sizes = tuple(to_integer(size, "the shape of a text", least=LEAST_INT64) for size in shape)
    return TextRows(to_texts(value.get("texts"), "the rows of a text"), sizes)


def lines(body: Body, width: int) -> list[str]:
    """Returns the texts line by line, as they are but for their control characters: no line is cut."""
    if "value" in body:
        texts = unpack(body, None).texts
        return [line for text in texts for line in _readable(text).split("\n")]
    characters = to_integer(body.get("characters"), "the length of a text")
    texts_count = to_integer(body.get("texts"), "the number of texts")
    beginning = to_text(body.get("beginning", ""), "the beginning of a text")
    return [
        *_readable(beginning).split("\n"),
        f"... {counted(characters, 'character')} in {counted(texts_count, 'text')}",
    ]


def _readable(text: str) -> str:
    return printable(text.replace("\r\n", "\n").expandtabs())


TEXT = SummaryKind("text", page_size=500, pack=pack, unpack=unpack, lines=lines)
