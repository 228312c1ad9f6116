import java.time.Duration;
import java.util.HashMap;
import java.util.List;
import java.util.Map;
import org.apache.kafka.clients.consumer.AcknowledgeType;
import org.apache.kafka.clients.consumer.ConsumerRecord;
import org.apache.kafka.clients.consumer.KafkaShareConsumer;
import org.apache.kafka.common.serialization.StringDeserializer;

/**
 * Reads as a member of a share group until `count` records are accepted (with `release`: released) or `ms` are over;
 * writes a line for each.
 */
public final class ShareReader {
    private ShareReader() {}

    public static void main(final String[] args) {
        final String bootstrap = args[0];
        final String group = args[1];
        final String topic = args[2];
        final int count = Integer.parseInt(args[3]);
        final long ends = System.currentTimeMillis() + Long.parseLong(args[4]);
        // accept | release | release-odd | reject-odd | renew (and no more) | none
        final String how = args[5];
        final Map<String, Object> config = new HashMap<>();
        config.put("bootstrap.servers", bootstrap);
        config.put("group.id", group);
        config.put("share.acknowledgement.mode", "explicit");
        for (int at = 6; at < args.length; at++) {
            final String[] pair = args[at].split("=", 2);
            config.put(pair[0], pair[1]);
        }
        int accepted = 0;
        try (KafkaShareConsumer<String, String> consumer =
                new KafkaShareConsumer<>(config, new StringDeserializer(), new StringDeserializer())) {
            consumer.subscribe(List.of(topic));
            while (accepted < count && System.currentTimeMillis() < ends) {
                for (final ConsumerRecord<String, String> record : consumer.poll(Duration.ofMillis(200))) {
                    final int deliveries = record.deliveryCount().orElse((short) 0);
                    final boolean odd = record.offset() % 2 == 1 && deliveries == 1;
                    AcknowledgeType type = AcknowledgeType.ACCEPT;
                    if (how.equals("none")) {
                        System.out.println("seen " + record.partition() + " " + record.offset() + " " + deliveries);
                        System.out.flush();
                        // It keeps what it has until it is killed.
                        while (System.currentTimeMillis() < ends) {
                            sleep();
                        }
                        System.exit(3);
                    } else if (how.equals("release") || how.equals("release-odd") && odd) {
                        type = AcknowledgeType.RELEASE;
                    } else if (how.equals("renew")) {
                        consumer.acknowledge(record, AcknowledgeType.RENEW);
                        System.out.println("RENEW " + record.partition() + " " + record.offset() + " " + deliveries + " "
                            + consumer.commitSync().values().stream().findFirst().flatMap(problem -> problem)
                                .map(problem -> problem.getClass().getSimpleName()).orElse("done"));
                        accepted++;
                        continue;
                    } else if (how.equals("reject-odd") && odd) {
                        type = AcknowledgeType.REJECT;
                    }
                    consumer.acknowledge(record, type);
                    if (type == AcknowledgeType.ACCEPT || how.equals("release")) {
                        accepted++;
                    }
                    System.out.println(type.name() + " " + record.partition() + " " + record.offset() + " " + deliveries
                        + " " + record.value());
                }
                consumer.commitSync().forEach((partition, problem) -> problem.ifPresent(what -> {
                    System.out.println("ERROR " + partition.partition() + " " + what);
                }));
                System.out.flush();
            }
        }
    }

    private static void sleep() {
        try {
            Thread.sleep(50);
        } catch (final InterruptedException stopped) {
            System.exit(3);
        }
    }
}
