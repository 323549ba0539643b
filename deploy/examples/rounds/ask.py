"""Asks a service to read digits, again and again: prints which version answers, and how well it reads them.

python ask.py http://127.0.0.1:41939/          images of the weak lamp, none of which was in a batch
"""

import argparse
import json
import sys
import time
import urllib.request
from typing import Any

import numpy as np
from digits_stream import BATCHES, FIRST_ROWS, ROWS, digits, dim


def ask(url: str, images: np.ndarray) -> dict[str, Any]:
    """Returns the answer of a service to a request with images."""
    body = json.dumps({"inputs": {"images": images.tolist()}}).encode()
    request = urllib.request.Request(f"{url.rstrip('/')}/predict", body, {"Content-Type": "application/json"})
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.load(answer)


def tell(text: str) -> None:
    """Prints a line at once."""
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def main() -> None:
    """Asks until it is interrupted, and prints a line for each version that answers."""
    parser = argparse.ArgumentParser(description="Asks a service to read digits.")
    parser.add_argument("url")
    parser.add_argument("--times", type=int, default=0, help="how often; 0: until it is interrupted")
    asked = parser.parse_args()
    images, labels = (each[FIRST_ROWS + len(BATCHES) * ROWS :] for each in digits())
    last, count = None, 0
    while not asked.times or count < asked.times:
        found = ask(asked.url, dim(images))
        count += 1
        if found["version"] != last:
            last = found["version"]
            share = float((np.asarray(found["outputs"]["digits"]) == labels).mean())
            tell(f"after {count} requests: version {last} reads {share:.0%} of {len(labels)}")
        time.sleep(0.05)


if __name__ == "__main__":
    main()
