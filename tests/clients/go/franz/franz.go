// Package franz drives franz-go.
package franz

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kgo"

	"pybroker/tests/clients/conversation"
)

type member struct {
	client *kgo.Client
	topic  string
	group  string
	held   *held // nil: the broker is asked
}

// held is what a member was given and has not lost, as its callbacks tell it.
type held struct {
	mutex      sync.Mutex
	partitions map[int32]bool
}

func (h *held) note(topic string, have bool) func(context.Context, *kgo.Client, map[string][]int32) {
	return func(_ context.Context, _ *kgo.Client, changed map[string][]int32) {
		h.mutex.Lock()
		defer h.mutex.Unlock()
		for _, p := range changed[topic] {
			if have {
				h.partitions[p] = true
			} else {
				delete(h.partitions, p)
			}
		}
	}
}

func (h *held) all() []int32 {
	h.mutex.Lock()
	defer h.mutex.Unlock()
	found := []int32{}
	for p := range h.partitions {
		found = append(found, p)
	}
	return found
}

type producer struct {
	client       *kgo.Client
	acknowledged bool
}

type driver struct {
	bootstrap string
	admin     *kadm.Client
	members   []member
	producers []producer
}

var compressions = map[string]kgo.CompressionCodec{
	"none": kgo.NoCompression(), "gzip": kgo.GzipCompression(), "snappy": kgo.SnappyCompression(),
	"lz4": kgo.Lz4Compression(), "zstd": kgo.ZstdCompression(),
}

func (d *driver) client(options ...kgo.Opt) (*kgo.Client, error) {
	return kgo.NewClient(append([]kgo.Opt{kgo.SeedBrokers(strings.Split(d.bootstrap, ",")...)}, options...)...)
}

func (d *driver) run(ctx context.Context, c conversation.Command) (any, error) {
	switch c.Op {
	case "create":
		created, err := d.admin.CreateTopics(ctx, c.Partitions, -1, nil, c.Topic)
		if err != nil {
			return nil, err
		}
		return nil, created[c.Topic].Err
	case "delete":
		deleted, err := d.admin.DeleteTopics(ctx, c.Topic)
		if err != nil {
			return nil, err
		}
		return nil, deleted[c.Topic].Err
	case "open":
		client, err := d.producer(c)
		if err != nil {
			return nil, err
		}
		d.producers = append(d.producers, producer{client, c.Acks != "0"})
		return len(d.producers) - 1, nil
	case "send":
		return d.producers[c.Producer].send(ctx, c)
	case "purge":
		d.producers[c.Producer].client.PurgeTopicsFromProducing(c.Topic)
		return nil, nil
	case "shut":
		d.producers[c.Producer].client.Close()
		return nil, nil
	case "read":
		return d.read(ctx, c)
	case "join":
		options := []kgo.Opt{kgo.ConsumerGroup(c.Group), kgo.ConsumeTopics(c.Topic), kgo.DisableAutoCommit(),
			kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()), kgo.SessionTimeout(30 * time.Second),
			kgo.HeartbeatInterval(300 * time.Millisecond), kgo.MetadataMinAge(500 * time.Millisecond), kgo.MetadataMaxAge(time.Second)}
		var own *held
		if c.Newer {
			own = &held{partitions: map[int32]bool{}}
			options = append(options, newerGroups(), kgo.OnPartitionsAssigned(own.note(c.Topic, true)),
				kgo.OnPartitionsRevoked(own.note(c.Topic, false)), kgo.OnPartitionsLost(own.note(c.Topic, false)))
		}
		client, err := d.client(options...)
		if err != nil {
			return nil, err
		}
		d.members = append(d.members, member{client, c.Topic, c.Group, own})
		return len(d.members) - 1, nil
	case "poll":
		wait, cancel := context.WithTimeout(ctx, time.Duration(c.TimeoutMs)*time.Millisecond)
		defer cancel()
		return rows(d.members[c.Member].client.PollFetches(wait))
	case "assignment":
		return d.assignment(ctx, d.members[c.Member])
	case "commit":
		m := d.members[c.Member]
		var records []*kgo.Record
		for _, pair := range c.Offsets {
			// CommitRecords commits one past the record it is given.
			records = append(records, &kgo.Record{Topic: m.topic, Partition: int32(pair[0]), Offset: pair[1] - 1, LeaderEpoch: -1})
		}
		return nil, m.client.CommitRecords(ctx, records...)
	case "forget":
		m := d.members[c.Member]
		m.client.PurgeTopicsFromConsuming(m.topic)
		m.client.AddConsumeTopics(m.topic)
		return nil, nil
	case "leave":
		m := d.members[c.Member]
		err := m.client.LeaveGroupContext(ctx)
		m.client.Close()
		return nil, err
	}
	return nil, fmt.Errorf("no such operation: %q", c.Op)
}

func (d *driver) producer(c conversation.Command) (*kgo.Client, error) {
	options := []kgo.Opt{kgo.RecordPartitioner(kgo.ManualPartitioner()), kgo.ProducerBatchCompression(compressions[c.Compression]),
		kgo.ProducerLinger(5 * time.Millisecond), kgo.RecordDeliveryTimeout(conversation.Timeout), kgo.UnknownTopicRetries(1),
		kgo.MetadataMinAge(500 * time.Millisecond)}
	if acks, known := map[string]kgo.Acks{"0": kgo.NoAck(), "1": kgo.LeaderAck(), "all": kgo.AllISRAcks()}[c.Acks]; known {
		options = append(options, kgo.RequiredAcks(acks))
	}
	if !c.Idempotent {
		options = append(options, kgo.DisableIdempotentWrite())
	}
	return d.client(options...)
}

func (p producer) send(ctx context.Context, c conversation.Command) (any, error) {
	records, err := c.Sent()
	if err != nil {
		return nil, err
	}
	var sent []*kgo.Record
	for _, each := range records {
		record := &kgo.Record{Topic: c.Topic, Partition: each.Partition}
		if each.Key != nil {
			record.Key = []byte(*each.Key)
		}
		if each.Value != nil {
			record.Value = []byte(*each.Value)
		}
		for _, pair := range each.Headers {
			record.Headers = append(record.Headers, kgo.RecordHeader{Key: pair[0], Value: []byte(pair[1])})
		}
		sent = append(sent, record)
	}
	if err := p.client.ProduceSync(ctx, sent...).FirstErr(); err != nil {
		return nil, err
	}
	offsetOf := func(record *kgo.Record) int64 { return record.Offset }
	return conversation.Offsets(sent, p.acknowledged, offsetOf), nil
}

func (d *driver) read(ctx context.Context, c conversation.Command) (any, error) {
	partitions := map[int32]kgo.Offset{}
	for p := int32(0); p < c.Partitions; p++ {
		partitions[p] = kgo.NewOffset().At(0)
	}
	client, err := d.client(kgo.ConsumePartitions(map[string]map[int32]kgo.Offset{c.Topic: partitions}))
	if err != nil {
		return nil, err
	}
	defer client.Close()
	found := []conversation.Row{}
	for len(found) < c.Count && ctx.Err() == nil {
		more, err := rows(client.PollFetches(ctx))
		if err != nil {
			return nil, err
		}
		found = append(found, more...)
	}
	return found, nil
}

// assignment asks the broker what a member of a classic group holds: the client itself tells it only by callbacks.
func (d *driver) assignment(ctx context.Context, m member) (any, error) {
	if m.held != nil {
		return m.held.all(), nil
	}
	_, generation := m.client.GroupMetadata()
	held := []int32{}
	if generation < 0 {
		return held, nil
	}
	id, _ := m.client.GroupMetadata()
	groups, err := d.admin.DescribeGroups(ctx, m.group)
	if err != nil {
		return nil, err
	}
	for _, each := range groups[m.group].Members {
		if assigned, known := each.Assigned.AsConsumer(); known && each.MemberID == id {
			for _, topic := range assigned.Topics {
				held = append(held, topic.Partitions...)
			}
		}
	}
	return held, nil
}

// rows gives the records, and an error only where there are none: what keeps failing comes again.
func rows(fetches kgo.Fetches) ([]conversation.Row, error) {
	for _, problem := range fetches.Errors() {
		if !errors.Is(problem.Err, context.DeadlineExceeded) && fetches.NumRecords() == 0 {
			return nil, problem.Err
		}
	}
	found := []conversation.Row{}
	fetches.EachRecord(func(r *kgo.Record) {
		headers := [][2]string{}
		for _, h := range r.Headers {
			headers = append(headers, [2]string{h.Key, string(h.Value)})
		}
		found = append(found, conversation.RowOf(r.Partition, r.Offset, r.Key, r.Value, headers))
	})
	return found, nil
}

func nameOf(err error) string {
	var code *kerr.Error
	if errors.As(err, &code) {
		return code.Message
	}
	return err.Error()
}

// Converse answers commands about the brokers at an address.
func Converse(bootstrap string) {
	d := &driver{bootstrap: bootstrap}
	client, err := d.client()
	if err != nil {
		panic(err)
	}
	d.admin = kadm.NewClient(client)
	conversation.Hold(d.run, nameOf)
}
