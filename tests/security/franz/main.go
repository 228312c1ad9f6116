// A franz-go client that authenticates, writes a record, reads one in a group and commits. Arguments: bootstrap, topic,
// group, then any number of mechanism:user:password. One line of "produced" and "consumed" outcomes for each.
package main

import (
	"context"
	"fmt"
	"os"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/sasl"
	"github.com/twmb/franz-go/pkg/sasl/plain"
	"github.com/twmb/franz-go/pkg/sasl/scram"
)

func mechanism(name, user, password string) sasl.Mechanism {
	switch name {
	case "PLAIN":
		return plain.Auth{User: user, Pass: password}.AsMechanism()
	case "SCRAM-SHA-256":
		return scram.Auth{User: user, Pass: password}.AsSha256Mechanism()
	default:
		return scram.Auth{User: user, Pass: password}.AsSha512Mechanism()
	}
}

func outcome(err error) string {
	if err == nil {
		return "ok"
	}
	return strings.ReplaceAll(err.Error(), "\n", " ")
}

func produce(how sasl.Mechanism, bootstrap, topic string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(kgo.SeedBrokers(bootstrap), kgo.SASL(how), kgo.RequestRetries(1), kgo.RecordRetries(2))
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	return client.ProduceSync(ctx, &kgo.Record{Topic: topic, Value: []byte("franz")}).FirstErr()
}

func consume(how sasl.Mechanism, bootstrap, topic, group string) error {
	ctx, cancel := context.WithTimeout(context.Background(), 60*time.Second)
	defer cancel()
	client, err := kgo.NewClient(
		kgo.SeedBrokers(bootstrap), kgo.SASL(how), kgo.RequestRetries(1), kgo.ConsumeTopics(topic), kgo.ConsumerGroup(group),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.DisableAutoCommit(),
	)
	if err != nil {
		return err
	}
	defer client.Close()
	if err := client.Ping(ctx); err != nil {
		return err
	}
	for {
		fetches := client.PollFetches(ctx)
		if errors := fetches.Errors(); len(errors) > 0 {
			return errors[0].Err
		}
		if !fetches.Empty() {
			return client.CommitUncommittedOffsets(ctx)
		}
	}
}

func main() {
	bootstrap, topic, group := os.Args[1], os.Args[2], os.Args[3]
	for number, login := range os.Args[4:] {
		parts := strings.SplitN(login, ":", 3)
		how := mechanism(parts[0], parts[1], parts[2])
		produced := outcome(produce(how, bootstrap, topic))
		consumed := outcome(consume(how, bootstrap, topic, fmt.Sprintf("%s-%d", group, number)))
		fmt.Printf("%s\t%s\n", produced, consumed)
	}
}
