import java.io.BufferedInputStream;
import java.io.BufferedOutputStream;
import java.io.DataInputStream;
import java.io.DataOutputStream;
import java.io.EOFException;
import java.io.IOException;
import java.nio.ByteBuffer;
import java.nio.charset.StandardCharsets;
import org.apache.kafka.common.message.ApiMessageType;
import org.apache.kafka.common.protocol.ByteBufferAccessor;
import org.apache.kafka.common.protocol.Message;
import org.apache.kafka.common.protocol.ObjectSerializationCache;

/**
 * Reads messages with Kafka's own classes and writes them again.
 *
 * Without arguments: the stable versions of every API, one "name lowest highest" a line. With any argument: from
 * standard input (class name: 2-byte length and text; version: 2 bytes; body: 4-byte length and bytes), to standard
 * output for each a 1-byte verdict (0 = read to its last byte) and, with a 4-byte length, what was written, or the complaint.
 */
public final class Oracle {
    public static void main(String[] arguments) throws Exception {
        if (arguments.length == 0) {
            for (ApiMessageType type : ApiMessageType.values()) {
                System.out.println(type.name + " " + type.lowestSupportedVersion() + " " + type.highestSupportedVersion(false));
            }
            return;
        }
        DataInputStream in = new DataInputStream(new BufferedInputStream(System.in, 1 << 20));
        try (DataOutputStream out = new DataOutputStream(new BufferedOutputStream(System.out, 1 << 20))) {
            while (true) {
                String name;
                try {
                    name = in.readUTF();
                } catch (EOFException end) {
                    return;
                }
                short version = in.readShort();
                byte[] body = in.readNBytes(in.readInt());
                answer(out, name, version, body);
            }
        }
    }

    private static void answer(DataOutputStream out, String name, short version, byte[] body) throws IOException {
        byte[] result;
        int verdict = 0;
        try {
            Message message = (Message) Class.forName(name).getDeclaredConstructor().newInstance();
            if (version < message.lowestSupportedVersion() || version > message.highestSupportedVersion()) {
                throw new IllegalArgumentException("no version " + version);
            }
            ByteBufferAccessor readable = new ByteBufferAccessor(ByteBuffer.wrap(body));
            message.read(readable, version);
            if (readable.buffer().hasRemaining()) {
                throw new IllegalArgumentException(readable.buffer().remaining() + " bytes left over");
            }
            ObjectSerializationCache cache = new ObjectSerializationCache();
            ByteBuffer written = ByteBuffer.allocate(message.size(cache, version));
            message.write(new ByteBufferAccessor(written), cache, version);
            result = written.array();
        } catch (Exception | LinkageError complaint) {
            verdict = 1;
            result = complaint.toString().getBytes(StandardCharsets.UTF_8);
        }
        out.writeByte(verdict);
        out.writeInt(result.length);
        out.write(result);
    }
}
