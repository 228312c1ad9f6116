package main

import (
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"sync"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// offsets of fields in a record batch of message format 2
const (
	atChecksum, atAttributes, atProducer, atEpoch, atSequence = 17, 21, 43, 51, 53
	transactional                                             = 0x10
)

var castagnoli = crc32.MakeTable(crc32.Castagnoli)

// sealed sets the producer's fields in a batch and marks it as transactional.
func sealed(batch []byte, producer int64, epoch int16, sequence int32) {
	be := binary.BigEndian
	be.PutUint16(batch[atAttributes:], transactional)
	be.PutUint64(batch[atProducer:], uint64(producer))
	be.PutUint16(batch[atEpoch:], uint16(epoch))
	be.PutUint32(batch[atSequence:], uint32(sequence))
	be.PutUint32(batch[atChecksum:], crc32.Checksum(batch[atAttributes:], castagnoli))
}

// producer is the current producer id and epoch of a transactional id (KIP-890: each transaction has a new epoch).
type producer struct {
	name  string
	id    int64
	epoch int16
}

// begin requests a producer id; it retries while the coordinator is unavailable or ends an earlier transaction.
func (p *producer) begin(w *wire) error {
	q := kmsg.NewPtrInitProducerIDRequest()
	q.TransactionalID, q.TransactionTimeoutMillis = kmsg.StringPtr(p.name), 60_000
	q.ProducerID, q.ProducerEpoch = -1, -1
	for {
		reply, err := w.call(q)
		if err != nil {
			return err
		}
		answer := reply.(*kmsg.InitProducerIDResponse)
		err = code(answer.ErrorCode)
		if err == nil {
			p.id, p.epoch = answer.ProducerID, answer.ProducerEpoch
			return nil
		}
		if !kerr.IsRetriable(err) {
			return fmt.Errorf("InitProducerId: %w", err)
		}
		time.Sleep(20 * time.Millisecond)
	}
}

// end commits or aborts; the response has the next producer id and epoch.
func (p *producer) end(w *wire, commit bool) error {
	q := kmsg.NewPtrEndTxnRequest()
	q.TransactionalID, q.ProducerID, q.ProducerEpoch, q.Commit = p.name, p.id, p.epoch, commit
	for {
		reply, err := w.call(q)
		if err != nil {
			return err
		}
		answer := reply.(*kmsg.EndTxnResponse)
		err = code(answer.ErrorCode)
		if err == nil {
			p.id, p.epoch = answer.ProducerID, answer.ProducerEpoch
			return nil
		}
		if !kerr.IsRetriable(err) {
			return fmt.Errorf("EndTxn: %w", err)
		}
		time.Sleep(time.Millisecond)
	}
}

// transactions runs transactions of one batch each, in the second version of the protocol, until the time is over or
// `megabytes` are sent, whichever comes first. Each connection has a transactional id.
func transactions(o options) (result, error) {
	id, err := prepare(o)
	if err != nil {
		return nil, err
	}
	var mutex sync.Mutex
	var all []time.Duration
	var retries int64
	producers := make([]producer, o.connections)
	if err := inParallel(o, func(i int, w *wire) error {
		producers[i].name = fmt.Sprintf("%s-%d", o.topic, i)
		if err := findCoordinator(w, producers[i].name, 1); err != nil {
			return err
		}
		return producers[i].begin(w)
	}); err != nil {
		return nil, err
	}
	most := max(int64(o.megabytes)*1_000_000/int64(o.batch*o.size)/int64(o.connections), 1)
	r, m := result{}, startMeter(o.pids)
	end := m.start.Add(o.duration)
	err = inParallel(o, func(i int, w *wire) error {
		p, batch := &producers[i], recordBatch(o.batch, o.size)
		q := produceRequest(o.topic, id, o.acks)
		q.TransactionID = kmsg.StringPtr(p.name)
		q.Topics[0].Partitions = append(q.Topics[0].Partitions, producePartition(0, batch))
		took := make([]time.Duration, 0, 1<<12)
		again := int64(0)
		for start := time.Now(); start.Before(end) && int64(len(took)) < most; start = time.Now() {
			number := len(took)
			q.Topics[0].Partitions[0].Partition = int32((number*o.connections + i) % o.partitions)
			sealed(batch, p.id, p.epoch, 0)
			for {
				reply, err := w.call(q)
				if err != nil {
					return err
				}
				err = produceError(reply.(*kmsg.ProduceResponse))
				if err == nil {
					break
				}
				if !errors.Is(err, kerr.ConcurrentTransactions) && !errors.Is(err, kerr.NotEnoughReplicas) {
					return err
				}
				again++
				time.Sleep(time.Millisecond)
			}
			if err := p.end(w, o.abort == 0 || (number+1)%o.abort != 0); err != nil {
				return err
			}
			took = append(took, time.Since(start))
		}
		mutex.Lock()
		defer mutex.Unlock()
		all, retries = append(all, took...), retries+again
		return nil
	})
	if err != nil {
		return nil, err
	}
	m.stop(r, int64(len(all)), int64(len(all)*o.batch*o.size))
	r["retries"] = retries
	percentiles(r, "", all)
	return r, nil
}

// findCoordinator waits until a key (kind 0: group, 1: transactional id) has a coordinator; a single broker has all.
func findCoordinator(w *wire, key string, kind int8) error {
	q := kmsg.NewPtrFindCoordinatorRequest()
	q.CoordinatorType, q.CoordinatorKey, q.CoordinatorKeys = kind, key, []string{key}
	for {
		reply, err := w.call(q)
		if err != nil {
			return err
		}
		err = code(reply.(*kmsg.FindCoordinatorResponse).Coordinators[0].ErrorCode)
		if err == nil || !kerr.IsRetriable(err) {
			return err
		}
		time.Sleep(20 * time.Millisecond)
	}
}
