import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.nio.charset.StandardCharsets;
import java.nio.file.Files;
import java.nio.file.Path;
import java.time.Duration;
import java.util.List;
import java.util.Map;
import java.util.UUID;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.serialization.ByteArrayDeserializer;
import org.apache.kafka.common.serialization.ByteArraySerializer;

/**
 * Publishes one command and waits for its answer: java -cp 'lib/*' Publish.java BOOTSTRAP TYPE STREAM FILE
 *
 * <p>FILE holds the command's body as JSON. Exit 0: accepted. 2: refused. 1: no answer. Environment:
 * COMMAND_ID, MODE=structured, TRACKSIDE_TOPIC_PREFIX, TIMEOUT_S.
 */
public final class Publish {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final String PREFIX = or("TRACKSIDE_TOPIC_PREFIX", "");

    public static void main(String[] given) throws Exception {
        if (given.length != 4) {
            System.err.println("usage: Publish BOOTSTRAP TYPE STREAM FILE");
            System.exit(64);
        }
        String bootstrap = given[0], type = given[1], stream = given[2];
        byte[] body = Files.readAllBytes(Path.of(given[3]));
        String id = or("COMMAND_ID", UUID.randomUUID().toString());
        Duration timeout = Duration.ofMillis((long) (Double.parseDouble(or("TIMEOUT_S", "30")) * 1000));
        try (var consumer = new KafkaConsumer<byte[], byte[]>(
                Map.of("bootstrap.servers", bootstrap), new ByteArrayDeserializer(), new ByteArrayDeserializer())) {
            // Read from the end of the log as it is now: the answer comes behind it.
            String events = PREFIX + "trackside.events";
            List<TopicPartition> partitions = consumer.partitionsFor(events).stream()
                    .map(found -> new TopicPartition(events, found.partition())).toList();
            consumer.assign(partitions);
            consumer.endOffsets(partitions).forEach(consumer::seek);
            RecordMetadata sent = send(bootstrap, message(id, type, stream, body));
            JsonNode answer = answer(consumer, sent, timeout);
            if (answer == null) {
                System.err.println("no answer to command " + id + " within " + timeout.toSeconds() + " s");
                System.exit(1);
            }
            System.out.println(answer.has("code")
                    ? "refused: %s at %s: %s".formatted(
                            answer.get("code").asText(), answer.get("path").asText(), answer.get("message").asText())
                    : "accepted: " + stream);
            System.exit(answer.has("code") ? 2 : 0);
        }
    }

    /** Gives a CloudEvent in either mode: attributes in headers and the body as value, or all in the value. */
    private static ProducerRecord<byte[], byte[]> message(String id, String type, String stream, byte[] body)
            throws Exception {
        ObjectNode attributes = JSON.createObjectNode().put("specversion", "1.0").put("id", id).put("type", type)
                .put("source", "https://example.org/publish-java");
        boolean structured = or("MODE", "binary").equals("structured");
        byte[] value = body;
        if (structured) {
            value = JSON.writeValueAsBytes(
                    attributes.put("partitionkey", stream).set("data", JSON.readTree(body)));
        }
        var record = new ProducerRecord<>(PREFIX + "trackside.commands", bytes(stream), value);
        if (structured) {
            record.headers().add("content-type", bytes("application/cloudevents+json; charset=utf-8"));
        } else {
            attributes.properties().forEach(each ->
                    record.headers().add("ce_" + each.getKey(), bytes(each.getValue().asText())));
            record.headers().add("content-type", bytes("application/json"));
        }
        return record;
    }

    /** Sends a record; Java's producer is idempotent and waits for all replicas unless told otherwise. */
    private static RecordMetadata send(String bootstrap, ProducerRecord<byte[], byte[]> record) throws Exception {
        try (var producer = new KafkaProducer<>(
                Map.of("bootstrap.servers", bootstrap), new ByteArraySerializer(), new ByteArraySerializer())) {
            return producer.send(record).get();
        }
    }

    /** Reads until the answer that names the place of the command; null if it doesn't come in time. */
    private static JsonNode answer(KafkaConsumer<byte[], byte[]> consumer, RecordMetadata sent, Duration timeout)
            throws Exception {
        long deadline = System.nanoTime() + timeout.toNanos();
        while (System.nanoTime() < deadline) {
            for (ConsumerRecord<byte[], byte[]> record : consumer.poll(Duration.ofMillis(500))) {
                Header type = record.headers().lastHeader("ce_type");
                if (type == null || !new String(type.value(), StandardCharsets.UTF_8)
                        .matches("trackside\\.command-(accepted|refused)\\.v1")) {
                    continue;
                }
                JsonNode body = JSON.readTree(record.value());
                JsonNode source = body.get("source");
                if (source.get("partition").asInt() == sent.partition()
                        && source.get("offset").asLong() == sent.offset()) {
                    return body;
                }
            }
        }
        return null;
    }

    private static String or(String name, String otherwise) {
        String value = System.getenv(name);
        return value == null || value.isEmpty() ? otherwise : value;
    }

    private static byte[] bytes(String text) {
        return text.getBytes(StandardCharsets.UTF_8);
    }
}
