"""A tuner as a process of its own, with no more than Python and kcat: python halving.py BOOTSTRAP

It answers requests to the tuner `halving`: halfway between the best trial so far and a point that chance
gives. It keeps nothing: the same request gets the same answer, from whichever of its copies.
TRACKSIDE_TOPIC_PREFIX is the installation's prefix, if it has one.
"""

import json
import os
import random
import subprocess
import sys

NAME = "halving"
PREFIX = os.environ.get("TRACKSIDE_TOPIC_PREFIX", "")
REQUESTS, ANSWERS = f"{PREFIX}trackside.suggestion-requests", f"{PREFIX}trackside.suggestions"


def suggested(request):
    """Suggests a point of a space of uniform parameters."""
    chance = random.Random(request["seed"])
    point = {
        name: chance.uniform(parameter["low"], parameter["high"])
        for name, parameter in sorted(request["space"].items())
    }
    done = [past for past in request["past"] if past["state"] == "complete"]
    if not done:
        return point
    choose = max if request["direction"] == "maximize" else min
    best = choose(done, key=lambda past: past["value"])["parameters"]
    return {name: (point[name] + best[name]) / 2 for name in point}


def answer(request):
    """Returns the answer to a request: parameters, or that there are none."""
    try:
        return {"request_id": request["request_id"], "parameters": suggested(request)}
    except KeyError as missing:
        why = f"this tuner knows uniform parameters only: no {missing}"
        return {"request_id": request["request_id"], "says": "failed", "message": why}


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
            if request["tuner"] != NAME:
                continue
            attributes = {"specversion": "1.0", "id": os.urandom(12).hex(), "source": f"tuner/{NAME}"}
            attributes["type"] = "trackside.answer-suggestion.v1"
            headers = [word for name, text in attributes.items() for word in ("-H", f"ce_{name}={text}")]
            key = ["-k", request["search_id"]]
            said = json.dumps(answer(request))
            subprocess.run([*sender, *key, *headers], input=said, text=True, check=True)
            sys.stderr.write(f"{request['search_id']}: trial {request['trial']}: {said}\n")


if __name__ == "__main__":
    main()
