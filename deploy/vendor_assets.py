"""Verifies the vendored files of the console against npm's registry: `python3 deploy/vendor_assets.py`.

Standard library only. `checksums.json` lists each file with its npm package, version, path in the package,
licence and SHA-256. To update a package, change its version there and run with `--write`: the files and their
checksums are replaced. Without `--write` nothing is changed, and each difference is printed.
"""

import argparse
import hashlib
import io
import json
import sys
import tarfile
import urllib.error
import urllib.request
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
VENDOR = ROOT / "services/console/src/trackside/console/static/vendor"
REGISTRY = "https://registry.npmjs.org"
TIMEOUT_S = 60
LIMIT_BYTES = 64 * 1024 * 1024
"""No package that the console uses is larger; a larger answer is an error of the registry."""


def main(arguments: list[str]) -> int:
    """Compares or replaces the vendored files: exit 0 if all are published, 1 if not, 2 for no answer."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--write", action="store_true", help="replace the files and their checksums")
    parser.add_argument("--registry", default=REGISTRY, help="address of the npm registry or of a mirror")
    options = parser.parse_args(arguments)
    listed = json.loads((VENDOR / "checksums.json").read_text("utf-8"))
    try:
        packages = {source: fetch(options.registry, source) for source in sources(listed)}
    except (OSError, urllib.error.URLError) as error:
        sys.stderr.write(f"The registry {options.registry} did not answer: {error}. Try again.\n")
        return 2
    differences = []
    for name, entry in listed.items():
        published = read_member(packages[entry["source"]], entry["path"])
        if options.write:
            (VENDOR / name).parent.mkdir(parents=True, exist_ok=True)
            (VENDOR / name).write_bytes(published)
            entry["sha256"] = hashlib.sha256(published).hexdigest()
        elif (VENDOR / name).read_bytes() != published:
            differences.append(f"{name} differs from {entry['path']} of {entry['source']}")
    if options.write:
        (VENDOR / "checksums.json").write_text(json.dumps(listed, indent=2) + "\n", "utf-8")
    sys.stdout.write("".join(f"{line}\n" for line in differences) or f"{len(listed)} files are verified.\n")
    return 1 if differences else 0


def sources(listed: dict[str, dict[str, str]]) -> list[str]:
    """Returns the npm packages of the listed files as `name@version`, each once."""
    return sorted({entry["source"] for entry in listed.values()})


def fetch(registry: str, source: str) -> bytes:
    """Returns the archive of a package given as `name@version`; OSError if the registry does not answer."""
    name, _, version = source.rpartition("@")
    url = f"{registry}/{name}/-/{name.rpartition('/')[2]}-{version}.tgz"
    with urllib.request.urlopen(url, timeout=TIMEOUT_S) as answer:
        archive: bytes = answer.read(LIMIT_BYTES + 1)
    if len(archive) > LIMIT_BYTES:
        raise OSError(f"{url} is larger than {LIMIT_BYTES} bytes")
    return archive


def read_member(archive: bytes, path: str) -> bytes:
    """Returns a file of a package's archive; KeyError if the package does not contain it."""
    with tarfile.open(fileobj=io.BytesIO(archive), mode="r:gz") as package:
        member = package.extractfile(f"package/{path}")
        if member is None:
            raise KeyError(f"{path} is not a file")
        return member.read()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
