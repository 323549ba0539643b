// Signs a command: node sign.js KEY.pem TOPIC ID TYPE STREAM FILE prints the two headers as JSON.
// FILE is the value of the record, byte for byte. The key's id is the name of its file.
const { readFileSync } = require("node:fs");
const { basename } = require("node:path");
const { createHash, sign } = require("node:crypto");

// Eight lines with a line feed between them and none at the end, in UTF-8.
function headers(keyFile, { topic, id, type, stream, receiptTo = "", value }) {
  const keyId = basename(keyFile).replace(/\.[^.]*$/, "");
  const digest = createHash("sha256").update(value).digest("hex");
  const lines = ["trackside-command-signature-v1", topic, keyId, id, type, stream, receiptTo, digest];
  const signature = sign(null, Buffer.from(lines.join("\n")), readFileSync(keyFile));
  return { "trackside-key-id": keyId, "trackside-signature": signature.toString("base64") };
}

module.exports = { headers };

if (require.main === module) {
  const [keyFile, topic, id, type, stream, file] = process.argv.slice(2);
  if (!file) {
    console.error("usage: node sign.js KEY.pem TOPIC ID TYPE STREAM FILE");
    process.exit(64);
  }
  console.log(JSON.stringify(headers(keyFile, { topic, id, type, stream, value: readFileSync(file) })));
}
