"""Asks a service to read digits, again and again: prints which version answers, and how well it reads.

python ask.py http://127.0.0.1:41939           images of the weak lamp, none of which was in a batch
"""

import argparse
import json
import sys
import time
import urllib.request
from typing import Any

from digits_stream import BATCHES, FIRST_ROWS, ROWS, digits, dim

WINDOW = 100
"""Of how many answers the share is that is printed."""


def ask(url: str, pixels: list[int]) -> dict[str, Any]:
    """Returns the answer of a service for an image."""
    body = json.dumps({"inputs": {"pixels": pixels}}).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        found: dict[str, Any] = json.load(answer)
    return found


def tell(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Asks until it is interrupted; prints a line for each version, after 100 answers of it."""
    parser = argparse.ArgumentParser(description="Asks a service to read digits.")
    parser.add_argument("url")
    parser.add_argument("--times", type=int, default=0, help="how often; 0: until it is interrupted")
    asked = parser.parse_args()
    images, labels = (each[FIRST_ROWS + len(BATCHES) * ROWS :] for each in digits())
    images = dim(images)
    version, right, count = None, 0, 0
    number = 0
    while not asked.times or number < asked.times:
        at = number % len(labels)
        found = ask(asked.url, images[at].tolist())
        number += 1
        if found["version"] != version:
            version, right, count = found["version"], 0, 0
            tell(f"request {number}: version {version} answers")
        right, count = right + int(found["outputs"]["digit"] == labels[at]), count + 1
        if count == WINDOW:
            tell(f"request {number}: version {version} has read {right} of {count} images")
        time.sleep(0.02)


if __name__ == "__main__":
    main()
