"""Sets of versions by their numbers, as text: a bit for each up to the largest. Pure.

They are hexadecimal digits, a quarter of a byte a number; the last bit is that of 0: `"6"` are 1 and 2.
"""

from trackside.contracts.tasks.artifacts import MAX_MODEL_VERSIONS


def has_number(numbers: str, number: int) -> bool:
    """Returns whether a number is in a set; the empty text is the empty set."""
    digit, bit = divmod(number, 4)
    return 0 <= digit < len(numbers) and bool(int(numbers[-1 - digit], 16) >> bit & 1)


def with_number(numbers: str, number: int) -> str:
    """Returns a set with another number; one that can't be that of a version is left out."""
    if not 0 <= number <= MAX_MODEL_VERSIONS:
        return numbers
    return f"{int(numbers or '0', 16) | 1 << number:x}"


def largest(numbers: str, count: int) -> list[int]:
    """Returns the largest numbers of a set, at most so many, in ascending order."""
    found: list[int] = []
    number = 4 * len(numbers) - 1
    while number >= 0 and len(found) < count:
        if has_number(numbers, number):
            found.append(number)
        number -= 1
    return found[::-1]
