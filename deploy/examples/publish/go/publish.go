// Publishes one command and waits for its answer: publish BOOTSTRAP TYPE STREAM FILE
//
// FILE holds the command's body as JSON. Exit 0: accepted. 2: refused. 1: no answer.
// Environment: COMMAND_ID, MODE=structured, TRACKSIDE_TOPIC_PREFIX, TIMEOUT_S.
package main

import (
	"context"
	"crypto/rand"
	"encoding/json"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
)

// place is where a record lies; an answer names the place of the command that it answers.
type place struct {
	Partition int32 `json:"partition"`
	Offset    int64 `json:"offset"`
}

type answer struct {
	Source              place
	Code, Path, Message string
}

func main() {
	if len(os.Args) != 5 {
		fmt.Fprintln(os.Stderr, "usage: publish BOOTSTRAP TYPE STREAM FILE")
		os.Exit(64)
	}
	timeout, err := time.ParseDuration(or("TIMEOUT_S", "30") + "s")
	if err == nil {
		var code int
		if code, err = publish(timeout, os.Args[1], os.Args[2], os.Args[3], os.Args[4]); err == nil {
			os.Exit(code)
		}
	}
	fmt.Fprintln(os.Stderr, err)
	os.Exit(1)
}

func or(name, otherwise string) string {
	if value := os.Getenv(name); value != "" {
		return value
	}
	return otherwise
}

// message gives a CloudEvent in either mode: attributes in headers and the body as value, or all in the value.
func message(id, kind, stream string, body []byte) (*kgo.Record, error) {
	attributes := map[string]any{
		"specversion": "1.0", "id": id, "type": kind, "source": "https://example.org/publish-go",
	}
	record := &kgo.Record{Topic: or("TRACKSIDE_TOPIC_PREFIX", "") + "trackside.commands", Key: []byte(stream), Value: body}
	if os.Getenv("MODE") == "structured" {
		attributes["partitionkey"] = stream
		attributes["data"] = json.RawMessage(body)
		value, err := json.Marshal(attributes)
		record.Value = value
		record.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/cloudevents+json; charset=utf-8")}}
		return record, err
	}
	record.Headers = []kgo.RecordHeader{{Key: "content-type", Value: []byte("application/json")}}
	for name, value := range attributes {
		record.Headers = append(record.Headers, kgo.RecordHeader{Key: "ce_" + name, Value: []byte(value.(string))})
	}
	return record, nil
}

func publish(timeout time.Duration, bootstrap, kind, stream, file string) (int, error) {
	body, err := os.ReadFile(file)
	if err != nil {
		return 0, err
	}
	id := or("COMMAND_ID", rand.Text())
	record, err := message(id, kind, stream, body)
	if err != nil {
		return 0, err
	}
	// franz-go's producer is idempotent and waits for all replicas unless told otherwise.
	client, err := kgo.NewClient(kgo.SeedBrokers(strings.Split(bootstrap, ",")...))
	if err != nil {
		return 0, err
	}
	defer client.Close()

	sending, cancel := context.WithTimeout(context.Background(), 2*time.Minute)
	defer cancel()
	// Read from the end of the log as it is now: the answer comes behind it.
	events := or("TRACKSIDE_TOPIC_PREFIX", "") + "trackside.events"
	ends, err := kadm.NewClient(client).ListEndOffsets(sending, events)
	if err != nil {
		return 0, err
	}
	sent, err := client.ProduceSync(sending, record).First()
	if err != nil {
		return 0, err
	}
	client.AddConsumePartitions(ends.KOffsets())
	wanted := place{sent.Partition, sent.Offset}
	ctx, cancel := context.WithTimeout(context.Background(), timeout)
	defer cancel()
	for {
		fetches := client.PollFetches(ctx)
		if ctx.Err() != nil {
			return 0, fmt.Errorf("no answer to command %s: %w", id, ctx.Err())
		}
		for _, found := range fetches.Records() {
			if code, is := read(found, wanted, stream); is {
				return code, nil
			}
		}
	}
}

// read says whether a record is the answer, and tells it.
func read(record *kgo.Record, wanted place, stream string) (int, bool) {
	kind := ""
	for _, header := range record.Headers {
		if header.Key == "ce_type" {
			kind = string(header.Value)
		}
	}
	accepted := kind == "trackside.command-accepted.v1"
	if !accepted && kind != "trackside.command-refused.v1" {
		return 0, false
	}
	var found answer
	if json.Unmarshal(record.Value, &found) != nil || found.Source != wanted {
		return 0, false
	}
	if accepted {
		fmt.Printf("accepted: %s\n", stream)
		return 0, true
	}
	fmt.Printf("refused: %s at %s: %s\n", found.Code, found.Path, found.Message)
	return 2, true
}
