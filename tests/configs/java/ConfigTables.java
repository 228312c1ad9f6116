import java.util.Map;
import java.util.TreeMap;
import org.apache.kafka.common.config.ConfigDef;
import org.apache.kafka.server.config.AbstractKafkaConfig;
import org.apache.kafka.server.config.DynamicBrokerConfig;
import org.apache.kafka.server.config.ServerTopicConfigSynonyms;
import org.apache.kafka.storage.internals.log.LogConfig;

/** Prints Kafka's own tables of settings, one a line, fields separated by tabs. */
public class ConfigTables {
    public static void main(String[] arguments) {
        print("broker", AbstractKafkaConfig.CONFIG_DEF, DynamicBrokerConfig.dynamicConfigUpdateModes());
        print("topic", LogConfig.configDefCopy(), Map.of());
        new TreeMap<>(ServerTopicConfigSynonyms.TOPIC_CONFIG_SYNONYMS).forEach(
            (topic, broker) -> System.out.println(String.join("\t", "synonym", topic, broker)));
    }

    private static void print(String table, ConfigDef settings, Map<String, String> scopes) {
        for (ConfigDef.ConfigKey key : settings.configKeys().values()) {
            String value = !key.hasDefault() ? "(required)" : ConfigDef.convertToString(key.defaultValue, key.type);
            System.out.println(String.join("\t", table, key.name, key.type.name(), value == null ? "(null)" : value,
                scopes.getOrDefault(key.name, "read-only"), key.internalConfig ? "internal" : "public"));
        }
    }
}
