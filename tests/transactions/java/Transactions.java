import java.util.Map;
import org.apache.kafka.clients.consumer.ConsumerGroupMetadata;
import org.apache.kafka.clients.consumer.OffsetAndMetadata;
import org.apache.kafka.clients.producer.KafkaProducer;
import org.apache.kafka.clients.producer.ProducerRecord;
import org.apache.kafka.common.TopicPartition;
import org.apache.kafka.common.errors.ProducerFencedException;
import org.apache.kafka.common.serialization.StringSerializer;

/** Three transactions with records and offsets, the second one aborted; then an older producer of the id is fenced. */
public final class Transactions {
    private static KafkaProducer<String, String> producer(String bootstrap) {
        Map<String, Object> settings = Map.of(
            "bootstrap.servers", bootstrap,
            "transactional.id", "t",
            "max.block.ms", "60000");
        var producer = new KafkaProducer<>(settings, new StringSerializer(), new StringSerializer());
        producer.initTransactions();
        return producer;
    }

    public static void main(String[] arguments) throws Exception {
        String topic = arguments[1];
        try (var producer = producer(arguments[0])) {
            for (int round = 0; round < 3; round++) {
                producer.beginTransaction();
                producer.send(new ProducerRecord<>(topic, 0, null, round + "a"));
                producer.send(new ProducerRecord<>(topic, 1, null, round + "b"));
                producer.sendOffsetsToTransaction(
                    Map.of(new TopicPartition(topic, 0), new OffsetAndMetadata(10 + round)),
                    new ConsumerGroupMetadata("group"));
                if (round == 1) {
                    producer.flush();
                    producer.abortTransaction();
                } else {
                    producer.commitTransaction();
                }
            }
            try (var newer = producer(arguments[0])) {
                producer.beginTransaction();
                try {
                    producer.send(new ProducerRecord<>(topic, 0, null, "fenced")).get();
                    producer.commitTransaction();
                    System.out.println("not fenced");
                } catch (java.util.concurrent.ExecutionException | ProducerFencedException problem) {
                    System.out.println("done");
                }
            }
        }
    }
}
