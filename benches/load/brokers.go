package main

import (
	"errors"
	"fmt"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kmsg"
)

// brokers are the connections to the brokers of a cluster, opened on first use.
type brokers struct {
	o     options
	wires map[string]*wire
	turn  int // whom to ask next
}

func newBrokers(o options) *brokers { return &brokers{o: o, wires: map[string]*wire{}} }

func (b *brokers) close() {
	for address := range b.wires {
		b.drop(address)
	}
}

func (b *brokers) drop(address string) {
	if w := b.wires[address]; w != nil {
		w.conn.Close()
		delete(b.wires, address)
	}
}

// at returns the connection to a broker; "" is any broker, another one after each drop.
func (b *brokers) at(address string) (*wire, error) {
	if w := b.wires[address]; w != nil {
		return w, nil
	}
	where := address
	if where == "" {
		all := strings.Split(b.o.bootstrap, ",")
		where = all[b.turn%len(all)]
		b.turn++
	}
	w, err := dialAt(b.o, where, patience)
	if err == nil {
		b.wires[address] = w
	}
	return w, err
}

// led is a topic with its id and the leader of each partition.
type led struct {
	id        [16]byte
	addresses []string
	lacking   bool // a replica is not in sync, or nobody leads
}

// of groups partitions by their leader; partitions without a leader go to any broker, which refuses them.
func (l led) of(partitions []int32) map[string][]int32 {
	found := map[string][]int32{}
	for _, p := range partitions {
		address := ""
		if int(p) < len(l.addresses) {
			address = l.addresses[p]
		}
		found[address] = append(found[address], p)
	}
	return found
}

func (b *brokers) leaders(name string) (led, error) {
	w, err := b.at("")
	if err != nil {
		return led{}, err
	}
	q := kmsg.NewPtrMetadataRequest()
	t := kmsg.NewMetadataRequestTopic()
	t.Topic = kmsg.StringPtr(name)
	q.Topics = append(q.Topics, t)
	_ = w.conn.SetDeadline(time.Now().Add(patience))
	answer, err := w.call(q)
	if err != nil {
		b.drop("")
		return led{}, err
	}
	_ = w.conn.SetDeadline(time.Now().Add(b.o.limit))
	reply := answer.(*kmsg.MetadataResponse)
	where := map[int32]string{}
	for _, one := range reply.Brokers {
		where[one.NodeID] = net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port)))
	}
	found := led{id: reply.Topics[0].TopicID, addresses: make([]string, len(reply.Topics[0].Partitions))}
	found.lacking = reply.Topics[0].ErrorCode != 0
	for _, p := range reply.Topics[0].Partitions {
		if int(p.Partition) < len(found.addresses) {
			found.addresses[p.Partition] = where[p.Leader]
		}
		found.lacking = found.lacking || len(p.ISR) < len(p.Replicas) || p.Leader < 0
	}
	return found, nil
}

// patience limits the wait for one response while brokers die.
const patience = time.Second

// write sends one record to each of the given partitions of one broker and returns those to retry.
func (b *brokers) write(address, name string, id [16]byte, partitions []int32, batch []byte) ([]int32, error) {
	w, err := b.at(address)
	if err != nil {
		return partitions, nil
	}
	q := produceRequest(name, id, -1)
	for _, p := range partitions {
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, producePartition(p, batch))
	}
	answer, err := w.call(q)
	if err != nil {
		b.drop(address)
		return partitions, nil
	}
	var refused []int32
	for _, t := range answer.(*kmsg.ProduceResponse).Topics {
		for _, p := range t.Partitions {
			if e := code(p.ErrorCode); e != nil {
				refused = append(refused, p.Partition)
				err = errors.Join(err, unlessPassing(e))
			}
		}
	}
	return refused, err
}

func unlessPassing(err error) error {
	if passing(err) {
		return nil
	}
	return err
}

// longestGap writes to partition 0, one record after the other, while the caller kills or stops brokers.
func longestGap(o options) (result, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	b := newBrokers(o)
	defer b.close()
	batch := recordBatch(1, o.size)
	end, last := time.Now().Add(o.duration), time.Now()
	fmt.Println("{}") // from here on
	var longest time.Duration
	count := 0
	found, err := b.leaders(o.topic)
	for ; time.Now().Before(end); found, err = b.leaders(o.topic) {
		for err == nil && found.addresses[0] != "" && time.Now().Before(end) {
			w, failed := b.at(found.addresses[0])
			if failed != nil {
				break
			}
			_ = w.conn.SetDeadline(time.Now().Add(patience))
			refused, failed := b.write(found.addresses[0], o.topic, found.id, []int32{0}, batch)
			if failed != nil {
				return nil, failed
			}
			if len(refused) > 0 {
				break
			}
			longest, last = max(longest, time.Since(last)), time.Now()
			count++
		}
		time.Sleep(5 * time.Millisecond)
	}
	longest = max(longest, time.Since(last))
	return result{"gap_ms": milliseconds(longest), "requests": count}, nil
}

// allInSync waits until all replicas of all topics are in sync.
func allInSync(o options) (result, error) {
	start := time.Now()
	if o.since > 0 {
		start = time.Unix(0, o.since)
	}
	b := newBrokers(o)
	defer b.close()
	for _, name := range topicNames(o) {
		for {
			found, err := b.leaders(name)
			if err == nil && !found.lacking {
				break
			}
			time.Sleep(20 * time.Millisecond)
		}
	}
	return result{"in_sync_ms": milliseconds(time.Since(start))}, nil
}
