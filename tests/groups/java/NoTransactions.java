import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Begins a transaction where none are served; prints how long the client took to give up, and why. */
public final class NoTransactions {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "transactional.id", "t",
            "max.block.ms", "60000");
        long begin = System.nanoTime();
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            System.out.println("began");
        } catch (KafkaException problem) {
            long millis = (System.nanoTime() - begin) / 1_000_000;
            System.out.println(millis + " " + problem.getClass().getSimpleName());
        }
    }
}
