// Go clients that begin a transaction where none are served: `program franz|sarama bootstrap topic` prints the error that
// the client gives to its user in the end.
package main

import (
	"context"
	"fmt"
	"os"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kgo"
)

func franz(bootstrap, topic string) error {
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.TransactionalID("t"), kgo.DefaultProduceTopic(topic))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.BeginTransaction(); err != nil {
		return err
	}
	return client.ProduceSync(context.Background(), kgo.StringRecord("never")).FirstErr()
}

func viaSarama(bootstrap, topic string) error {
	config := sarama.NewConfig()
	config.Version = sarama.V3_6_0_0
	config.Producer.Idempotent = true
	config.Producer.RequiredAcks = sarama.WaitForAll
	config.Producer.Return.Successes = true
	config.Producer.Transaction.ID = "t"
	config.Net.MaxOpenRequests = 1
	producer, err := sarama.NewSyncProducer([]string{bootstrap}, config)
	if err != nil {
		return err
	}
	defer producer.Close()
	if err := producer.BeginTxn(); err != nil {
		return err
	}
	_, _, err = producer.SendMessage(&sarama.ProducerMessage{Topic: topic, Value: sarama.StringEncoder("never")})
	return err
}

func main() {
	families := map[string]func(string, string) error{"franz": franz, "sarama": viaSarama}
	fmt.Println(families[os.Args[1]](os.Args[2], os.Args[3]))
}
