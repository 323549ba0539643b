#!/usr/bin/env bash
# Publishes one command and waits for its answer: publish.sh BOOTSTRAP TYPE STREAM FILE
# FILE holds the command's body as JSON. Exit 0: accepted. 2: refused. 1: no answer.
# Environment: COMMAND_ID, MODE=structured, TRACKSIDE_TOPIC_PREFIX, TIMEOUT_S.
set -euo pipefail
if [ $# -ne 4 ]; then
    echo "usage: publish.sh BOOTSTRAP TYPE STREAM FILE" >&2
    exit 64
fi
bootstrap=$1 type=$2 stream=$3 file=$4
id=${COMMAND_ID:-$(cat /proc/sys/kernel/random/uuid)}
source=https://example.org/publish-kcat
commands=${TRACKSIDE_TOPIC_PREFIX:-}trackside.commands
events=${TRACKSIDE_TOPIC_PREFIX:-}trackside.events

# The answer comes behind this moment; a minute covers clocks that differ.
since_ms=$(($(date +%s) * 1000 - 60000))

# `-p -1`: kcat chooses the partition of the key, any is fine.
produce=(kcat -b "$bootstrap" -P -t "$commands" -p -1 -k "$stream" -X enable.idempotence=true)
if [ "${MODE:-binary}" = structured ]; then
    # The whole CloudEvent is the value; the stream is its attribute `partitionkey`.
    printf '{"specversion":"1.0","id":"%s","type":"%s","source":"%s","partitionkey":"%s","data":%s}' \
        "$id" "$type" "$source" "$stream" "$(tr -d '\n' <"$file")" |
        "${produce[@]}" -H "content-type=application/cloudevents+json; charset=utf-8"
else
    # The attributes are headers, the value is the body alone.
    "${produce[@]}" -H ce_specversion=1.0 -H "ce_id=$id" -H "ce_type=$type" -H "ce_source=$source" \
        -H content-type=application/json "$file"
fi

# One record a line: its type, then its body. The answer names the command that it answers.
exec 3< <(exec timeout "${TIMEOUT_S:-30}" kcat -b "$bootstrap" -C -t "$events" -o "s@$since_ms" -u -q -f '%h\t%s\n')
reader=$!
trap 'kill "$reader" 2>/dev/null || true' EXIT
while IFS=$'\t' read -r headers body <&3; do
    case $body in *"\"command_id\":\"$id\""*) ;; *) continue ;; esac
    case $headers in
    *ce_type=trackside.command-accepted.v1*)
        echo "accepted: $stream"
        exit 0
        ;;
    *ce_type=trackside.command-refused.v1*)
        echo "refused: $body"
        exit 2
        ;;
    esac
done
echo "no answer to command $id within ${TIMEOUT_S:-30} s; is a dispatcher running?" >&2
exit 1
