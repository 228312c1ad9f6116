package main

import (
	"context"
	"fmt"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// firstFetches starts consumers of one group at once and waits until each has read a record. They do not
// commit: each owner reads a partition from its start, so no consumer takes another's records.
func firstFetches(o options) (result, error) {
	if _, err := prepare(o); err != nil {
		return nil, err
	}
	ctx, cancel := context.WithTimeout(context.Background(), o.limit)
	defer cancel()
	group := fmt.Sprintf("%s-%d", o.topic, time.Now().UnixNano())
	settings := []kgo.Opt{
		kgo.SeedBrokers(strings.Split(o.bootstrap, ",")...), kgo.ConsumeTopics(o.topic), kgo.ConsumerGroup(group),
		kgo.DisableAutoCommit(), kgo.FetchMaxWait(100 * time.Millisecond),
		kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()),
	}
	switch o.protocol {
	case "classic":
		settings = append(settings, kgo.Balancers(kgo.RangeBalancer()), kgo.HeartbeatInterval(o.interval))
	case "consumer":
		settings = append(settings, kgo.ServerSideBalancer())
	default:
		return nil, fmt.Errorf("%q is no group protocol", o.protocol)
	}
	r, m := result{}, startMeter(o.pids)
	took := make(chan time.Duration, o.connections)
	failed := make(chan error, o.connections)
	clients := make([]*kgo.Client, o.connections)
	for i := range clients {
		client, err := kgo.NewClient(settings...)
		if err != nil {
			return nil, err
		}
		clients[i] = client
		defer client.Close()
		go func() {
			for ctx.Err() == nil {
				fetches := client.PollFetches(ctx)
				if !fetches.Empty() && fetches.NumRecords() > 0 {
					took <- time.Since(m.start)
					break
				}
				for _, f := range fetches.Errors() {
					if ctx.Err() == nil && !passing(f.Err) {
						failed <- fmt.Errorf("partition %d: %w", f.Partition, f.Err)
						return
					}
				}
			}
			for ctx.Err() == nil { // who does not poll holds up the others' rebalance
				client.PollFetches(ctx)
			}
		}()
	}
	var all []time.Duration
	for range clients {
		select {
		case one := <-took:
			all = append(all, one)
		case err := <-failed:
			return nil, err
		case <-ctx.Done():
			return nil, fmt.Errorf("%d of %d consumers have read", len(all), o.connections)
		}
	}
	r["all_ms"] = milliseconds(time.Since(m.start))
	m.stop(r, int64(o.connections), 0)
	percentiles(r, "", all)
	cancel()
	return r, nil
}
