// Package conversation takes commands and answers them, as tests/clients/driver.py describes it.
package conversation

import (
	"bufio"
	"context"
	"encoding/json"
	"os"
	"time"
)

// Timeout is what one command may take.
const Timeout = 60 * time.Second

// Command is one line of the other side.
type Command struct {
	Op          string
	Topic       string
	Group       string
	Partitions  int32
	Records     [][]json.RawMessage
	Acks        string
	Idempotent  bool
	Compression string
	Count       int
	Member      int
	Producer    int
	TimeoutMs   int64 `json:"timeout_ms"`
	Offsets     [][2]int64
	Newer       bool // the group is one of KIP-848
}

// Sent is a record that is to be sent.
type Sent struct {
	Partition int32
	Key       *string
	Value     *string
	Headers   [][2]string
}

// Sent gives the records of a command.
func (c Command) Sent() ([]Sent, error) {
	sent := make([]Sent, len(c.Records))
	for i, fields := range c.Records {
		each := &sent[i]
		for i, into := range []any{&each.Partition, &each.Key, &each.Value, &each.Headers} {
			if err := json.Unmarshal(fields[i], into); err != nil {
				return nil, err
			}
		}
	}
	return sent, nil
}

// Offsets gives those of the records that were sent; -1 where nothing is acknowledged.
func Offsets[T any](sent []T, acknowledged bool, of func(T) int64) []int64 {
	offsets := make([]int64, len(sent))
	for i, record := range sent {
		if offsets[i] = -1; acknowledged {
			offsets[i] = of(record)
		}
	}
	return offsets
}

// Row is a record that was received, for the other side.
type Row []any

// RowOf makes one; nil bytes are null.
func RowOf(partition int32, offset int64, key, value []byte, headers [][2]string) Row {
	text := func(b []byte) any {
		if b == nil {
			return nil
		}
		return string(b)
	}
	return Row{partition, offset, text(key), text(value), headers}
}

// Hold answers each command until there are no more. nameOf gives Kafka's name of the code in an error.
func Hold(run func(context.Context, Command) (any, error), nameOf func(error) string) {
	answers := json.NewEncoder(os.Stdout)
	lines := bufio.NewScanner(os.Stdin)
	lines.Buffer(nil, 64<<20)
	for lines.Scan() {
		var c Command
		var result any
		err := json.Unmarshal(lines.Bytes(), &c)
		if err == nil {
			ctx, cancel := context.WithTimeout(context.Background(), Timeout)
			result, err = run(ctx, c)
			cancel()
		}
		answer := map[string]any{"ok": result}
		if err != nil {
			answer = map[string]any{"error": nameOf(err), "detail": err.Error()}
		}
		if err := answers.Encode(answer); err != nil {
			panic(err)
		}
	}
}
