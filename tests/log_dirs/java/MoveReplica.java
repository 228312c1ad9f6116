import java.util.List;
import java.util.Map;
import java.util.concurrent.TimeUnit;
import org.apache.kafka.clients.admin.Admin;
import org.apache.kafka.clients.admin.DescribeReplicaLogDirsResult.ReplicaLogDirInfo;
import org.apache.kafka.common.TopicPartitionReplica;

/** Moves a partition as Kafka's own tools do: bootstrap, topic, partition, broker, directory. Prints where it is in the end. */
public final class MoveReplica {
    public static void main(String[] args) throws Exception {
        TopicPartitionReplica replica = new TopicPartitionReplica(args[1], Integer.parseInt(args[2]), Integer.parseInt(args[3]));
        try (Admin admin = Admin.create(Map.of("bootstrap.servers", args[0]))) {
            admin.alterReplicaLogDirs(Map.of(replica, args[4])).all().get(60, TimeUnit.SECONDS);
            ReplicaLogDirInfo info;
            long giveUp = System.nanoTime() + TimeUnit.SECONDS.toNanos(60);
            do {
                Thread.sleep(20);
                info = admin.describeReplicaLogDirs(List.of(replica)).all().get(60, TimeUnit.SECONDS).get(replica);
            } while (!args[4].equals(info.getCurrentReplicaLogDir()) && System.nanoTime() < giveUp);
            System.out.println(info.getCurrentReplicaLogDir() + " " + info.getFutureReplicaLogDir());
        }
    }
}
