import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ArrayNode;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.nio.charset.StandardCharsets;
import java.time.Duration;
import java.util.ArrayList;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import java.util.concurrent.ExecutionException;
import java.util.concurrent.Future;
import org.apache.kafka.clients.admin.AdminClient;
import org.apache.kafka.clients.admin.NewTopic;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.ConsumerRecords;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.clients.producer.RecordMetadata;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ApiException;
import org.apache.kafka.common.header.Header;
import org.apache.kafka.common.protocol.Errors;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** Kafka's Java client, told what to do by one JSON command a line; tests/clients/driver.py describes the conversation. */
public class ClientDriver {
    static final ObjectMapper JSON = new ObjectMapper();
    static final Duration TIMEOUT = Duration.ofSeconds(60);
    final Map<String, Object> common;
    final AdminClient admin;
    final List<Member> members = new ArrayList<>();
    final List<KafkaProducer<String, String>> producers = new ArrayList<>();

    static class Member {
        final KafkaConsumer<String, String> consumer;
        final String topic;

        Member(KafkaConsumer<String, String> consumer, String topic) {
            this.consumer = consumer;
            this.topic = topic;
        }
    }

    ClientDriver(String bootstrap) {
        common = Map.of("bootstrap.servers", bootstrap);
        admin = AdminClient.create(new HashMap<>(common));
    }

    public static void main(String[] arguments) throws Exception {
        ClientDriver driver = new ClientDriver(arguments[0]);
        PrintStream answers = System.out;
        BufferedReader commands = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.UTF_8));
        for (String line = commands.readLine(); line != null; line = commands.readLine()) {
            ObjectNode answer = JSON.createObjectNode();
            try {
                answer.set("ok", driver.run(JSON.readTree(line)));
            } catch (Exception problem) {
                Throwable cause = problem;
                while (!(cause instanceof ApiException) && cause.getCause() != null) {
                    cause = cause.getCause();
                }
                Errors known = Errors.forException(cause);
                answer.put("error", known == Errors.UNKNOWN_SERVER_ERROR ? cause.getClass().getSimpleName() : known.name());
                answer.put("detail", String.valueOf(cause.getMessage()));
            }
            answers.println(JSON.writeValueAsString(answer));
            answers.flush();
        }
        System.exit(0);
    }

    JsonNode run(JsonNode command) throws Exception {
        String topic = command.path("topic").asText();
        switch (command.path("op").asText()) {
            case "create":
                admin.createTopics(List.of(new NewTopic(topic, command.path("partitions").asInt(), (short) -1))).all().get();
                return JSON.nullNode();
            case "delete":
                admin.deleteTopics(List.of(topic)).all().get();
                return JSON.nullNode();
            case "open":
                producers.add(producer(command));
                return JSON.getNodeFactory().numberNode(producers.size() - 1);
            case "send":
                return send(producers.get(command.path("producer").asInt()), topic, command);
            case "forget":
            case "purge":
                return JSON.nullNode();
            case "shut":
                producers.get(command.path("producer").asInt()).close();
                return JSON.nullNode();
            case "read":
                return read(topic, command.path("partitions").asInt(), command.path("count").asInt());
            case "join":
                return join(command.path("group").asText(), topic, command.path("newer").asBoolean());
            case "poll":
                return rows(member(command).consumer.poll(Duration.ofMillis(command.path("timeout_ms").asLong())));
            case "assignment": {
                ArrayNode partitions = JSON.createArrayNode();
                member(command).consumer.assignment().forEach(each -> partitions.add(each.partition()));
                return partitions;
            }
            case "commit": {
                Member member = member(command);
                Map<TopicPartition, OffsetAndMetadata> offsets = new HashMap<>();
                command.path("offsets").forEach(pair -> offsets.put(
                    new TopicPartition(member.topic, pair.get(0).asInt()), new OffsetAndMetadata(pair.get(1).asLong())));
                member.consumer.commitSync(offsets);
                return JSON.nullNode();
            }
            case "leave":
                member(command).consumer.close();
                return JSON.nullNode();
            default:
                throw new IllegalArgumentException("no such operation: " + command);
        }
    }

    Member member(JsonNode command) {
        return members.get(command.path("member").asInt());
    }

    KafkaProducer<String, String> producer(JsonNode command) {
        Map<String, Object> settings = new HashMap<>(common);
        settings.put("acks", command.path("acks").asText());
        settings.put("enable.idempotence", command.path("idempotent").asBoolean());
        settings.put("compression.type", command.path("compression").asText());
        settings.put("linger.ms", 5);
        settings.put("max.block.ms", command.path("unknown_topic_ms").asInt());
        // Without idempotence a retry of one of several requests in flight would reorder records.
        settings.put("max.in.flight.requests.per.connection", command.path("idempotent").asBoolean() ? 5 : 1);
        return new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
    }

    static JsonNode send(KafkaProducer<String, String> producer, String topic, JsonNode command)
            throws ExecutionException, InterruptedException {
        ArrayNode offsets = JSON.createArrayNode();
        List<Future<RecordMetadata>> sends = new ArrayList<>();
        for (JsonNode row : command.path("records")) {
            ProducerRecord<String, String> record =
                new ProducerRecord<>(topic, row.get(0).asInt(), text(row.get(1)), text(row.get(2)));
            row.get(3).forEach(pair ->
                record.headers().add(pair.get(0).asText(), pair.get(1).asText().getBytes(StandardCharsets.UTF_8)));
            sends.add(producer.send(record));
        }
        producer.flush();
        for (Future<RecordMetadata> send : sends) {
            RecordMetadata done = send.get();
            offsets.add(done.hasOffset() ? done.offset() : -1);
        }
        return offsets;
    }

    static String text(JsonNode node) {
        return node.isNull() ? null : node.asText();
    }

    KafkaConsumer<String, String> consumer(Map<String, Object> extra) {
        Map<String, Object> settings = new HashMap<>(common);
        settings.put("enable.auto.commit", false);
        settings.put("allow.auto.create.topics", false);
        settings.putAll(extra);
        return new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer());
    }

    JsonNode read(String topic, int partitions, int count) {
        ArrayNode found = JSON.createArrayNode();
        try (KafkaConsumer<String, String> consumer = consumer(Map.of("auto.offset.reset", "none"))) {
            List<TopicPartition> everything = new ArrayList<>();
            for (int partition = 0; partition < partitions; partition++) {
                everything.add(new TopicPartition(topic, partition));
            }
            consumer.assign(everything);
            everything.forEach(each -> consumer.seek(each, 0));
            long giveUp = System.nanoTime() + TIMEOUT.toNanos();
            while (found.size() < count && System.nanoTime() < giveUp) {
                found.addAll((ArrayNode) rows(consumer.poll(Duration.ofMillis(500))));
            }
        }
        return found;
    }

    JsonNode join(String group, String topic, boolean newer) {
        Map<String, Object> settings = new HashMap<>(
            Map.of("group.id", group, "auto.offset.reset", "earliest", "metadata.max.age.ms", 1000));
        if (newer) {
            settings.put("group.protocol", "consumer");
        } else {
            settings.putAll(Map.of("session.timeout.ms", 30000, "heartbeat.interval.ms", 300));
        }
        KafkaConsumer<String, String> consumer = consumer(settings);
        consumer.subscribe(List.of(topic));
        members.add(new Member(consumer, topic));
        return JSON.getNodeFactory().numberNode(members.size() - 1);
    }

    static JsonNode rows(ConsumerRecords<String, String> records) {
        ArrayNode rows = JSON.createArrayNode();
        for (ConsumerRecord<String, String> record : records) {
            ArrayNode row = rows.addArray().add(record.partition()).add(record.offset()).add(record.key()).add(record.value());
            ArrayNode headers = row.addArray();
            for (Header header : record.headers()) {
                headers.addArray().add(header.key()).add(new String(header.value(), StandardCharsets.UTF_8));
            }
        }
        return rows;
    }
}
