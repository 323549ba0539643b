// Publishes one command and waits for its answer: node publish.js BOOTSTRAP TYPE STREAM FILE
// FILE holds the command's body as JSON. Exit 0: accepted. 2: refused. 1: no answer.
// Environment: COMMAND_ID, MODE=structured, KEY=my-key.pem (signs), TRACKSIDE_TOPIC_PREFIX, TIMEOUT_S.
const { readFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { Kafka, logLevel } = require("kafkajs");
const { headers: signed } = require("./sign.js");

const [bootstrap, type, stream, file] = process.argv.slice(2);
if (!file) {
  console.error("usage: node publish.js BOOTSTRAP TYPE STREAM FILE");
  process.exit(64);
}
const { MODE, TRACKSIDE_TOPIC_PREFIX: prefix = "", COMMAND_ID: id = randomUUID(), TIMEOUT_S = "30" } = process.env;
const commands = `${prefix}trackside.commands`;
const events = `${prefix}trackside.events`;
const kafka = new Kafka({ clientId: "publish-node", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

// A CloudEvent in either mode: attributes in headers and the body as value, or everything in the value.
function message() {
  const attributes = { specversion: "1.0", id, type, source: "https://example.org/publish-node" };
  if (MODE === "structured") {
    const event = { ...attributes, partitionkey: stream, data: JSON.parse(readFileSync(file)) };
    const headers = { "content-type": "application/cloudevents+json; charset=utf-8" };
    return { key: stream, value: JSON.stringify(event), headers };
  }
  const headers = { "content-type": "application/json" };
  for (const [name, value] of Object.entries(attributes)) headers[`ce_${name}`] = value;
  return { key: stream, value: readFileSync(file), headers };
}

function withSignature({ key, value, headers }) {
  const { KEY } = process.env;
  const about = { topic: commands, id, type, stream, value };
  return { key, value, headers: KEY ? { ...headers, ...signed(KEY, about) } : headers };
}

// Reads from the end of the log as it is now: the answer comes behind it. kafkajs has no reader without
// a group, so this one gets a group of its own that starts there.
async function readerFromEnd(admin) {
  const groupId = `${prefix}trackside.publisher.node-${randomUUID()}`;
  const ends = await admin.fetchTopicOffsets(events);
  const partitions = ends.map(({ partition, high }) => ({ partition, offset: high }));
  await admin.setOffsets({ groupId, topic: events, partitions });
  const consumer = kafka.consumer({ groupId });
  await consumer.connect();
  await consumer.subscribe({ topics: [events] });
  return { consumer, groupId };
}

async function main() {
  const admin = kafka.admin();
  await admin.connect();
  const { consumer, groupId } = await readerFromEnd(admin);

  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const [sent] = await producer.send({ topic: commands, acks: -1, messages: [withSignature(message())] });
  await producer.disconnect();

  // The answer names the place of the command that it answers.
  let late;
  const answer = new Promise((resolve, reject) => {
    late = setTimeout(() => reject(new Error(`no answer to command ${id} within ${TIMEOUT_S} s`)), TIMEOUT_S * 1000);
    consumer.run({
      eachMessage: async ({ message: { headers, value } }) => {
        const kind = String(headers.ce_type);
        if (!/^trackside\.command-(accepted|refused)\.v1$/.test(kind)) return;
        const body = JSON.parse(value);
        const { partition, offset } = body.source;
        if (partition === sent.partition && String(offset) === sent.baseOffset) resolve([kind, body]);
      },
    });
  });
  const [kind, body] = await answer;
  clearTimeout(late);
  await consumer.disconnect();
  await admin.deleteGroups([groupId]);
  await admin.disconnect();
  if (kind.includes("accepted")) {
    console.log(`accepted: ${stream}`);
    return 0;
  }
  console.log(`refused: ${body.code} at ${body.path}: ${body.message}`);
  return 2;
}

main().then((code) => process.exit(code), (error) => {
  console.error(error.message);
  process.exit(1);
});
