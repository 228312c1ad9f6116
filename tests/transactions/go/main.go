// Go clients in transactions: `program franz|sarama bootstrap topic`. Three transactions with records and offsets, the
// second one aborted. Prints "done", or the error.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

func franz(bootstrap, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("t"),
		kgo.RecordPartitioner(kgo.ManualPartitioner()))
	if err != nil {
		return err
	}
	defer client.Close()
	ctx := context.Background()
	for round := range 3 {
		if err := client.BeginTransaction(); err != nil {
			return err
		}
		for partition, name := range []string{"a", "b"} {
			record := &kgo.Record{Topic: topic, Partition: int32(partition), Value: fmt.Appendf(nil, "%d%s", round, name)}
			if err := client.ProduceSync(ctx, record).FirstErr(); err != nil {
				return err
			}
		}
		if err := client.EndTransaction(ctx, kgo.TransactionEndTry(round != 1)); err != nil {
			return err
		}
	}
	return nil
}

func viaSarama(bootstrap, topic string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Producer.Transaction.ID = "t"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	for round := range 3 {
		if err := producer.BeginTxn(); err != nil {
			return err
		}
		for partition, name := range []string{"a", "b"} {
			value := sarama.StringEncoder(fmt.Sprintf("%d%s", round, name))
			message := &sarama.ProducerMessage{Topic: topic, Partition: int32(partition), Value: value}
			if _, _, err = producer.SendMessage(message); err != nil {
				return err
			}
		}
		offset := &sarama.PartitionOffsetMetadata{Partition: 0, Offset: int64(10 + round), LeaderEpoch: -1}
		offsets := map[string][]*sarama.PartitionOffsetMetadata{topic: {offset}}
		if err := producer.AddOffsetsToTxn(offsets, "group"); err != nil {
			return err
		}
		end := producer.CommitTxn
		if round == 1 {
			end = producer.AbortTxn
		}
		if err := end(); err != nil {
			return err
		}
	}
	return nil
}

func main() {
	families := map[string]func(string, string) error{"franz": franz, "sarama": viaSarama}
	if err := families[os.Args[1]](os.Args[2], os.Args[3]); err != nil {
		fmt.Println(err)
		return
	}
	fmt.Println("done")
}
