"""What looks like a secret, defined once: for commands that arrive, output of tasks, logs, and `verify-log`.

A text is judged by its shape: a known prefix and length, a password in a URL or after `password=`, a private
key. Hashes, ids and names have no such shape. The text of a field is also judged by the field's name, see
`is_called_secret`. No pattern reads a part of a text more than a few times, so the time is linear in the
length, whatever the text is.
"""

import re
from functools import lru_cache
from typing import Final

REDACTED: Final = "[redacted]"

_PLACEHOLDER: Final = r"(?!\[redacted\]|\*|\.\.\.|\$[{(A-Z_]|\{|<|%[s(])"
"""What begins like this stands for a secret that is not there, as `$TOKEN` and `<password>` do."""
_NAMES: Final = (
    r"pass(?:word|wd|phrase)|secret(?:[_-]?key)?|a(?:pi[_-]?key|ccess[_-]?(?:key|token)|uth[_-]?token)"
)
_PASSWORDS: Final = ("password", "passwd", "passphrase")
_KEYS: Final = ("secret", "apikey", "accesskey", "secretkey", "privatekey")
_NO_LETTER: Final = re.compile("[^a-z0-9]+")
_NO_SECRET: Final = re.compile(
    rf"(?!{_PLACEHOLDER})|~|\.{{0,2}}/|\[|(?:arn|env|file|op|ssm|vault):"
    r"|(?i:default|disabled|enabled|example|hidden|not[_ -]?needed|optional|placeholder|required)$"
)
"""What begins like this is no secret: a placeholder, a path, a reference to a store of secrets, a word."""
_KEY_EDGES: Final = ("-----BEGIN [A-Z ]{0,40}PRIVATE KEY-----", "-----END [A-Z ]{0,40}-----")
_TOKENS: Final = {
    "AKIA": "AKIA[0-9A-Z]{16}(?![0-9A-Za-z])",
    "ASIA": "ASIA[0-9A-Z]{16}(?![0-9A-Za-z])",
    **{f"gh{kind}_": f"gh{kind}_[A-Za-z0-9]{{30,}}" for kind in "pousr"},
    "github_pat_": "github_pat_[A-Za-z0-9_]{30,}",
    "glpat-": "glpat-[A-Za-z0-9_-]{20,}",
    "hf_": "hf_[A-Za-z0-9]{30,}",
    "sk-": "sk-(?:(?:ant|proj|svcacct|admin|or)-[A-Za-z0-9_-]{20,}|[A-Za-z0-9_]{20,})",
    "k_live_": "[rs]k_live_[A-Za-z0-9]{20,}",
    "AIza": "AIza[A-Za-z0-9_-]{35}",
    "xox": "xox[baprs]-[A-Za-z0-9-]{10,}",
    "eyJ": r"(?<![_-])eyJ[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}\.[A-Za-z0-9_-]{10,}",  # a JSON web token
}
_SHAPES: Final = {
    "PRIVATE KEY": rf"{_KEY_EDGES[0]}[A-Za-z0-9+/=\s\\]*+(?:{_KEY_EDGES[1]})?",
    "://": rf"(?<=://)[^/\s:@\"'<>]*:{_PLACEHOLDER}[^/\s@\"'<>]+(?=@)",
    "=": rf"(?i:{_NAMES})=[\"']?{_PLACEHOLDER}[^\s/&\"'][^\s&\"']{{5,}}",
    **{mark: rf"(?<![A-Za-z0-9])(?<!\[redacted\]){shape}" for mark, shape in _TOKENS.items()},
}
"""The shapes of secrets, each with what it has in every case: looking for that first is much faster."""
_PATTERNS: Final = tuple((mark, re.compile(shape)) for mark, shape in _SHAPES.items())
_OCTETS: Final = (*(mark.encode() for mark in _SHAPES), rb"\u", rb":\/")
"""What JSON with a secret has, in which a character may be escaped."""
_SHORTEST: Final = len("://:p@")
_SHORTEST_TEXTS: Final = {"password": 6, "key": 6, "token": 16}
"""How many characters the text of a field has at least that is a secret by the field's name."""
_VALUE: Final = r"(?:\"[^\"\n]*\"|'[^'\n]*'|\[redacted\]|\S+)"
_CALLED_SECRET: Final = re.compile(rf"((?i:{_NAMES}|token)[\"']?\s*+[=:]\s*+){_VALUE}")
_OPTION: Final = re.compile(rf"(--[a-z0-9-]{{0,40}}?(?:{_NAMES}|token)[\"']?,?[ \t]++)(?![-\s]){_VALUE}")
_HEADER: Final = re.compile(rf"((?i:authorization)[\"']?\s*+:\s*+[\"']?\w++[ \t]++){_VALUE}")
_CALLS: Final = ("passw", "passphrase", "secret", "key", "token")
"""What a text has, in some case, that calls a part of it a secret: looking for that first is faster."""
_FIELD_NAMES: Final = tuple(name.encode() for name in (*_PASSWORDS, "secret", 'key"', 'token"'))
_ESCAPE: Final = re.compile(rb"\\.", re.DOTALL)
_BETWEEN: Final = bytes(set(range(256)) - set(b'abcdefghijklmnopqrstuvwxyz0123456789"'))
"""The octets of JSON that are no part of a name, but for its quotes."""
_DEFAULT: Final = re.compile(r"\$\{[^}]*?:-([^}]*)\}")
"""What a reference, or a variable of a shell, stands for where it has no value."""
_KEY_LINE: Final = re.compile(rf"\s*+[A-Za-z0-9+/=]*+\s*+(?:{_KEY_EDGES[1]}.*)?")


def looks_secret(text: str) -> bool:
    """Returns whether a text has what looks like a secret."""
    if len(text) < _SHORTEST:
        return False
    for mark, pattern in _PATTERNS:  # noqa: SIM110 - this runs for each text of a command; any() takes longer
        if mark in text and pattern.search(text):
            return True
    return False


def may_have_secret(octets: bytes) -> bool:
    """Returns False if no text of this JSON looks like a secret, so that parsing it can be spared.

    No secret begins within a word such as `task-assigned`, which is in every other record.
    """
    searched = octets.replace(b"task-", b"")
    for mark in _OCTETS:
        if mark in searched:
            return True
    if b"\\" in searched:
        searched = _ESCAPE.sub(b"", searched)
    # As `called` reads a name: `pass-word`, `${a.api_key}`.
    letters = searched.lower().translate(None, _BETWEEN)
    for name in _FIELD_NAMES:  # noqa: SIM110 - as in looks_secret
        if name in letters:
            return True
    return False


def is_called_secret(name: str, text: str) -> bool:
    """Returns whether a field's name calls its text a secret, as in `{"db_password": "hunter2"}`.

    The name has to end with what is a secret, so `tokenizer`, `token_dropout` and `secret_share` are none.
    Its text has to be long enough, and no placeholder or path; that of a key or token has letters and digits,
    and no space, as `pad_token` and the like are words. What is no text, as `max_token: 512`, is no secret.
    The default of a placeholder counts, as in `${PASSWORD:-hunter2}`.
    """
    kind = called(name)
    if not kind or len(text) < _SHORTEST_TEXTS[kind]:
        return False
    if _NO_SECRET.match(text):
        return ":-" in text and any(is_called_secret(name, each) for each in _DEFAULT.findall(text))
    return kind == "password" or (
        not any(letter.isspace() for letter in text)
        and any(letter.isdigit() for letter in text)
        and any(letter.isalpha() for letter in text)
    )


def has_secret(text: str) -> bool:
    """Returns whether a text has what looks like a secret, or what it calls one, which is a guess."""
    return redact(text) != text


@lru_cache(maxsize=4_096)
def called(name: str) -> str:
    """Returns what a field's name calls its value: a `password`, `key` or `token`; "" if nothing secret."""
    words = _NO_LETTER.sub("", name.lower())
    if words.endswith(_PASSWORDS):
        return "password"
    if words.endswith(_KEYS):
        return "key"
    return "token" if words.endswith("token") else ""


def mask_secrets(text: str) -> str:
    """Returns text without what looks like a secret."""
    for mark, pattern in _PATTERNS:
        if mark in text:
            text = pattern.sub(REDACTED, text)
    return text


def redact(text: str) -> str:
    """Returns text without what looks like a secret, and without what it calls one, as in `token: abc`.

    The second is a guess from a name: it may mask a word of output or of an error, but changes no data and
    refuses no command.
    """
    lowered = text.lower()
    if any(each in lowered for each in _CALLS):
        text = _CALLED_SECRET.sub(rf"\1{REDACTED}", text)
        if "--" in text:
            text = _OPTION.sub(rf"\1{REDACTED}", text)
    if "authorization" in lowered:
        text = _HEADER.sub(rf"\1{REDACTED}", text)
    return mask_secrets(text)


class LineRedactor:
    """Redacts a text line by line: a private key is masked from its first line to its last."""

    def __init__(self) -> None:
        self._in_key = False

    def redact(self, line: str) -> str:
        """Returns the next line without what looks like a secret."""
        if self._in_key and _KEY_LINE.fullmatch(line):
            self._in_key = "-----END" not in line
            return REDACTED
        self._in_key = "-----END" not in line and re.search(_KEY_EDGES[0], line) is not None
        return redact(line)

    def pass_over(self, line: str) -> None:
        """Takes the next line as one that is not published."""
        if self._in_key or "-----BEGIN" in line:
            self.redact(line)
