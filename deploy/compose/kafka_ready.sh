#!/bin/bash
# Is the broker at HOST:PORT ready? Exit 0 if its metadata lists a broker, else 1.
#   bash kafka_ready.sh localhost 9092
# Kafka's own tools start a Java process for this, a second of processor time at each check. An open port alone
# says too little: it is open before the broker may serve clients, and stays open while it is fenced.
set -eu
exec 3<>"/dev/tcp/$1/$2"
# A request of 14 bytes: Metadata (key 3) version 1, number 1, of no client and for no topics.
printf '\x00\x00\x00\x0e\x00\x03\x00\x01\x00\x00\x00\x01\xff\xff\x00\x00\x00\x00' >&3
# The response: its size, its number, how many brokers there are, of 4 bytes each. There are fewer than 256.
brokers=$(head -c 12 <&3 | tail -c 1 | tr -d '\000' | wc -c)
[ "$brokers" = 1 ]
