import java.time.Duration;
import java.util.Arrays;
import java.util.Properties;
import java.util.concurrent.CountDownLatch;
import org.apache.kafka.common.serialization.Serdes;
import org.apache.kafka.streams.KafkaStreams;
import org.apache.kafka.streams.KeyValue;
import org.apache.kafka.streams.StreamsBuilder;
import org.apache.kafka.streams.errors.StreamsUncaughtExceptionHandler.StreamThreadExceptionResponse;
import org.apache.kafka.streams.kstream.Consumed;
import org.apache.kafka.streams.kstream.Grouped;
import org.apache.kafka.streams.kstream.KStream;
import org.apache.kafka.streams.kstream.Materialized;
import org.apache.kafka.streams.kstream.Produced;

/**
 * Counts words: a topic of lines, a repartition topic by word, a store with its changelog, a topic of counts. Says its
 * state and the tasks of its threads whenever they change; ends when a line comes from its standard input, or with
 * everybody else: `die <word>` is the word at which the whole application shall end.
 */
public final class WordCount {
    private WordCount() {}

    public static void main(final String[] args) throws Exception {
        final String in = args[0];
        final String out = args[1];
        final Properties config = new Properties();
        String fatal = null;
        for (int at = 2; at < args.length; at++) {
            final String[] pair = args[at].split("=", 2);
            if (pair[0].equals("die")) {
                fatal = pair[1];
            } else {
                config.put(pair[0], pair[1]);
            }
        }
        final String ends = fatal;
        final StreamsBuilder builder = new StreamsBuilder();
        final KStream<String, String> lines = builder.stream(in, Consumed.with(Serdes.String(), Serdes.String()));
        lines.flatMapValues(line -> Arrays.asList(line.split(" ")))
            .map((key, word) -> {
                if (word.equals(ends)) {
                    throw new IllegalStateException("the fatal word");
                }
                return KeyValue.pair(word, word);
            })
            .groupByKey(Grouped.with("words", Serdes.String(), Serdes.String()))
            .count(Materialized.as("counts"))
            .toStream()
            .to(out, Produced.with(Serdes.String(), Serdes.Long()));
        final CountDownLatch over = new CountDownLatch(1);
        final KafkaStreams streams = new KafkaStreams(builder.build(config), config);
        streams.setStateListener((now, before) -> {
            say("state " + now);
            if (now == KafkaStreams.State.NOT_RUNNING || now == KafkaStreams.State.ERROR) {
                over.countDown();
            }
        });
        streams.setUncaughtExceptionHandler(problem -> {
            say("problem " + problem);
            return StreamThreadExceptionResponse.SHUTDOWN_APPLICATION;
        });
        streams.start();
        final Thread input = new Thread(() -> {
            try {
                System.in.read();
            } catch (final java.io.IOException gone) {
                say("input " + gone);
            }
            over.countDown();
        });
        input.setDaemon(true);
        input.start();
        String last = "";
        while (!over.await(100, java.util.concurrent.TimeUnit.MILLISECONDS)) {
            final StringBuilder tasks = new StringBuilder("tasks");
            streams.metadataForLocalThreads().forEach(thread -> {
                thread.activeTasks().forEach(task -> tasks.append(" a").append(task.taskId()));
                thread.standbyTasks().forEach(task -> tasks.append(" s").append(task.taskId()));
            });
            final String[] words = tasks.toString().split(" ");
            Arrays.sort(words, 1, words.length);
            final String now = String.join(" ", words);
            if (!now.equals(last)) {
                say(now);
                last = now;
            }
        }
        streams.close(Duration.ofSeconds(60));
        say("closed");
    }

    private static synchronized void say(final String what) {
        System.out.println(what);
        System.out.flush();
    }
}
