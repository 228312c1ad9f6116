package main

import (
	"fmt"
	"os"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"time"
)

// result holds the figures of one measurement; the names contain the units.
type result map[string]any

// clockTicks is the unit of /proc/PID/stat on Linux (USER_HZ).
const clockTicks = 100

// processCPU is user plus system time of a process, in seconds.
func processCPU(pid int) float64 {
	text, err := os.ReadFile(fmt.Sprintf("/proc/%d/stat", pid))
	if err != nil {
		return 0
	}
	// The command name may contain blanks: parse the fields after its closing bracket.
	fields := strings.Fields(string(text)[strings.LastIndexByte(string(text), ')')+1:])
	user, _ := strconv.ParseFloat(fields[11], 64)
	system, _ := strconv.ParseFloat(fields[12], 64)
	return (user + system) / clockTicks
}

// brokersCPU is the time of all brokers together, in seconds.
func brokersCPU(pids string) float64 {
	all := 0.0
	for _, one := range strings.Split(pids, ",") {
		if pid, err := strconv.Atoi(one); err == nil {
			all += processCPU(pid)
		}
	}
	return all
}

// ownCPU is this program's user plus system time, in seconds.
func ownCPU() float64 {
	var u syscall.Rusage
	_ = syscall.Getrusage(syscall.RUSAGE_SELF, &u)
	return time.Duration(u.Utime.Nano() + u.Stime.Nano()).Seconds()
}

// machineCPU is the busy time of all processors, for any process, in seconds.
func machineCPU() float64 {
	text, _ := os.ReadFile("/proc/stat")
	line, _, _ := strings.Cut(string(text), "\n")
	busy := 0.0
	for i, field := range strings.Fields(line)[1:9] {
		if v, _ := strconv.ParseFloat(field, 64); i != 3 && i != 4 { // idle and waiting for the disk
			busy += v / clockTicks
		}
	}
	return busy
}

// meter measures a timed part: wall time, the brokers' and this program's CPU, and the CPU of all other processes.
type meter struct {
	pids                 string
	start                time.Time
	broker, own, machine float64
}

func startMeter(pids string) meter {
	return meter{pids, time.Now(), brokersCPU(pids), ownCPU(), machineCPU()}
}

// stop adds the figures of `requests` requests that moved `payload` bytes.
func (m meter) stop(r result, requests, payload int64) {
	seconds := time.Since(m.start).Seconds()
	broker, own := brokersCPU(m.pids)-m.broker, ownCPU()-m.own
	r["seconds"] = seconds
	r["requests"] = requests
	r["requests_per_s"] = float64(requests) / seconds
	if payload > 0 {
		r["mb_per_s"] = float64(payload) / 1e6 / seconds
		r["client_cpu_s_per_gb"] = own / float64(payload) * 1e9
	}
	if m.pids == "" {
		return
	}
	if payload > 0 {
		r["broker_cpu_s_per_gb"] = broker / float64(payload) * 1e9
	}
	if requests > 0 {
		r["broker_cpu_us_per_request"] = broker * 1e6 / float64(requests)
	}
	r["broker_cpu_s"] = broker
	// Cores that other processes used: the larger, the less reliable the figures.
	r["noise_cores"] = (machineCPU() - m.machine - broker - own) / seconds
}

// percentiles adds p50, p99 and p99.9 of durations in milliseconds.
func percentiles(r result, prefix string, durations []time.Duration) {
	if len(durations) == 0 {
		return
	}
	slices.Sort(durations)
	at := func(q float64) float64 {
		return durations[min(len(durations)-1, int(q*float64(len(durations))))].Seconds() * 1e3
	}
	r[prefix+"p50_ms"], r[prefix+"p99_ms"], r[prefix+"p999_ms"] = at(0.5), at(0.99), at(0.999)
}
