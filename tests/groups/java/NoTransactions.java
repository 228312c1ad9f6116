import java.util.Map;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.common.KafkaException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Begins a transaction where none are served; prints the error that the client gives to its user. */
public final class NoTransactions {
    public static void main(String[] arguments) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", arguments[0],
            "transactional.id", "t",
            "max.block.ms", "60000");
        try (var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer())) {
            producer.initTransactions();
            System.out.println("began");
        } catch (KafkaException problem) {
            System.out.println(problem.getClass().getSimpleName());
        }
    }
}
