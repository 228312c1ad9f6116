package main

import (
	"bufio"
	"encoding/binary"
	"fmt"
	"hash/crc32"
	"io"
	"math/rand/v2"
	"net"
	"strconv"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kmsg"
)

// wire is one raw connection that has agreed on versions with the broker.
type wire struct {
	conn     net.Conn
	in       *bufio.Reader
	versions map[int16]int16
	next     int32
	body     []byte
}

var formatter = kmsg.NewRequestFormatter(kmsg.FormatterClientID("load"))

// dial connects to the first broker that can be reached.
func dial(o options) (*wire, error) {
	var w *wire
	var err error
	for _, address := range strings.Split(o.bootstrap, ",") {
		if w, err = dialAt(o, address, o.limit); err == nil {
			break
		}
	}
	return w, err
}

// dialAt connects to one broker, which must send its first response within patience.
func dialAt(o options, address string, patience time.Duration) (*wire, error) {
	conn, err := net.DialTimeout("tcp", address, 2*time.Second)
	if err != nil {
		return nil, err
	}
	_ = conn.SetDeadline(time.Now().Add(patience))
	w := &wire{conn: conn, in: bufio.NewReaderSize(conn, 1<<16), versions: map[int16]int16{18: 3}}
	hello := kmsg.NewPtrApiVersionsRequest()
	hello.ClientSoftwareName, hello.ClientSoftwareVersion = "load", "1"
	reply, err := w.call(hello)
	if err != nil {
		conn.Close()
		return nil, fmt.Errorf("ApiVersions: %w", err)
	}
	for _, key := range reply.(*kmsg.ApiVersionsResponse).ApiKeys {
		w.versions[key.ApiKey] = key.MaxVersion
	}
	_ = conn.SetDeadline(time.Now().Add(o.limit))
	return w, nil
}

// toController reconnects to the controller.
func (w *wire) toController(o options) error {
	q := kmsg.NewPtrMetadataRequest()
	q.Topics = []kmsg.MetadataRequestTopic{}
	reply, err := w.call(q)
	if err != nil {
		return err
	}
	found := reply.(*kmsg.MetadataResponse)
	for _, one := range found.Brokers {
		if one.NodeID == found.ControllerID {
			other, err := dialAt(o, net.JoinHostPort(one.Host, strconv.Itoa(int(one.Port))), o.limit)
			if err != nil {
				return err
			}
			w.conn.Close()
			*w = *other
			return nil
		}
	}
	return fmt.Errorf("broker %d is the controller and not among the brokers", found.ControllerID)
}

// frame encodes a request at the highest version both sides know.
func (w *wire) frame(q kmsg.Request) []byte {
	q.SetVersion(min(q.MaxVersion(), w.versions[q.Key()]))
	w.next++
	return formatter.AppendRequest(nil, q, w.next)
}

// receive reads one response into reply; a nil reply leaves the body unread by a decoder. It returns the frame's size.
func (w *wire) receive(reply kmsg.Response) (int, error) {
	var prefix [4]byte
	if _, err := io.ReadFull(w.in, prefix[:]); err != nil {
		return 0, err
	}
	n := int(binary.BigEndian.Uint32(prefix[:]))
	if cap(w.body) < n {
		w.body = make([]byte, n)
	}
	body := w.body[:n]
	if _, err := io.ReadFull(w.in, body); err != nil {
		return 0, err
	}
	if reply == nil {
		return n, nil
	}
	body = body[4:]                              // correlation id
	if reply.IsFlexible() && reply.Key() != 18 { // ApiVersions keeps the short header (KIP-511)
		body = body[1:]
	}
	return n, reply.ReadFrom(body)
}

func (w *wire) call(q kmsg.Request) (kmsg.Response, error) {
	if _, err := w.conn.Write(w.frame(q)); err != nil {
		return nil, err
	}
	reply := q.ResponseKind()
	_, err := w.receive(reply)
	return reply, err
}

func code(c int16) error { return kerr.ErrorForCode(c) }

// values returns reproducible JSON-like texts of one size, which resemble events.
func values(count, size int) [][]byte {
	r := rand.New(rand.NewPCG(1, 2))
	out := make([][]byte, count)
	for i := range out {
		v := fmt.Appendf(nil, `{"id":%d`, r.Int64())
		for len(v) < size {
			v = fmt.Appendf(v, `,"field%d":"value-%06x"`, r.IntN(20), r.IntN(1<<24))
		}
		out[i] = v[:size]
	}
	return out
}

// recordBatch encodes one uncompressed batch of message format 2 without a producer id.
func recordBatch(count, size int) []byte {
	var records []byte
	for i, value := range values(count, size) {
		record := []byte{0} // attributes
		record = binary.AppendVarint(record, 0)
		record = binary.AppendVarint(record, int64(i))
		record = binary.AppendVarint(record, -1) // no key
		record = binary.AppendVarint(record, int64(len(value)))
		record = append(record, value...)
		record = binary.AppendVarint(record, 0) // no headers
		records = append(binary.AppendVarint(records, int64(len(record))), record...)
	}
	now := uint64(time.Now().UnixMilli())
	be := binary.BigEndian
	checked := be.AppendUint16(nil, 0)
	checked = be.AppendUint32(checked, uint32(count-1))
	checked = be.AppendUint64(checked, now)
	checked = be.AppendUint64(checked, now)
	checked = be.AppendUint64(checked, ^uint64(0)) // producer id -1
	checked = be.AppendUint16(checked, ^uint16(0))
	checked = be.AppendUint32(checked, ^uint32(0))
	checked = be.AppendUint32(checked, uint32(count))
	checked = append(checked, records...)
	batch := be.AppendUint64(nil, 0)
	batch = be.AppendUint32(batch, uint32(9+len(checked)))
	batch = be.AppendUint32(batch, ^uint32(0))
	batch = append(batch, 2)
	batch = be.AppendUint32(batch, crc32.Checksum(checked, crc32.MakeTable(crc32.Castagnoli)))
	return append(batch, checked...)
}
