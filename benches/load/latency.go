package main

import (
	"context"
	"errors"
	"fmt"
	"strconv"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// many keeps idle connections open while active ones send one record and wait for its acknowledgement.
func many(o options) (result, error) {
	id, err := prepare(o)
	if err != nil {
		return nil, err
	}
	for range o.idle {
		w, err := dial(o)
		if err != nil {
			return nil, err
		}
		defer w.conn.Close()
	}
	batch := recordBatch(1, o.size)
	var mutex sync.Mutex
	var all []time.Duration
	r, m := result{}, startMeter(o.pids)
	end := m.start.Add(o.duration)
	err = inParallel(o, func(i int, w *wire) error {
		q := produceRequest(o.topic, id, o.acks)
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, producePartition(int32(i%o.partitions), batch))
		frame := w.frame(q)
		reply := kmsg.NewPtrProduceResponse()
		reply.SetVersion(min(reply.MaxVersion(), w.versions[0]))
		took := make([]time.Duration, 0, 1<<16)
		for start := time.Now(); start.Before(end); start = time.Now() {
			if _, err := w.conn.Write(frame); err != nil {
				return err
			}
			*reply = kmsg.ProduceResponse{Version: reply.Version}
			if _, err := w.receive(reply); err != nil {
				return err
			}
			if err := produceError(reply); err != nil {
				return err
			}
			took = append(took, time.Since(start))
		}
		mutex.Lock()
		defer mutex.Unlock()
		all = append(all, took...)
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop(r, int64(len(all)), int64(len(all)*o.size))
	percentiles(r, "", all)
	return r, nil
}

// endToEnd sends records at a fixed rate, independently of responses, and measures latency from the scheduled time.
func endToEnd(o options) (result, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	seeds := strings.Split(o.bootstrap, ",")
	producer, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.DefaultProduceTopic(o.topic), kgo.ProducerLinger(0),
		kgo.ProducerBatchCompression(kgo.NoCompression()), kgo.RecordPartitioner(kgo.RoundRobinPartitioner()))
	if err != nil {
		return nil, err
	}
	defer producer.Close()
	consumer, err := kgo.NewClient(kgo.SeedBrokers(seeds...), kgo.ConsumeTopics(o.topic), kgo.FetchMinBytes(1),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtEnd()))
	if err != nil {
		return nil, err
	}
	defer consumer.Close()

	total := int((o.warmup + o.duration).Seconds() * float64(o.rate))
	skip := int(o.warmup.Seconds() * float64(o.rate))
	filler := values(1, o.size)[0]
	received := make([]time.Duration, 0, total)
	acknowledged := make([]time.Duration, total)
	var refused atomic.Int64
	start := time.Now().Add(2 * time.Second) // the consumer finds its place first
	due := func(i int) time.Time { return start.Add(time.Duration(i) * time.Second / time.Duration(o.rate)) }
	var m meter
	go func() {
		for i := range total {
			time.Sleep(time.Until(due(i)))
			if i == skip {
				m = startMeter(o.pids)
			}
			value := append([]byte(nil), filler...)
			copy(value, fmt.Sprintf("%012d", i))
			producer.Produce(ctx, &kgo.Record{Value: value}, func(_ *kgo.Record, err error) {
				if err != nil {
					refused.Add(1)
				}
				acknowledged[i] = time.Since(due(i))
			})
		}
	}()
	for len(received) < total-skip {
		fetches := consumer.PollFetches(ctx)
		if err := ctx.Err(); err != nil {
			return nil, fmt.Errorf("%d of %d records came, %d were refused: %w", len(received), total-skip, refused.Load(), err)
		}
		for _, f := range fetches.Errors() {
			return nil, errors.Join(fmt.Errorf("partition %d", f.Partition), f.Err)
		}
		now := time.Now()
		fetches.EachRecord(func(record *kgo.Record) {
			if i, err := strconv.Atoi(string(record.Value[:12])); err == nil && i >= skip {
				received = append(received, now.Sub(due(i)))
			}
		})
	}
	if err := producer.Flush(ctx); err != nil {
		return nil, err
	}
	r := result{"refused": refused.Load()}
	m.stop(r, int64(total-skip), int64((total-skip)*o.size))
	percentiles(r, "", received)
	percentiles(r, "ack_", acknowledged[skip:])
	return r, nil
}
