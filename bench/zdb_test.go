package bench

import (
	"bytes"
	"encoding/binary"
	"fmt"
	"math/rand/v2"
	"os"
	"os/exec"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"
)

const (
	// zdbRounds is how many turns both servers take, zdbClients the number of clients.
	zdbRounds  = 5
	zdbClients = 50
	// zdbOnes and zdbPiped are the numbers of requests in a turn, with one request of each client at a
	// time, and with sixteen.
	zdbOnes, zdbPiped = 100_000, 400_000
	zdbPipeline       = 16
)

// zdbKeys is the number of keys, of which requests use random ones: about a gigabyte of values.
func zdbKeys(value int) int { return 1 << 30 / value }

// zdbCase is one comparison. anchor is the better result of two versions of 0-db relative to redis.
type zdbCase struct {
	network  string
	value    int
	pipeline int
	op       string
	anchor   float64
}

func (c zdbCase) String() string {
	return fmt.Sprintf("%s %d KiB, %d at once, %s", c.network, c.value>>10, c.pipeline, c.op)
}

func (c zdbCase) requests() int {
	if c.pipeline == 1 {
		return zdbOnes
	}
	return zdbPiped
}

// BenchmarkZDBUser compares zdb in user mode with redis without persistence, both loaded by
// redis-benchmark in turns. The budget is 0-db's result; there is none where that wasn't measured.
func BenchmarkZDBUser(b *testing.B) {
	for b.Loop() {
		for _, value := range []int{1 << 10, 4 << 10} {
			zdbRun(b, "user", slices.DeleteFunc([]zdbCase{
				{"tcp", 1 << 10, 1, "SET", 0.89}, {"tcp", 1 << 10, 1, "GET", 1.20},
				{"tcp", 1 << 10, zdbPipeline, "SET", 0.05}, {"tcp", 1 << 10, zdbPipeline, "GET", 0.04},
				{"unix", 1 << 10, 1, "SET", 0.82}, {"unix", 1 << 10, 1, "GET", 1.00},
				{"unix", 1 << 10, zdbPipeline, "SET", 0.36}, {"unix", 1 << 10, zdbPipeline, "GET", 0.21},
				{"tcp", 4 << 10, 1, "SET", 0.73}, {"tcp", 4 << 10, 1, "GET", 0.90},
				{"tcp", 4 << 10, zdbPipeline, "SET", 0.16}, {"tcp", 4 << 10, zdbPipeline, "GET", 0.07},
				{"unix", 4 << 10, 1, "SET", 0}, {"unix", 4 << 10, 1, "GET", 0},
				{"unix", 4 << 10, zdbPipeline, "SET", 0.64}, {"unix", 4 << 10, zdbPipeline, "GET", 0.39},
			}, func(c zdbCase) bool { return c.value != value }))
		}
	}
}

// BenchmarkZDBSeq is zdb in sequential mode, where the server makes the keys. As redis-benchmark can't
// use these, a client of this package loads both.
func BenchmarkZDBSeq(b *testing.B) {
	for b.Loop() {
		for _, value := range []int{1 << 10, 4 << 10} {
			zdbRun(b, "seq", slices.DeleteFunc([]zdbCase{
				{"tcp", 1 << 10, 1, "SET", 0.80}, {"tcp", 1 << 10, 1, "GET", 0.72},
				{"tcp", 1 << 10, zdbPipeline, "SET", 0.05}, {"tcp", 1 << 10, zdbPipeline, "GET", 0.04},
				{"unix", 1 << 10, 1, "SET", 0}, {"unix", 1 << 10, 1, "GET", 0},
				{"tcp", 4 << 10, 1, "SET", 0.87}, {"tcp", 4 << 10, 1, "GET", 0.76},
				{"tcp", 4 << 10, zdbPipeline, "SET", 0.16}, {"tcp", 4 << 10, zdbPipeline, "GET", 0.07},
			}, func(c zdbCase) bool { return c.value != value }))
		}
	}
}

// zdbRun fills both servers and compares them.
func zdbRun(b *testing.B, mode string, cases []zdbCase) {
	b.Helper()
	value := cases[0].value
	redis := startRedis(b)
	defer redis.end()
	zdb := startZDB(b, b.TempDir(), mode)
	defer zdb.end()
	redis.own, zdb.own = mode == "seq", mode == "seq"
	keys := zdbKeys(value)
	redis.fill(b, "user", keys, value)
	zdb.fill(b, mode, keys, value)
	for _, c := range cases {
		var ratios, ours, theirs, cpu, cpuTheirs []float64
		for round := range zdbRounds {
			turn := func(s *database, mode string) (float64, float64) {
				before := cpuSeconds(b, s.cmd.Process.Pid)
				rate := s.ask(b, mode, c, keys)
				return rate, (cpuSeconds(b, s.cmd.Process.Pid) - before) / float64(c.requests()) * 1e6
			}
			var mine, other, mineCPU, otherCPU float64
			if round%2 == 0 {
				mine, mineCPU = turn(zdb, mode)
			}
			other, otherCPU = turn(redis, "user")
			if round%2 == 1 {
				mine, mineCPU = turn(zdb, mode)
			}
			ratios, ours, theirs = append(ratios, mine/other), append(ours, mine), append(theirs, other)
			cpu, cpuTheirs = append(cpu, mineCPU), append(cpuTheirs, otherCPU)
		}
		figure := fmt.Sprintf("%.2f (%.0f/s of %.0f/s; CPU %.1f of %.1f µs)", middleOf(ratios), middleOf(ours), middleOf(theirs), middleOf(cpu), middleOf(cpuTheirs))
		if c.anchor == 0 {
			report(b, "zdb "+mode+", "+c.String(), "none: × redis", figure, middleOf(ratios))
			continue
		}
		report(b, "zdb "+mode+", "+c.String(), fmt.Sprintf("≥ %.2f × redis", c.anchor), figure, middleOf(ratios)/c.anchor)
	}
}

func middleOf(of []float64) float64 {
	s := slices.Sorted(slices.Values(of))
	return (s[len(s)/2] + s[(len(s)-1)/2]) / 2
}

// ask runs a case by redis-benchmark, or, for sequential mode and its reference, by this package's
// load. It returns the answers a second.
func (s *database) ask(b *testing.B, mode string, c zdbCase, keys int) float64 {
	b.Helper()
	if s.own {
		l := s.load(c, keys, mode)
		return l.run(b)
	}
	args := []string{"-c", strconv.Itoa(zdbClients), "-n", strconv.Itoa(c.requests()), "-P", strconv.Itoa(c.pipeline), "-r", strconv.Itoa(keys), "--csv"}
	if c.network == "unix" {
		args = append(args, "-s", s.socket)
	} else {
		args = append(args, "-h", "127.0.0.1", "-p", strconv.Itoa(s.port))
	}
	args = append(args, c.op, "key:__rand_int__")
	if c.op == "SET" {
		// A changing number, because zdb doesn't write a value that is unchanged.
		args = append(args, "__rand_int__"+strings.Repeat("v", c.value-len("__rand_int__")))
	}
	out, err := exec.CommandContext(b.Context(), "redis-benchmark", args...).Output()
	if err != nil {
		b.Fatalf("redis-benchmark %q: %v", args[:14], err)
	}
	lines := strings.Split(strings.TrimSpace(string(out)), "\n")
	fields := strings.Split(lines[len(lines)-1], ",")
	rate, err := strconv.ParseFloat(strings.Trim(fields[1], `"`), 64)
	if err != nil {
		b.Fatalf("redis-benchmark says %q", out)
	}
	return rate
}

// load is the load of a case in sequential mode, for either server.
func (s *database) load(c zdbCase, keys int, mode string) load {
	l := load{network: "tcp", address: "127.0.0.1:" + strconv.Itoa(s.port), clients: zdbClients, pipeline: c.pipeline, requests: c.requests()}
	if c.network == "unix" {
		l.network, l.address = "unix", s.socket
	}
	// Each load has its own values, because zdb doesn't write a value that is unchanged.
	s.loads++
	value := fmt.Appendf(nil, "%08d", s.loads)
	value = append(value, bytes.Repeat([]byte("v"), c.value-len(value))...)
	set, get := []byte("SET"), []byte("GET")
	var key []byte
	name := func(n int) []byte {
		if mode == "seq" {
			key = binary.LittleEndian.AppendUint64(key[:0], uint64(n))
		} else {
			key = fmt.Appendf(key[:0], "key:%012d", n)
		}
		return key
	}
	l.ask = func(dst []byte) []byte {
		switch {
		case c.op == "GET":
			return bulk(dst, get, name(rand.IntN(keys)))
		case mode == "seq":
			return bulk(dst, set, nil, value)
		default:
			s.next++
			return bulk(dst, set, name(s.next), value)
		}
	}
	if c.op == "GET" {
		l.wants = c.value + len(strconv.Itoa(c.value)) + 5
	}
	return l
}

// fill writes all keys.
func (s *database) fill(b *testing.B, mode string, keys, value int) {
	b.Helper()
	s.next = -1
	l := s.load(zdbCase{network: "unix", value: value, pipeline: 64, op: "SET"}, keys, mode)
	l.requests = keys
	l.run(b)
}

// BenchmarkZDBMemory is the memory of zdb with a million keys of 16 bytes, whose values have 100. 0-db
// has 237 MiB (of 2020) and 252 MiB (2.0.7) then, 1.7 and 1.9 MiB in sequential mode.
func BenchmarkZDBMemory(b *testing.B) {
	const keys, value, mebi = 1_000_000, 100, 1 << 20
	for b.Loop() {
		for _, mode := range []string{"user", "seq"} {
			zdb := startZDB(b, b.TempDir(), mode)
			empty := zdb.resident(b)
			zdb.fill(b, mode, keys, value)
			filled := zdb.resident(b)
			zdb.end()
			figure := fmt.Sprintf("%.1f MiB (%.1f when empty)", filled/mebi, empty/mebi)
			if mode == "user" {
				report(b, "zdb user, memory with 1M keys (VmRSS)", "≤ 118 MiB, half of 0-db's", figure, filled/118/mebi)
			} else {
				report(b, "zdb seq, memory with 1M keys (VmRSS)", "none: 0-db has 1.9 MiB", figure, filled/mebi/1.9)
			}
		}
	}
}

// BenchmarkZDBStart is the time from the start of zdb until it answers, after an orderly end and after
// kill -9 during writes. The budgets are croft's; 0-db needs 2.3 to 4.5 s for a million keys in user
// mode, 0.9 to 1.2 s in sequential mode.
func BenchmarkZDBStart(b *testing.B) {
	const value = 100
	for b.Loop() {
		for _, c := range []struct {
			mode   string
			keys   int
			budget float64
		}{{"user", 1_000_000, 1}, {"seq", 1_000_000, 1}, {"user", 10_000_000, 5}, {"seq", 10_000_000, 5}} {
			data := b.TempDir()
			zdb := startZDB(b, data, c.mode)
			zdb.fill(b, c.mode, c.keys, value)
			name := fmt.Sprintf("zdb %s, start with %dM keys", c.mode, c.keys/1_000_000)
			for _, how := range []struct {
				text   string
				signal syscall.Signal
			}{{"", syscall.SIGTERM}, {", after kill -9", syscall.SIGKILL}} {
				var took []float64
				for range 3 {
					zdb.fill(b, c.mode, 10_000, value)
					_ = zdb.cmd.Process.Signal(how.signal)
					_ = zdb.cmd.Wait()
					began := time.Now()
					zdb.again(b)
					took = append(took, time.Since(began).Seconds())
				}
				report(b, name+how.text, fmt.Sprintf("≤ %.0f s", c.budget), fmt.Sprintf("%.2f s", middleOf(took)), middleOf(took)/c.budget)
			}
			zdb.end()
			if err := os.RemoveAll(data); err != nil {
				b.Fatal(err)
			}
		}
	}
}

// zdbBinary builds zdb as it is shipped.
func zdbBinary(b *testing.B) string {
	b.Helper()
	path := b.TempDir() + "/zdb"
	build := exec.CommandContext(b.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", path, "../cmd/zdb")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		b.Fatalf("%v: %s", err, out)
	}
	return path
}
