package main

import (
	"fmt"
	"maps"
	"slices"
	"strings"
	"sync"
	"sync/atomic"

	"github.com/twmb/franz-go/pkg/kmsg"
)

func produceRequest(name string, id [16]byte, acks int) *kmsg.ProduceRequest {
	q := kmsg.NewPtrProduceRequest()
	q.Acks, q.TimeoutMillis = int16(acks), 30_000
	t := kmsg.NewProduceRequestTopic()
	t.Topic, t.TopicID = name, id
	q.Topics = append(q.Topics, t)
	return q
}

func producePartition(partition int32, batch []byte) kmsg.ProduceRequestTopicPartition {
	p := kmsg.NewProduceRequestTopicPartition()
	p.Partition, p.Records = partition, batch
	return p
}

func produceError(reply *kmsg.ProduceResponse) error {
	for _, t := range reply.Topics {
		for _, p := range t.Partitions {
			if p.ErrorCode != 0 {
				return fmt.Errorf("produce to partition %d: %w", p.Partition, code(p.ErrorCode))
			}
		}
	}
	return nil
}

// prepare creates the topic and sends one record to each partition, which proves that it has a leader.
func prepare(o options) ([16]byte, error) {
	w, err := dial(o)
	if err != nil {
		return [16]byte{}, err
	}
	defer w.conn.Close()
	if err := create(o, w, []string{o.topic}); err != nil {
		return [16]byte{}, err
	}
	if err := writeEach(o, o.topic, every(o.partitions)); err != nil {
		return [16]byte{}, err
	}
	found, err := ids(w, []string{o.topic})
	return found[o.topic], err
}

// shares assigns each connection a broker in turn, and a share of the partitions that this broker leads.
func shares(o options) ([]string, [][]int32, error) {
	brokers := newBrokers(o)
	defer brokers.close()
	found, err := brokers.leaders(o.topic)
	if err != nil {
		return nil, nil, err
	}
	led := found.of(every(o.partitions))
	addresses := slices.Sorted(maps.Keys(led))
	at, walked := make([]string, o.connections), make([][]int32, o.connections)
	for i := range o.connections {
		at[i] = addresses[i%len(addresses)]
		rank, of := i/len(addresses), (o.connections-i%len(addresses)+len(addresses)-1)/len(addresses)
		for n := rank; n < len(led[at[i]]); n += of {
			walked[i] = append(walked[i], led[at[i]][n])
		}
		if len(walked[i]) == 0 {
			return nil, nil, fmt.Errorf("%d partitions are too few for %d connections", o.partitions, o.connections)
		}
	}
	return at, walked, nil
}

// inParallel runs one function a connection and returns the first error.
func inParallel(o options, work func(i int, w *wire) error) error {
	return inParallelAt(o, slices.Repeat(strings.Split(o.bootstrap, ",")[:1], o.connections), work)
}

// inParallelAt runs one function a connection, each with its broker, and returns the first error.
func inParallelAt(o options, addresses []string, work func(i int, w *wire) error) error {
	wires := make([]*wire, o.connections)
	for i := range wires {
		w, err := dialAt(o, addresses[i], o.limit)
		if err != nil {
			return err
		}
		defer w.conn.Close()
		wires[i] = w
	}
	errs := make(chan error, o.connections)
	for i, w := range wires {
		go func() { errs <- work(i, w) }()
	}
	for range wires {
		if err := <-errs; err != nil {
			return err
		}
	}
	return nil
}

// produce sends the same encoded requests repeatedly; a connection iterates over its share of the partitions.
func produce(o options) (result, error) {
	id, err := prepare(o)
	if err != nil {
		return nil, err
	}
	at, walked, err := shares(o)
	if err != nil {
		return nil, err
	}
	batch := recordBatch(o.batch, o.size)
	payload := int64(o.batch * o.size)
	perConnection := max(int64(o.megabytes)*1_000_000/payload/int64(o.connections), 1)
	r := result{"batch_bytes": len(batch)}
	var m meter
	var once sync.Once
	ready := make(chan struct{}, o.connections)
	gate := make(chan struct{})
	go func() {
		for range o.connections {
			<-ready
		}
		once.Do(func() { m = startMeter(o.pids) })
		close(gate)
	}()
	err = inParallelAt(o, at, func(i int, w *wire) error {
		var frames [][]byte
		for _, p := range walked[i] {
			q := produceRequest(o.topic, id, o.acks)
			q.Topics[0].Partitions = append(q.Topics[0].Partitions, producePartition(p, batch))
			frames = append(frames, w.frame(q))
		}
		reply := kmsg.NewPtrProduceResponse()
		reply.SetVersion(min(reply.MaxVersion(), w.versions[0]))
		window := make(chan struct{}, o.inFlight)
		failed := make(chan error, 1)
		ready <- struct{}{}
		<-gate
		go func() {
			for n := range perConnection {
				window <- struct{}{}
				if _, err := w.conn.Write(frames[n%int64(len(frames))]); err != nil {
					failed <- err
					return
				}
			}
		}()
		for range perConnection {
			*reply = kmsg.ProduceResponse{Version: reply.Version}
			if _, err := w.receive(reply); err != nil {
				select {
				case cause := <-failed:
					return cause
				default:
					return err
				}
			}
			if err := produceError(reply); err != nil {
				return err
			}
			<-window
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop(r, perConnection*int64(o.connections), perConnection*int64(o.connections)*payload)
	return r, nil
}

// fetch reads every partition from its start to its end, repeatedly, until enough bytes have arrived.
func fetch(o options) (result, error) {
	probe, err := dial(o)
	if err != nil {
		return nil, err
	}
	found, err := ids(probe, []string{o.topic})
	if err != nil {
		return nil, err
	}
	var moved, requests atomic.Int64
	target := int64(o.megabytes) * 1_000_000
	r, m := result{}, startMeter(o.pids)
	err = inParallel(o, func(i int, w *wire) error {
		offsets := make([]int64, o.partitions)
		for turn := i; moved.Load() < target; turn++ {
			q := kmsg.NewPtrFetchRequest()
			q.ReplicaID, q.MaxWaitMillis, q.MinBytes, q.MaxBytes, q.SessionEpoch = -1, 500, 1, 1<<30, -1
			q.IsolationLevel = int8(o.isolation)
			t := kmsg.NewFetchRequestTopic()
			t.Topic, t.TopicID = o.topic, found[o.topic]
			for p := range o.partitions {
				part := kmsg.NewFetchRequestTopicPartition()
				part.Partition, part.FetchOffset, part.PartitionMaxBytes = int32(p), offsets[p], int32(o.fetchBytes)
				t.Partitions = append(t.Partitions, part)
			}
			q.Topics = append(q.Topics, t)
			answer, err := w.call(q)
			if err != nil {
				return err
			}
			got := int64(0)
			for _, topic := range answer.(*kmsg.FetchResponse).Topics {
				for _, p := range topic.Partitions {
					if p.ErrorCode != 0 {
						return fmt.Errorf("fetch partition %d: %w", p.Partition, code(p.ErrorCode))
					}
					got += int64(len(p.RecordBatches))
					offsets[p.Partition] = nextOffset(p.RecordBatches, offsets[p.Partition])
					if offsets[p.Partition] >= p.HighWatermark {
						offsets[p.Partition] = 0
					}
				}
			}
			if got == 0 {
				return fmt.Errorf("fetch: an empty answer although the partitions hold records")
			}
			moved.Add(got)
			requests.Add(1)
		}
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop(r, requests.Load(), moved.Load())
	return r, nil
}

// nextOffset walks the whole batches of a fetched partition; a batch cut off at the end is left for the next fetch.
func nextOffset(batches []byte, from int64) int64 {
	for len(batches) >= 27 {
		base := int64(be64(batches))
		size := int(be32(batches[8:])) + 12
		if len(batches) < size {
			break
		}
		from = base + int64(be32(batches[23:])) + 1
		batches = batches[size:]
	}
	return from
}

func be64(b []byte) uint64 { return uint64(be32(b))<<32 | uint64(be32(b[4:])) }

func be32(b []byte) uint32 {
	return uint32(b[0])<<24 | uint32(b[1])<<16 | uint32(b[2])<<8 | uint32(b[3])
}
