// Package viasarama drives sarama.
package viasarama

import (
	"context"
	"errors"
	"fmt"
	"strings"
	"sync"
	"time"

	"github.com/IBM/sarama"
	"github.com/twmb/franz-go/pkg/kerr"

	"pybroker/tests/clients/conversation"
)

const (
	tryAgain   = 100 * time.Millisecond
	nothingYet = 10 * time.Millisecond
)

func rowOf(m *sarama.ConsumerMessage) conversation.Row {
	headers := [][2]string{}
	for _, h := range m.Headers {
		headers = append(headers, [2]string{string(h.Key), string(h.Value)})
	}
	return conversation.RowOf(m.Partition, m.Offset, m.Key, m.Value, headers)
}

// member keeps what its group gives it until it is asked.
type member struct {
	topic string
	group sarama.ConsumerGroup
	stop  context.CancelFunc
	ended chan struct{}

	mutex   sync.Mutex
	session sarama.ConsumerGroupSession
	arrived []conversation.Row
	problem error
}

func (m *member) Setup(session sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = session
	return nil
}

func (m *member) Cleanup(sarama.ConsumerGroupSession) error {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	m.session = nil
	return nil
}

func (m *member) ConsumeClaim(_ sarama.ConsumerGroupSession, claim sarama.ConsumerGroupClaim) error {
	for message := range claim.Messages() {
		m.mutex.Lock()
		m.arrived = append(m.arrived, rowOf(message))
		m.mutex.Unlock()
	}
	return nil
}

// run is in the group until it is stopped: sarama gives up at every error, and its users go on.
func (m *member) run(ctx context.Context) {
	defer close(m.ended)
	for ctx.Err() == nil {
		if err := m.group.Consume(ctx, []string{m.topic}, m); err != nil {
			m.mutex.Lock()
			m.problem = err
			m.mutex.Unlock()
			time.Sleep(tryAgain)
		}
	}
}

// poll gives the records, and an error only where there are none.
func (m *member) poll(wait time.Duration) ([]conversation.Row, error) {
	giveUp := time.Now().Add(wait)
	for {
		m.mutex.Lock()
		found, problem := m.arrived, m.problem
		if len(found) > 0 || problem != nil || time.Now().After(giveUp) {
			m.arrived, m.problem = nil, nil
			m.mutex.Unlock()
			if len(found) > 0 {
				return found, nil
			}
			return []conversation.Row{}, problem
		}
		m.mutex.Unlock()
		time.Sleep(nothingYet)
	}
}

func (m *member) assignment() []int32 {
	m.mutex.Lock()
	defer m.mutex.Unlock()
	if m.session == nil {
		return []int32{}
	}
	return append([]int32{}, m.session.Claims()[m.topic]...)
}

func (m *member) commit(offsets [][2]int64) error {
	m.mutex.Lock()
	session := m.session
	m.mutex.Unlock()
	if session == nil {
		return sarama.ErrRebalanceInProgress
	}
	for _, pair := range offsets {
		session.MarkOffset(m.topic, int32(pair[0]), pair[1], "")
	}
	session.Commit()
	return nil
}

func (m *member) leave() error {
	m.stop()
	<-m.ended
	return m.group.Close()
}

type producer struct {
	sender       sarama.SyncProducer
	acknowledged bool
}

func (p producer) send(c conversation.Command) ([]int64, error) {
	records, err := c.Sent()
	if err != nil {
		return nil, err
	}
	sent := make([]*sarama.ProducerMessage, len(records))
	for i, each := range records {
		message := &sarama.ProducerMessage{Topic: c.Topic, Partition: each.Partition}
		if each.Key != nil {
			message.Key = sarama.StringEncoder(*each.Key)
		}
		if each.Value != nil {
			message.Value = sarama.StringEncoder(*each.Value)
		}
		for _, pair := range each.Headers {
			header := sarama.RecordHeader{Key: []byte(pair[0]), Value: []byte(pair[1])}
			message.Headers = append(message.Headers, header)
		}
		sent[i] = message
	}
	if err := p.sender.SendMessages(sent); err != nil {
		return nil, err
	}
	offsetOf := func(message *sarama.ProducerMessage) int64 { return message.Offset }
	return conversation.Offsets(sent, p.acknowledged, offsetOf), nil
}

type driver struct {
	addresses []string
	members   []*member
	producers []producer
}

var compressions = map[string]sarama.CompressionCodec{
	"none": sarama.CompressionNone, "gzip": sarama.CompressionGZIP, "snappy": sarama.CompressionSnappy,
	"lz4": sarama.CompressionLZ4, "zstd": sarama.CompressionZSTD,
}

// configuration is what all of them have: the newest version that sarama speaks, and a look for metadata each second.
func configuration() *sarama.Config {
	config := sarama.NewConfig()
	config.Version = sarama.MaxVersion
	config.Metadata.RefreshFrequency = time.Second
	config.Producer.Return.Successes = true
	config.Producer.Partitioner = sarama.NewManualPartitioner
	config.Consumer.Offsets.Initial = sarama.OffsetOldest
	config.Consumer.Offsets.AutoCommit.Enable = false
	config.Consumer.Group.Session.Timeout = 30 * time.Second
	config.Consumer.Group.Heartbeat.Interval = 300 * time.Millisecond
	return config
}

func (d *driver) administer(work func(sarama.ClusterAdmin) error) error {
	admin, err := sarama.NewClusterAdmin(d.addresses, configuration())
	if err != nil {
		return err
	}
	defer admin.Close()
	return work(admin)
}

func (d *driver) open(c conversation.Command) (int, error) {
	config := configuration()
	config.Producer.Compression = compressions[c.Compression]
	config.Producer.RequiredAcks = map[string]sarama.RequiredAcks{
		"0": sarama.NoResponse, "1": sarama.WaitForLocal, "all": sarama.WaitForAll,
	}[c.Acks]
	// With several requests in flight a retry of one would reorder records; an idempotent producer demands one anyway.
	config.Net.MaxOpenRequests = 1
	config.Producer.Idempotent = c.Idempotent
	sender, err := sarama.NewSyncProducer(d.addresses, config)
	if err != nil {
		return 0, err
	}
	d.producers = append(d.producers, producer{sender, c.Acks != "0"})
	return len(d.producers) - 1, nil
}

func (d *driver) read(ctx context.Context, c conversation.Command) ([]conversation.Row, error) {
	consumer, err := sarama.NewConsumer(d.addresses, configuration())
	if err != nil {
		return nil, err
	}
	defer consumer.Close()
	arrived := make(chan *sarama.ConsumerMessage)
	done := make(chan struct{})
	defer close(done)
	for p := range c.Partitions {
		partition, err := consumer.ConsumePartition(c.Topic, p, 0)
		if err != nil {
			return nil, err
		}
		defer partition.AsyncClose()
		go func() {
			for message := range partition.Messages() {
				select {
				case arrived <- message:
				case <-done:
					return
				}
			}
		}()
	}
	found := []conversation.Row{}
	for len(found) < c.Count {
		select {
		case message := <-arrived:
			found = append(found, rowOf(message))
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d records: %w", len(found), c.Count, ctx.Err())
		}
	}
	return found, nil
}

func (d *driver) join(c conversation.Command) (int, error) {
	group, err := sarama.NewConsumerGroup(d.addresses, c.Group, configuration())
	if err != nil {
		return 0, err
	}
	ctx, stop := context.WithCancel(context.Background())
	joined := &member{topic: c.Topic, group: group, stop: stop, ended: make(chan struct{})}
	go joined.run(ctx)
	d.members = append(d.members, joined)
	return len(d.members) - 1, nil
}

func (d *driver) run(ctx context.Context, c conversation.Command) (any, error) {
	switch c.Op {
	case "create":
		return nil, d.administer(func(admin sarama.ClusterAdmin) error {
			return admin.CreateTopic(c.Topic, &sarama.TopicDetail{NumPartitions: c.Partitions, ReplicationFactor: -1}, false)
		})
	case "delete":
		return nil, d.administer(func(admin sarama.ClusterAdmin) error { return admin.DeleteTopic(c.Topic) })
	case "open":
		return d.open(c)
	case "send":
		return d.producers[c.Producer].send(c)
	case "shut":
		return nil, d.producers[c.Producer].sender.Close()
	case "read":
		return d.read(ctx, c)
	case "join":
		return d.join(c)
	case "poll":
		return d.members[c.Member].poll(time.Duration(c.TimeoutMs) * time.Millisecond)
	case "assignment":
		return d.members[c.Member].assignment(), nil
	case "commit":
		return nil, d.members[c.Member].commit(c.Offsets)
	case "leave":
		return nil, d.members[c.Member].leave()
	case "purge", "forget":
		// Only other clients ask their users for these after UNKNOWN_TOPIC_ID.
		return nil, nil
	}
	return nil, fmt.Errorf("no such operation: %q", c.Op)
}

// nameOf gives Kafka's name of the code in an error.
func nameOf(err error) string {
	var failed sarama.ProducerErrors
	if errors.As(err, &failed) && len(failed) > 0 {
		err = failed[0].Err
	}
	var topic *sarama.TopicError // which older releases do not unwrap
	if errors.As(err, &topic) {
		err = topic.Err
	}
	var code sarama.KError
	if !errors.As(err, &code) {
		return err.Error()
	}
	var known *kerr.Error
	if errors.As(kerr.ErrorForCode(int16(code)), &known) {
		return known.Message
	}
	return err.Error()
}

// Converse answers commands about the brokers at an address.
func Converse(bootstrap string) {
	d := &driver{addresses: strings.Split(bootstrap, ",")}
	conversation.Hold(d.run, nameOf)
}
