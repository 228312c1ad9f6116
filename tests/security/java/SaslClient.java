import java.time.Duration;
import java.util.List;
import java.util.Properties;
import org.apache.kafka.clients.consumer.KafkaConsumer;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.serialization.StringDeserializer;
import org.apache.kafka.common.serialization.StringSerializer;

/** A Java client that authenticates, writes a record, reads one in a group and commits: see main.go beside it. */
public final class SaslClient {
    static Properties settings(String bootstrap, String login) {
        String[] parts = login.split(":", 3);
        String module = parts[0].equals("PLAIN") ? "plain.PlainLoginModule" : "scram.ScramLoginModule";
        Properties settings = new Properties();
        settings.put("bootstrap.servers", bootstrap);
        if (parts.length == 1) {
            settings.put("security.protocol", login);
            return settings;
        }
        settings.put("security.protocol", "SASL_PLAINTEXT");
        settings.put("sasl.mechanism", parts[0]);
        settings.put("sasl.jaas.config", "org.apache.kafka.common.security." + module + " required username=\""
            + parts[1] + "\" password=\"" + parts[2] + "\";");
        return settings;
    }

    static String outcome(Throwable problem) {
        Throwable cause = problem instanceof java.util.concurrent.ExecutionException ? problem.getCause() : problem;
        return cause.getClass().getSimpleName();
    }

    static String produce(String bootstrap, String topic, String login) {
        Properties settings = settings(bootstrap, login);
        settings.put("max.block.ms", "60000");
        try (KafkaProducer<String, String> producer =
                new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.send(new ProducerRecord<>(topic, "java")).get();
            return "ok";
        } catch (Exception problem) {
            return outcome(problem);
        }
    }

    static String consume(String bootstrap, String topic, String group, String login) {
        Properties settings = settings(bootstrap, login);
        settings.put("group.id", group);
        settings.put("auto.offset.reset", "earliest");
        settings.put("enable.auto.commit", "false");
        try (KafkaConsumer<String, String> consumer =
                new KafkaConsumer<>(settings, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            long end = System.nanoTime() + 60_000_000_000L;
            while (System.nanoTime() < end) {
                if (!consumer.poll(Duration.ofMillis(500)).isEmpty()) {
                    consumer.commitSync();
                    return "ok";
                }
            }
            return "nothing";
        } catch (Exception problem) {
            return outcome(problem);
        }
    }

    public static void main(String[] arguments) {
        for (int number = 3; number < arguments.length; number++) {
            String produced = produce(arguments[0], arguments[1], arguments[number]);
            String consumed = consume(arguments[0], arguments[1], arguments[2] + "-" + number, arguments[number]);
            System.out.println(produced + "\t" + consumed);
        }
    }
}
