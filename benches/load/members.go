package main

import (
	"errors"
	"fmt"
	"sync"
	"sync/atomic"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// calm is how many consecutive heartbeats without a change make a member count as settled.
const calm = 4

// groupMember is one member of a group, with its own connection. It encodes repeated requests once.
type groupMember struct {
	w          *wire
	group      string
	id         string
	generation int32 // or the member epoch
	partition  int32
	topic      string
	topicID    [16]byte
}

// members joins members to groups, one partition each. Each then sends heartbeats at the interval and commits at 5/3 of
// it, the ratio of clients' defaults (3 s and 5 s). The measurement covers a period without rebalances.
func members(o options) (result, error) {
	o.partitions = o.connections / o.groups
	id, err := prepare(o)
	if err != nil {
		return nil, err
	}
	join := map[string]func(*groupMember, func(bool) bool) error{"classic": joinClassic, "consumer": joinConsumer}[o.protocol]
	if join == nil {
		return nil, fmt.Errorf("%q is no group protocol", o.protocol)
	}
	stamp := time.Now().UnixNano()
	w, err := dial(o)
	if err != nil {
		return nil, err
	}
	defer w.conn.Close()
	for g := range o.groups {
		if err := findCoordinator(w, groupName(o, stamp, g), 0); err != nil {
			return nil, err
		}
	}
	var settled atomic.Int64
	quiet := make([]atomic.Bool, o.connections)
	var m meter
	var mutex sync.Mutex
	var beats, commits []time.Duration
	gate := make(chan struct{})
	joined := make(chan struct{}, o.connections)
	go func() {
		for range o.connections {
			<-joined
		}
		m = startMeter(o.pids)
		close(gate)
	}()
	err = inParallel(o, func(i int, w *wire) error {
		one := &groupMember{w: w, group: groupName(o, stamp, i%o.groups), topic: o.topic, topicID: id}
		// Wait until all members are settled: heartbeats notify the others of a member's rebalance.
		over := func(isCalm bool) bool {
			if quiet[i].Swap(isCalm) != isCalm {
				if isCalm {
					settled.Add(1)
				} else {
					settled.Add(-1)
				}
			}
			return settled.Load() == int64(o.connections)
		}
		if err := join(one, over); err != nil {
			return fmt.Errorf("member %d joins: %w", i, err)
		}
		beat, commit := one.frames(o)
		joined <- struct{}{}
		<-gate
		took, stored, err := one.live(o, m.start, i, beat, commit)
		mutex.Lock()
		defer mutex.Unlock()
		beats, commits = append(beats, took...), append(commits, stored...)
		return err
	})
	if err != nil {
		return nil, err
	}
	r := result{"heartbeats": len(beats), "commits": len(commits)}
	m.stop(r, int64(len(beats)+len(commits)), 0)
	percentiles(r, "heartbeat_", beats)
	percentiles(r, "commit_", commits)
	return r, nil
}

// loading are transient errors of a coordinator that has not read its log yet.
func loading(err error) bool {
	return errors.Is(err, kerr.NotCoordinator) || errors.Is(err, kerr.CoordinatorLoadInProgress) ||
		errors.Is(err, kerr.CoordinatorNotAvailable)
}

func groupName(o options, stamp int64, number int) string {
	return fmt.Sprintf("%s-%d-%d", o.topic, stamp, number)
}

// live sends requests on schedule until the time is over; members start at different points of the interval.
func (g *groupMember) live(o options, start time.Time, number int, beat, commit []byte) (beats, commits []time.Duration, err error) {
	period := o.interval
	pause := period * 5 / 3
	shift := time.Duration(number) * period / time.Duration(o.connections)
	nextBeat, nextCommit := start.Add(shift), start.Add(shift*5/3)
	end := start.Add(o.duration)
	for {
		due, frame, isBeat := nextBeat, beat, true
		if nextCommit.Before(nextBeat) {
			due, frame, isBeat = nextCommit, commit, false
		}
		if !due.Before(end) {
			return beats, commits, nil
		}
		time.Sleep(time.Until(due))
		if _, err := g.w.conn.Write(frame); err != nil {
			return nil, nil, err
		}
		if isBeat {
			err = g.beaten(o.protocol)
			beats, nextBeat = append(beats, time.Since(due)), nextBeat.Add(period)
		} else {
			err = g.committed()
			commits, nextCommit = append(commits, time.Since(due)), nextCommit.Add(pause)
		}
		if err != nil {
			return nil, nil, err
		}
	}
}

func (g *groupMember) beaten(protocol string) error {
	if protocol == "consumer" {
		reply := kmsg.NewPtrConsumerGroupHeartbeatResponse()
		reply.SetVersion(min(reply.MaxVersion(), g.w.versions[68]))
		if _, err := g.w.receive(reply); err != nil {
			return err
		}
		return named("ConsumerGroupHeartbeat", reply.ErrorCode)
	}
	reply := kmsg.NewPtrHeartbeatResponse()
	reply.SetVersion(min(reply.MaxVersion(), g.w.versions[12]))
	if _, err := g.w.receive(reply); err != nil {
		return err
	}
	return named("Heartbeat", reply.ErrorCode)
}

func (g *groupMember) committed() error {
	reply := kmsg.NewPtrOffsetCommitResponse()
	reply.SetVersion(min(reply.MaxVersion(), g.w.versions[8]))
	if _, err := g.w.receive(reply); err != nil {
		return err
	}
	return named("OffsetCommit", reply.Topics[0].Partitions[0].ErrorCode)
}

func named(what string, number int16) error {
	if err := code(number); err != nil {
		return fmt.Errorf("%s: %w", what, err)
	}
	return nil
}

// frames are a heartbeat without changes and a commit of the member's partition.
func (g *groupMember) frames(o options) (beat, commit []byte) {
	if o.protocol == "consumer" {
		beat = g.w.frame(g.consumerBeat())
	} else {
		q := kmsg.NewPtrHeartbeatRequest()
		q.Group, q.MemberID, q.Generation = g.group, g.id, g.generation
		beat = g.w.frame(q)
	}
	q := kmsg.NewPtrOffsetCommitRequest()
	q.Group, q.MemberID, q.Generation = g.group, g.id, g.generation
	t := kmsg.NewOffsetCommitRequestTopic()
	t.Topic, t.TopicID = g.topic, g.topicID
	p := kmsg.NewOffsetCommitRequestTopicPartition()
	p.Partition, p.Offset = g.partition, 1
	t.Partitions = append(t.Partitions, p)
	q.Topics = append(q.Topics, t)
	return beat, g.w.frame(q)
}

// joinClassic takes part in rebalances until heartbeats report none.
func joinClassic(g *groupMember, over func(bool) bool) error {
	for {
		leads, all, err := g.round()
		if err == nil {
			err = g.sync(leads, all)
		}
		if err == nil {
			err = g.settle(over, func() error {
				q := kmsg.NewPtrHeartbeatRequest()
				q.Group, q.MemberID, q.Generation = g.group, g.id, g.generation
				reply, err := g.w.call(q)
				if err != nil {
					return err
				}
				return code(reply.(*kmsg.HeartbeatResponse).ErrorCode)
			})
		}
		if err == nil || !errors.Is(err, kerr.RebalanceInProgress) && !errors.Is(err, kerr.IllegalGeneration) {
			return err
		}
	}
}

// round is one JoinGroup; the leader's response lists all members.
func (g *groupMember) round() (bool, []string, error) {
	for {
		q := kmsg.NewPtrJoinGroupRequest()
		q.Group, q.MemberID, q.ProtocolType = g.group, g.id, "consumer"
		q.SessionTimeoutMillis, q.RebalanceTimeoutMillis = 45_000, 60_000
		protocol := kmsg.NewJoinGroupRequestProtocol()
		protocol.Name, protocol.Metadata = "range", []byte{0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
		q.Protocols = append(q.Protocols, protocol)
		reply, err := g.w.call(q)
		if err != nil {
			return false, nil, err
		}
		answer := reply.(*kmsg.JoinGroupResponse)
		if err := code(answer.ErrorCode); errors.Is(err, kerr.MemberIDRequired) {
			g.id = answer.MemberID
			continue
		} else if loading(err) {
			time.Sleep(20 * time.Millisecond)
			continue
		} else if err != nil {
			return false, nil, fmt.Errorf("JoinGroup: %w", err)
		}
		g.id, g.generation = answer.MemberID, answer.Generation
		all := make([]string, len(answer.Members))
		for i, one := range answer.Members {
			all[i] = one.MemberID
		}
		return answer.LeaderID == g.id, all, nil
	}
}

func (g *groupMember) sync(leads bool, all []string) error {
	q := kmsg.NewPtrSyncGroupRequest()
	q.Group, q.MemberID, q.Generation = g.group, g.id, g.generation
	q.ProtocolType, q.Protocol = kmsg.StringPtr("consumer"), kmsg.StringPtr("range")
	if leads {
		for i, one := range all {
			part := kmsg.NewSyncGroupRequestGroupAssignment()
			part.MemberID, part.MemberAssignment = one, []byte{byte(i >> 8), byte(i)}
			q.GroupAssignment = append(q.GroupAssignment, part)
		}
	}
	reply, err := g.w.call(q)
	if err != nil {
		return err
	}
	answer := reply.(*kmsg.SyncGroupResponse)
	if err := code(answer.ErrorCode); err != nil {
		return err
	}
	g.partition = int32(answer.MemberAssignment[0])<<8 | int32(answer.MemberAssignment[1])
	return nil
}

// settle sends heartbeats until all members of all groups are calm, or until one reports a rebalance.
func (g *groupMember) settle(over func(bool) bool, beat func() error) error {
	for count := 0; ; count++ {
		if err := beat(); err != nil {
			over(false)
			return err
		}
		if over(count >= calm) {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
	}
}

func (g *groupMember) consumerBeat() *kmsg.ConsumerGroupHeartbeatRequest {
	q := kmsg.NewPtrConsumerGroupHeartbeatRequest()
	q.Group, q.MemberID, q.MemberEpoch, q.RebalanceTimeoutMillis = g.group, g.id, g.generation, -1
	return q
}

var anybody atomic.Int64

// joinConsumer joins by KIP-848: it revokes partitions on request and confirms it, until it owns one partition.
func joinConsumer(g *groupMember, over func(bool) bool) error {
	g.id = fmt.Sprintf("%s-%d", g.group, anybody.Add(1))
	have := 0
	quiet := 0
	tell := &[]kmsg.ConsumerGroupHeartbeatRequestTopic{}
	for {
		q := g.consumerBeat()
		if g.generation == 0 {
			q.RebalanceTimeoutMillis, q.SubscribedTopicNames, q.Topics = 60_000, []string{g.topic}, []kmsg.ConsumerGroupHeartbeatRequestTopic{}
		} else if tell != nil {
			q.Topics = *tell
		}
		reply, err := g.w.call(q)
		if err != nil {
			return err
		}
		answer := reply.(*kmsg.ConsumerGroupHeartbeatResponse)
		if loading(code(answer.ErrorCode)) {
			time.Sleep(20 * time.Millisecond)
			continue
		}
		if err := named("ConsumerGroupHeartbeat", answer.ErrorCode); err != nil {
			return err
		}
		tell = nil
		quiet++
		if answer.MemberEpoch != g.generation {
			g.generation, quiet = answer.MemberEpoch, 0
		}
		if answer.Assignment != nil {
			quiet, have = 0, 0
			owned := []kmsg.ConsumerGroupHeartbeatRequestTopic{}
			for _, t := range answer.Assignment.Topics {
				one := kmsg.NewConsumerGroupHeartbeatRequestTopic()
				one.TopicID, one.Partitions = t.TopicID, t.Partitions
				owned = append(owned, one)
				have += len(t.Partitions)
				g.partition = t.Partitions[0]
			}
			tell = &owned
		}
		if over(quiet >= calm && have == 1) {
			return nil
		}
		time.Sleep(500 * time.Millisecond)
	}
}
