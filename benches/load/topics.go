package main

import (
	"errors"
	"fmt"
	"io"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

func topicNames(o options) []string {
	if o.topics == 1 {
		return []string{o.topic}
	}
	names := make([]string, o.topics)
	for i := range names {
		names[i] = fmt.Sprintf("%s-%d", o.topic, i)
	}
	return names
}

func create(o options, w *wire, names []string) error {
	for _, name := range names {
		// The broker finishes a creation that takes longer than the request's timeout.
		err := tryToCreate(o, w, name)
		if err != nil && !errors.Is(err, kerr.TopicAlreadyExists) && !errors.Is(err, kerr.RequestTimedOut) {
			return fmt.Errorf("create %s: %w", name, err)
		}
	}
	return nil
}

func tryToCreate(o options, w *wire, name string) error {
	q := kmsg.NewPtrCreateTopicsRequest()
	q.TimeoutMillis = 60_000
	t := kmsg.NewCreateTopicsRequestTopic()
	t.Topic, t.NumPartitions, t.ReplicationFactor = name, int32(o.partitions), int16(o.replication)
	q.Topics = append(q.Topics, t)
	return atController(o, w, func() error {
		reply, err := w.call(q)
		if err != nil {
			return err
		}
		return code(reply.(*kmsg.CreateTopicsResponse).Topics[0].ErrorCode)
	})
}

// atController repeats a request at the controller if a broker does not forward it: Apache Kafka on ZooKeeper.
func atController(o options, w *wire, ask func() error) error {
	err := ask()
	if !errors.Is(err, kerr.NotController) {
		return err
	}
	if err := w.toController(o); err != nil {
		return err
	}
	return ask()
}

func remove(o options, w *wire, names []string) error {
	q := kmsg.NewPtrDeleteTopicsRequest()
	q.TimeoutMillis, q.TopicNames = 60_000, names
	for _, name := range names {
		t := kmsg.NewDeleteTopicsRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		q.Topics = append(q.Topics, t)
	}
	return atController(o, w, func() error {
		reply, err := w.call(q)
		if err != nil {
			return err
		}
		for _, t := range reply.(*kmsg.DeleteTopicsResponse).Topics {
			if t.ErrorCode != 0 {
				return fmt.Errorf("delete %v: %w", t.Topic, code(t.ErrorCode))
			}
		}
		return nil
	})
}

// ids requests the topics' ids, which Produce 13 and Fetch 13 need; zero if the broker has none.
func ids(w *wire, names []string) (map[string][16]byte, error) {
	q := kmsg.NewPtrMetadataRequest()
	for _, name := range names {
		t := kmsg.NewMetadataRequestTopic()
		t.Topic = kmsg.StringPtr(name)
		q.Topics = append(q.Topics, t)
	}
	reply, err := w.call(q)
	if err != nil {
		return nil, err
	}
	out := map[string][16]byte{}
	for _, t := range reply.(*kmsg.MetadataResponse).Topics {
		if t.Topic != nil {
			out[*t.Topic] = t.TopicID
		}
	}
	return out, nil
}

// passing are transient errors while a new leader takes over, or while followers start to copy thousands of partitions.
func passing(err error) bool {
	return errors.Is(err, kerr.NotLeaderForPartition) || errors.Is(err, kerr.LeaderNotAvailable) || errors.Is(err, kerr.KafkaStorageError) ||
		errors.Is(err, kerr.NotEnoughReplicas) || errors.Is(err, kerr.NotEnoughReplicasAfterAppend) || errors.Is(err, kerr.RequestTimedOut) ||
		errors.Is(err, kerr.UnknownTopicOrPartition) || errors.Is(err, kerr.UnknownTopicID) || errors.Is(err, io.EOF)
}

// writeEach sends one record to each partition of a topic, at its leader, and retries refused ones until all are
// acknowledged.
func writeEach(o options, name string, partitions []int32) error {
	batch := recordBatch(1, 100)
	brokers := newBrokers(o)
	defer brokers.close()
	for left := partitions; ; time.Sleep(time.Millisecond) {
		found, err := brokers.leaders(name)
		if err != nil {
			brokers.close()
			continue // whoever was asked has gone; o.limit ends this
		}
		var refused []int32
		for address, led := range found.of(left) {
			again, err := brokers.write(address, name, found.id, led, batch)
			if err != nil && !passing(err) {
				return fmt.Errorf("write %s: %w", name, err)
			}
			refused = append(refused, again...)
		}
		if left = refused; len(left) == 0 {
			return nil
		}
	}
}

func every(partitions int) []int32 {
	out := make([]int32, partitions)
	for i := range out {
		out[i] = int32(i)
	}
	return out
}

func milliseconds(d time.Duration) float64 { return d.Seconds() * 1e3 }

func createAndWrite(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	r, m := result{}, startMeter(o.pids)
	for _, name := range topicNames(o) { // one request a topic: Apache Kafka takes 10,000 partitions a request at most
		if err := create(o, w, []string{name}); err != nil {
			return nil, err
		}
	}
	r["created_ms"] = milliseconds(time.Since(m.start))
	for _, name := range topicNames(o) {
		if err := writeEach(o, name, every(o.partitions)); err != nil {
			return nil, err
		}
	}
	r["writable_ms"] = milliseconds(time.Since(m.start))
	m.stop(r, int64(o.topics), 0)
	return r, nil
}

// firstWrite waits for a starting broker: it retries refused connections.
func firstWrite(o options) (result, error) {
	start := time.Now()
	if o.since > 0 {
		start = time.Unix(0, o.since)
	}
	names := topicNames(o)
	if err := writeEach(o, names[0], []int32{0}); err != nil {
		return nil, err
	}
	r := result{"first_ms": milliseconds(time.Since(start))}
	for _, name := range names {
		if err := writeEach(o, name, every(o.partitions)); err != nil {
			return nil, err
		}
	}
	r["all_ms"] = milliseconds(time.Since(start))
	return r, nil
}

func metadataStorm(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	all := kmsg.NewPtrMetadataRequest()
	all.Topics = nil
	ask := func() (int, error) {
		if _, err := w.conn.Write(w.frame(all)); err != nil {
			return 0, err
		}
		return w.receive(nil)
	}
	for range 20 {
		if _, err := ask(); err != nil {
			return nil, err
		}
	}
	r, m := result{}, startMeter(o.pids)
	took := make([]time.Duration, 0, o.rounds)
	for range o.rounds {
		start := time.Now()
		n, err := ask()
		if err != nil {
			return nil, err
		}
		took = append(took, time.Since(start))
		r["response_bytes"] = n
	}
	m.stop(r, int64(o.rounds), 0)
	percentiles(r, "", took)
	return r, nil
}

func recreate(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	names := []string{o.topic}
	var whole, deleted []time.Duration
	r, m := result{}, startMeter(o.pids)
	for range o.rounds {
		if err := create(o, w, names); err != nil {
			return nil, err
		}
		if err := writeEach(o, o.topic, every(o.partitions)); err != nil {
			return nil, err
		}
		start := time.Now()
		if err := remove(o, w, names); err != nil {
			return nil, err
		}
		deleted = append(deleted, time.Since(start))
		if err := create(o, w, names); err != nil {
			return nil, err
		}
		if err := writeEach(o, o.topic, every(o.partitions)); err != nil {
			return nil, err
		}
		whole = append(whole, time.Since(start))
		if err := remove(o, w, names); err != nil {
			return nil, err
		}
	}
	m.stop(r, int64(o.rounds), 0)
	percentiles(r, "", whole)
	percentiles(r, "delete_", deleted)
	return r, nil
}

// reuse deletes and re-creates each topic once, and measures until the first record is acknowledged.
func reuse(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	var created, written []time.Duration
	for _, name := range topicNames(o) {
		start := time.Now()
		if err := remove(o, w, []string{name}); err != nil {
			return nil, err
		}
		for {
			err := tryToCreate(o, w, name)
			if err == nil {
				break
			}
			if !errors.Is(err, kerr.TopicAlreadyExists) {
				return nil, fmt.Errorf("create %s: %w", name, err)
			}
			time.Sleep(time.Millisecond)
		}
		created = append(created, time.Since(start))
		if err := writeEach(o, name, every(o.partitions)); err != nil {
			return nil, err
		}
		written = append(written, time.Since(start))
	}
	r := result{}
	percentiles(r, "created_", created)
	percentiles(r, "written_", written)
	return r, nil
}

func deleteAll(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	start := time.Now()
	if err := remove(o, w, topicNames(o)); err != nil {
		return nil, err
	}
	return result{"deleted_ms": milliseconds(time.Since(start))}, nil
}

// describe keeps the control plane busy: it requests settings of all topics repeatedly until the time is over.
func describe(o options) (result, error) {
	o.connections = 1
	r, m := result{}, startMeter(o.pids)
	end := m.start.Add(o.duration)
	count := int64(0)
	err := inParallel(o, func(_ int, w *wire) error {
		for time.Now().Before(end) {
			q := kmsg.NewPtrDescribeConfigsRequest()
			for _, name := range topicNames(o) {
				resource := kmsg.NewDescribeConfigsRequestResource()
				resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeTopic, name
				q.Resources = append(q.Resources, resource)
			}
			if _, err := w.call(q); err != nil {
				return err
			}
			count++
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop(r, count, 0)
	return r, nil
}
