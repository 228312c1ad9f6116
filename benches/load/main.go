// Command load takes one measurement of a Kafka-protocol broker and prints it as one line of JSON.
//
//	load produce      ready-made batches on raw connections, a fixed number of requests in flight on each
//	load fetch        raw fetches of whole partitions from the page cache
//	load many         idle connections beside active ones that wait for each acknowledgement
//	load e2e          open loop: latency from a record's scheduled time until a consumer has it
//	load topics       create topics, wait until every partition has taken a record
//	load firstwrite   how long until the first, then until every partition takes a record
//	load metadata     Metadata of all topics, repeatedly
//	load recreate     delete, create again under the same name, first acknowledged record
//	load reuse        delete topics that exist, create them again under their names, first acknowledged record
//	load delete       delete the topics that `topics` made
//	load describe     keep the control plane busy with DescribeConfigs
//	load gap          write to one partition continuously: the longest gap between acknowledgements
//	load insync       wait until every replica of the topics is in sync
//	load joins        consumers of one group, all at once, until each has read a record
//	load members      heartbeats and commits of the members of groups, at a fixed pace
//	load transactions transactions of one batch each, back to back on each connection
//	load share        consumers of one share group until all records have arrived
//
// The client's own cost is low (it encodes requests once where possible): the broker is the bottleneck.
// With -pids it reads the summed CPU time of the brokers from /proc around the timed part only.
// In a cluster, each broker gets the requests for partitions that it leads.
package main

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"time"
)

// options are the flags of every operation; an operation reads the flags that it knows.
type options struct {
	bootstrap   string
	pids        string
	replication int
	topic       string
	topics      int
	partitions  int
	connections int
	inFlight    int
	batch       int
	size        int
	acks        int
	megabytes   int
	fetchBytes  int
	rate        int
	idle        int
	rounds      int
	duration    time.Duration
	warmup      time.Duration
	limit       time.Duration
	since       int64
	protocol    string
	interval    time.Duration
	groups      int
	isolation   int
	abort       int
}

var operations = map[string]func(options) (result, error){
	"produce": produce, "fetch": fetch, "many": many, "e2e": endToEnd, "topics": createAndWrite,
	"firstwrite": firstWrite, "metadata": metadataStorm, "recreate": recreate, "delete": deleteAll, "describe": describe,
	"gap": longestGap, "reuse": reuse, "insync": allInSync, "joins": firstFetches, "members": members, "transactions": transactions,
	"share": share,
}

func main() {
	if len(os.Args) < 2 || operations[os.Args[1]] == nil {
		fmt.Fprintln(os.Stderr, "usage: load produce|fetch|many|e2e|topics|firstwrite|metadata|recreate|delete|describe|gap|insync|reuse|joins|members|transactions|share [flags]")
		os.Exit(2)
	}
	var o options
	f := flag.NewFlagSet(os.Args[1], flag.ExitOnError)
	f.StringVar(&o.bootstrap, "bootstrap", "127.0.0.1:9092", "address of the broker; of several, with commas")
	f.StringVar(&o.pids, "pids", "", "process ids of the brokers, with commas, for their CPU time")
	f.IntVar(&o.replication, "replication", 1, "replicas of each partition")
	f.StringVar(&o.topic, "topic", "load", "topic, or the prefix of the topics")
	f.IntVar(&o.topics, "topics", 1, "number of topics")
	f.IntVar(&o.partitions, "partitions", 16, "partitions of each topic")
	f.IntVar(&o.connections, "connections", 4, "connections")
	f.IntVar(&o.inFlight, "in-flight", 5, "requests in flight on a connection")
	f.IntVar(&o.batch, "batch", 1, "records in a batch")
	f.IntVar(&o.size, "size", 100, "bytes of a record's value")
	f.IntVar(&o.acks, "acks", -1, "required acknowledgements")
	f.IntVar(&o.megabytes, "megabytes", 100, "payload to move, 10^6 bytes")
	f.IntVar(&o.fetchBytes, "fetch-bytes", 1<<20, "bytes a partition in one fetch")
	f.IntVar(&o.rate, "rate", 5000, "records a second (e2e)")
	f.IntVar(&o.idle, "idle", 200, "idle connections (many)")
	f.IntVar(&o.rounds, "rounds", 1000, "rounds (metadata, recreate)")
	f.DurationVar(&o.duration, "duration", 8*time.Second, "measured time (many, e2e, gap)")
	f.DurationVar(&o.warmup, "warmup", 2*time.Second, "time before measuring (e2e)")
	f.DurationVar(&o.limit, "limit", 120*time.Second, "give up after this time")
	f.Int64Var(&o.since, "since", 0, "firstwrite: epoch nanoseconds to count from")
	f.StringVar(&o.protocol, "protocol", "classic", "of groups: classic or consumer (KIP-848)")
	f.DurationVar(&o.interval, "interval", 3*time.Second, "between two heartbeats of a member (joins, members)")
	f.IntVar(&o.groups, "groups", 10, "groups of the members")
	f.IntVar(&o.isolation, "isolation", 0, "1 reads committed records only (fetch)")
	f.IntVar(&o.abort, "abort", 0, "each so manieth transaction is aborted, 0 none")
	_ = f.Parse(os.Args[2:])
	time.AfterFunc(o.limit, func() {
		fmt.Fprintf(os.Stderr, "load %s: no end within %s\n", os.Args[1], o.limit)
		os.Exit(1)
	})
	r, err := operations[os.Args[1]](o)
	if err == nil {
		err = json.NewEncoder(os.Stdout).Encode(r)
	}
	if err != nil {
		fmt.Fprintf(os.Stderr, "load %s: %v\n", os.Args[1], err)
		os.Exit(1)
	}
}
