"""An assessor as a process of its own, with no more than Python and kcat: python floor.py BOOTSTRAP

It answers requests to the assessor `floor`: a trial is hopeless whose newest value is worse than half of the
worst one that succeeded so far (its option `share` is another part than half). It keeps nothing: the same
request gets the same answer, from whichever of its copies. Values are taken for positive ones, the more the
better. TRACKSIDE_TOPIC_PREFIX is the installation's prefix, if it has one.
"""

import json
import os
import subprocess
import sys

NAME = "floor"
PREFIX = os.environ.get("TRACKSIDE_TOPIC_PREFIX", "")
REQUESTS, ANSWERS = f"{PREFIX}trackside.assessment-requests", f"{PREFIX}trackside.assessments"


def hopeless(request):
    """Returns the numbers of the running trials that are to be stopped."""
    done = [trial["value"] for trial in request["ended"] if trial["status"] == "SUCCEEDED"]
    done = [value for value in done if value is not None]
    if not done:
        return []
    floor = request["options"].get("share", 0.5) * min(done)
    newest = {trial["number"]: trial["values"][-1] for trial in request["running"]}
    # A value that isn't finite is a name, which float reads; nan is no better than any floor.
    return [number for number, value in newest.items() if not float(value) >= floor]


def answer(request):
    """Returns the answer to a request: who is hopeless, or that it can't say."""
    if request["direction"] != "maximize":
        return {"request_id": request["request_id"], "says": "failed", "message": "only maximize"}
    return {"request_id": request["request_id"], "hopeless": hopeless(request)}


def main():
    """Answers requests until it is stopped; a group shares them among its members."""
    bootstrap = sys.argv[1]
    # The group begins at the end: an older request will be asked again, or has failed already.
    group = f"{PREFIX}trackside.advisor.{NAME}"
    reader = ["kcat", "-b", bootstrap, "-q", "-u", "-G", group, "-X", "auto.offset.reset=latest"]
    sender = ["kcat", "-b", bootstrap, "-P", "-t", ANSWERS, "-X", "acks=all"]
    with subprocess.Popen([*reader, REQUESTS], stdout=subprocess.PIPE, text=True) as requests:
        for line in requests.stdout:
            request = json.loads(line)
            if request["assessor"] != NAME:
                continue
            attributes = {"specversion": "1.0", "id": os.urandom(12).hex(), "source": f"assessor/{NAME}"}
            attributes["type"] = "trackside.answer-assessment.v1"
            headers = [word for name, text in attributes.items() for word in ("-H", f"ce_{name}={text}")]
            key = ["-k", request["search_id"]]
            said = json.dumps(answer(request))
            subprocess.run([*sender, *key, *headers], input=said, text=True, check=True)
            sys.stderr.write(f"{request['search_id']}: {request['rows']} rows: {said}\n")


if __name__ == "__main__":
    main()
