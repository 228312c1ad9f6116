import com.fasterxml.jackson.databind.JsonNode;
import com.fasterxml.jackson.databind.ObjectMapper;
import com.fasterxml.jackson.databind.node.ObjectNode;
import java.io.BufferedReader;
import java.io.InputStreamReader;
import java.io.PrintStream;
import java.lang.reflect.Method;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import java.util.Arrays;
import java.util.HexFormat;
import java.util.Map;
import org.apache.kafka.common.protocol.ApiMessage;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecord;
import org.apache.kafka.coordinator.common.runtime.CoordinatorRecordSerde;
import org.apache.kafka.coordinator.group.GroupCoordinatorRecordSerde;
import org.apache.kafka.coordinator.share.ShareCoordinatorRecordSerde;
import org.apache.kafka.coordinator.transaction.TransactionCoordinatorRecordSerde;

/**
 * Reads records of internal topics with the code by which Kafka's coordinators load them.
 *
 * From standard input, a line for each record: coordinator (group, share or transaction), key and value in hexadecimal
 * ("-": no value). To standard output, a line of JSON for each: "type" of the key, "key", "version" of the value, "value",
 * and "complete": Kafka writes the same bytes again. For an unreadable record only "problem".
 */
public final class StoredRecords {
    private static final ObjectMapper JSON = new ObjectMapper();
    private static final Map<String, CoordinatorRecordSerde> SERDES = Map.of(
        "group", new GroupCoordinatorRecordSerde(),
        "share", new ShareCoordinatorRecordSerde(),
        "transaction", new TransactionCoordinatorRecordSerde());

    public static void main(String[] arguments) throws Exception {
        BufferedReader in = new BufferedReader(new InputStreamReader(System.in, StandardCharsets.US_ASCII));
        try (PrintStream out = new PrintStream(System.out, false, StandardCharsets.UTF_8)) {
            for (String line = in.readLine(); line != null; line = in.readLine()) {
                String[] fields = line.split(" ");
                byte[] key = HexFormat.of().parseHex(fields[1]);
                byte[] value = fields[2].equals("-") ? null : HexFormat.of().parseHex(fields[2]);
                ObjectNode answer = JSON.createObjectNode();
                try {
                    describe(answer, fields[0], key, value);
                } catch (RuntimeException problem) {
                    answer.put("problem", problem.toString());
                }
                out.println(JSON.writeValueAsString(answer));
            }
        }
    }

    private static void describe(ObjectNode answer, String coordinator, byte[] key, byte[] value) throws Exception {
        CoordinatorRecordSerde serde = SERDES.get(coordinator);
        CoordinatorRecord record = serde.deserialize(
            ByteBuffer.wrap(key), value == null ? null : ByteBuffer.wrap(value));
        Class<?> converters = Class.forName(
            "org.apache.kafka.coordinator." + coordinator + ".generated.CoordinatorRecordJsonConverters");
        Method ofKey = converters.getMethod("writeRecordKeyAsJson", ApiMessage.class);
        answer.put("type", record.key().apiKey());
        answer.set("key", (JsonNode) ofKey.invoke(null, record.key()));
        boolean complete = Arrays.equals(key, serde.serializeKey(record));
        if (record.value() == null) {
            answer.putNull("version").putNull("value");
        } else {
            Method ofValue = converters.getMethod("writeRecordValueAsJson", ApiMessage.class, short.class);
            answer.put("version", record.value().version());
            answer.set("value", (JsonNode) ofValue.invoke(null, record.value().message(), record.value().version()));
            complete &= Arrays.equals(value, serde.serializeValue(record));
        }
        answer.put("complete", complete);
    }
}
