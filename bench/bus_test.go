package bench

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"

	"github.com/croft-edge/croft/pkg/bus"
)

const busWorkers = 8

// echo is the smallest useful contract.
type echo interface {
	Echo(text string) (string, error)
}

type echoes struct{}

func (echoes) Echo(text string) (string, error) { return text, nil }

func echoObject() zbus.ObjectID { return bus.Object("echo", "1.0") }

// busCalls is the time per call with conc concurrent callers.
func busCalls(b *testing.B, c zbus.Client, module string, conc, calls int) time.Duration {
	b.Helper()
	var left atomic.Int64
	left.Store(int64(calls))
	ctx, cancel := context.WithTimeout(context.Background(), time.Minute)
	defer cancel()
	start := time.Now()
	var wg sync.WaitGroup
	for range conc {
		wg.Go(func() {
			for left.Add(-1) >= 0 {
				rep, err := c.RequestContext(ctx, module, echoObject(), "Echo", "a text of usual length")
				if err != nil || rep == nil {
					b.Errorf("a call failed: %v, %v", rep, err)
					return
				}
				var text string
				if err := rep.Unmarshal(&zbus.Loader{&text}); err != nil || text == "" {
					b.Errorf("a call returned %q, %v", text, err)
					return
				}
			}
		})
	}
	wg.Wait()
	return time.Since(start) / time.Duration(calls)
}

// serveEcho serves on carrier until the benchmark ends.
func serveEcho(b *testing.B, carrier bus.Bus, module string) {
	b.Helper()
	s, err := bus.NewServer(carrier, module, bus.Options{Workers: busWorkers})
	if err != nil {
		b.Fatal(err)
	}
	if err := bus.Register[echo](s, echoObject(), echoes{}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	done := make(chan error, 1)
	go func() { done <- s.Run(ctx) }()
	b.Cleanup(func() {
		cancel()
		if err := <-done; err != nil {
			b.Error(err)
		}
	})
}

func BenchmarkBusInProcess(b *testing.B) {
	carrier := bus.NewInProcess()
	b.Cleanup(func() { _ = carrier.Close() })
	serveEcho(b, carrier, "ours")
	c := bus.NewClient(carrier, bus.Options{})
	b.Cleanup(func() { _ = c.Close() })
	busCalls(b, c, "ours", 1, 500)
	const budget = 100 * time.Microsecond
	for b.Loop() {
		for _, conc := range []int{1, 8, 32} {
			took := busCalls(b, c, "ours", conc, 10000)
			report(b, fmt.Sprintf("bus call in process, %d at once", conc), "≤ 100µs", took.String(), float64(took)/float64(budget))
		}
	}
}

// BenchmarkBusRedis compares with the bare library's own client and server on the same redis, in turns,
// so that noise affects both.
func BenchmarkBusRedis(b *testing.B) {
	url := redisForBench(b)
	carrier, err := bus.Connect(context.Background(), url, bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = carrier.Close() })
	serveEcho(b, carrier, "ours")
	ours, err := bus.Dial(context.Background(), url, bus.Options{})
	if err != nil {
		b.Fatal(err)
	}
	b.Cleanup(func() { _ = ours.Close() })
	bare := bareEcho(b, url)
	busCalls(b, ours, "ours", 1, 50)
	busCalls(b, bare, "bare", 1, 50)
	for b.Loop() {
		for _, conc := range []int{1, 8, 32} {
			var mine, theirs []time.Duration
			for range 7 {
				theirs = append(theirs, busCalls(b, bare, "bare", conc, 300))
				mine = append(mine, busCalls(b, ours, "ours", conc, 300))
			}
			m, t := median(mine), median(theirs)
			report(b, fmt.Sprintf("bus call over redis, %d at once", conc), fmt.Sprintf("≤ bare zbus (%s)", t.Round(time.Microsecond)),
				m.Round(time.Microsecond).String(), float64(m)/float64(t))
		}
	}
}

func median(d []time.Duration) time.Duration {
	slices.Sort(d)
	return d[len(d)/2]
}

func bareEcho(b *testing.B, url string) zbus.Client {
	b.Helper()
	s, err := zbus.NewRedisServer("bare", url, busWorkers)
	if err != nil {
		b.Fatal(err)
	}
	if err := s.Register(echoObject(), echoes{}); err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	b.Cleanup(cancel)
	go func() { _ = s.Run(ctx) }()
	c, err := zbus.NewRedisClient(url)
	if err != nil {
		b.Fatal(err)
	}
	return c
}

func redisForBench(b *testing.B) string {
	b.Helper()
	dir, err := os.MkdirTemp("", "croft-bench-")
	if err != nil {
		b.Fatal(err)
	}
	socket := filepath.Join(dir, "redis.sock")
	cmd := exec.Command("redis-server", "--port", "0", "--unixsocket", socket, "--save", "", "--appendonly", "no", "--dir", dir)
	if err := cmd.Start(); err != nil {
		b.Fatalf("cannot start redis-server: %v", err)
	}
	b.Cleanup(func() {
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		_ = os.RemoveAll(dir)
	})
	url := "unix://" + socket
	for range 500 {
		if c, err := bus.Dial(context.Background(), url, bus.Options{}); err == nil {
			_ = c.Close()
			return url
		}
		time.Sleep(10 * time.Millisecond)
	}
	b.Fatal("redis-server doesn't answer")
	return ""
}
