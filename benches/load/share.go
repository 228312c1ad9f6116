package main

import (
	"context"
	"fmt"
	"strings"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// share reads a topic from its beginning with consumers of one share group, which acknowledge records by the next
// poll, until `megabytes` of values have arrived. Timing starts at the first record.
func share(o options) (result, error) {
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	group := fmt.Sprintf("%s-%d", o.topic, time.Now().UnixNano())
	if err := fromTheBeginning(w, group); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	// A consumer that goes on polling would hold records of the others: all stop at once.
	polling, enough := context.WithCancel(ctx)
	defer enough()
	target := int64(o.megabytes) * 1_000_000 / int64(o.size)
	var count, refused atomic.Int64
	var m meter
	began := make(chan struct{})
	done := make(chan error, o.connections)
	clients := make([]*kgo.Client, o.connections)
	for i := range clients {
		clients[i], err = kgo.NewClient(kgo.SeedBrokers(strings.Split(o.bootstrap, ",")...), kgo.ConsumeTopics(o.topic),
			kgo.ShareGroup(group), kgo.ShareAckCallback(func(_ *kgo.Client, found kgo.ShareAckResults) {
				if found.Error() != nil && ctx.Err() == nil {
					refused.Add(1)
				}
			}))
		if err != nil {
			return nil, err
		}
	}
	var started atomic.Bool
	for _, client := range clients {
		go func() {
			for polling.Err() == nil {
				fetches := client.PollRecords(polling, 0)
				for _, f := range fetches.Errors() {
					if polling.Err() == nil && !passing(f.Err) {
						done <- fmt.Errorf("partition %d: %w", f.Partition, f.Err)
						return
					}
				}
				if got := fetches.NumRecords(); got > 0 {
					if started.CompareAndSwap(false, true) {
						m = startMeter(o.pids)
						close(began)
					} else {
						<-began
						if count.Add(int64(got)) >= target {
							enough()
						}
					}
				}
			}
			done <- ctx.Err()
		}()
	}
	for range clients {
		if err := <-done; err != nil {
			return nil, fmt.Errorf("%d of %d records came: %w", count.Load(), target, err)
		}
	}
	r := result{"refused": refused.Load()}
	m.stop(r, count.Load(), count.Load()*int64(o.size))
	cancel()
	for _, client := range clients {
		client.Close()
	}
	return r, nil
}

// fromTheBeginning configures a new share group to start at the first record.
func fromTheBeginning(w *wire, group string) error {
	q := kmsg.NewPtrIncrementalAlterConfigsRequest()
	resource := kmsg.NewIncrementalAlterConfigsRequestResource()
	resource.ResourceType, resource.ResourceName = kmsg.ConfigResourceTypeGroupConfig, group
	setting := kmsg.NewIncrementalAlterConfigsRequestResourceConfig()
	setting.Name, setting.Op, setting.Value = "share.auto.offset.reset", kmsg.IncrementalAlterConfigOpSet, kmsg.StringPtr("earliest")
	resource.Configs = append(resource.Configs, setting)
	q.Resources = append(q.Resources, resource)
	reply, err := w.call(q)
	if err != nil {
		return err
	}
	return code(reply.(*kmsg.IncrementalAlterConfigsResponse).Resources[0].ErrorCode)
}
