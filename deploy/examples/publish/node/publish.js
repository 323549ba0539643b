// Publishes one command and waits for its answer: node publish.js BOOTSTRAP TYPE STREAM FILE [PREFIX]
//   node publish.js 127.0.0.1:9092 trackside.start-search.v1 my-search start.json
// FILE holds the command's body as JSON. Exit 0: accepted. Exit 2: refused, with code, path and reason.
const { readFileSync } = require("node:fs");
const { randomUUID } = require("node:crypto");
const { Kafka, logLevel } = require("kafkajs");

const [bootstrap, type, stream, file, prefix = ""] = process.argv.slice(2);
if (!file) {
  console.error("usage: node publish.js BOOTSTRAP TYPE STREAM FILE [PREFIX]");
  process.exit(64);
}
const commands = `${prefix}trackside.commands`;
const events = `${prefix}trackside.events`;
const kafka = new Kafka({ clientId: "publish-example", brokers: bootstrap.split(","), logLevel: logLevel.NOTHING });

async function main() {
  // Read from the end of the log as it is now: the answer comes behind it.
  const consumer = kafka.consumer({ groupId: `publish-example-${randomUUID()}` });
  await consumer.connect();
  await consumer.subscribe({ topics: [events], fromBeginning: true });

  const producer = kafka.producer({ idempotent: true });
  await producer.connect();
  const [sent] = await producer.send({
    topic: commands,
    acks: -1,
    messages: [{
      key: stream,
      value: readFileSync(file),
      headers: {
        ce_specversion: "1.0",
        ce_id: randomUUID(), // publish again with the same id: the same answer again
        ce_type: type,
        ce_source: "https://example.org/publish-example",
        "content-type": "application/json",
      },
    }],
  });
  await producer.disconnect();

  // The answer names the place of the command that it answers.
  const answer = new Promise((resolve) => consumer.run({
    eachMessage: async ({ message }) => {
      const kind = String(message.headers.ce_type);
      if (!/^trackside\.command-(accepted|refused)\.v1$/.test(kind)) return;
      const body = JSON.parse(message.value);
      const { partition, offset } = body.source;
      if (partition === sent.partition && String(offset) === sent.baseOffset) resolve([kind, body]);
    },
  }));
  const [kind, body] = await answer;
  await consumer.disconnect();
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
