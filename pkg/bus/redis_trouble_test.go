package bus_test

import (
	"context"
	"errors"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
)

func TestFrozenRedisHoldsNobody(t *testing.T) {
	w := redisWorld(t)
	impl := newWorker()
	s := w.server(impl)
	stop := background(t, s.Run)
	c := w.client()
	if _, err := call[string](timeout(t, time.Minute), c, "Echo", "warm"); err != nil {
		t.Fatal(err)
	}
	events, cancel := stream(t, c, "Ticks")
	nextTick(t, events, time.Minute)

	w.redis.freeze()
	onTime(t, 200*time.Millisecond, "a call with redis frozen", func(ctx context.Context) {
		_, err := call[string](ctx, c, "Echo", "x")
		if k := node.KindOf(err); err == nil || (k != node.Unknown && k != node.Transient) || !errors.Is(err, context.DeadlineExceeded) {
			t.Errorf("the error is %v of kind %s", err, k)
		}
	})
	big := strings.Repeat("x", 3<<20)
	onTime(t, 200*time.Millisecond, "a large call with redis frozen", func(ctx context.Context) {
		_, err := call[string](ctx, c, "Echo", big)
		wantKind(t, err, node.Transient)
	})
	within(t, slack, "a new stream of 200 ms with redis frozen", func() {
		if _, err := w.client0(t, 200*time.Millisecond); err == nil {
			t.Error("a client connected to a frozen redis")
		}
	})
	within(t, slack, "cancelling a stream with redis frozen", func() {
		cancel()
		for range events {
		}
	})
	within(t, slack, "stopping the server with redis frozen", stop)

	w.redis.thaw()
	background(t, s.Run)
	eventually(t, time.Minute, "calls work again", func() bool {
		_, err := call[string](timeout(t, time.Second), c, "Echo", "x")
		return err == nil
	})
	events, _ = stream(t, c, "Ticks")
	nextTick(t, events, time.Minute)
}

func TestRedisKilledAndStartedAgain(t *testing.T) {
	w := redisWorld(t)
	_, s := w.serve()
	c := w.client()
	ticks, _ := stream(t, c, "Ticks")
	quiet, _ := stream(t, c, "Quiet")
	nextTick(t, ticks, time.Minute)

	w.redis.kill()
	within(t, slack, "a call with redis gone", func() {
		_, err := call[string](timeout(t, time.Minute), c, "Echo", "x")
		wantKind(t, err, node.Transient)
	})
	within(t, slack, "a stream with redis gone", func() {
		_, err := c.Stream(timeout(t, 200*time.Millisecond), module, object(), "Burst")
		wantKind(t, err, node.Transient)
	})
	drain(ticks)
	w.redis.start()

	eventually(t, time.Minute, "calls work again", func() bool {
		_, err := call[string](timeout(t, time.Second), c, "Echo", "x")
		return err == nil
	})
	nextTick(t, ticks, time.Minute)
	resumed := map[string]bool{}
	for range 2 {
		select {
		case channel := <-w.resumed:
			resumed[channel] = true
		case <-time.After(time.Minute):
			t.Fatalf("only %v resumed", resumed)
		}
	}
	if !resumed[queueKey+".Ticks"] || !resumed[queueKey+".Quiet"] || c.Stats().Resumed != 2 {
		t.Errorf("resumed %v, counted %d", resumed, c.Stats().Resumed)
	}
	if log := w.logs.String(); !strings.Contains(log, "a stream goes on") || strings.Count(log, "cannot take requests") > 2 {
		t.Errorf("the log: %s", log)
	}
	if len(quiet) != 0 || s.Stats().Panicked != 0 {
		t.Error("something came on the quiet stream")
	}
}

func TestCallInFlightWhenRedisDies(t *testing.T) {
	w := redisWorld(t)
	impl, _ := w.serve()
	c := w.client()
	got := make(chan error, 1)
	go func() {
		_, err := call[string](timeout(t, 600*time.Millisecond), c, "Slow", int64(200))
		got <- err
	}()
	eventually(t, time.Minute, "the call runs", func() bool { n, _ := impl.Ran("slow"); return n == 1 })
	w.redis.kill()
	wantKind(t, <-got, node.Unknown)
	w.redis.start()
	eventually(t, time.Minute, "calls work again", func() bool {
		_, err := call[string](timeout(t, time.Second), c, "Echo", "x")
		return err == nil
	})
}

// A server that dies in the middle of a call takes the request with it.
func TestRequestLostWithItsServer(t *testing.T) {
	w := redisWorld(t)
	c := w.client()
	got := make(chan error, 1)
	start := time.Now()
	go func() {
		_, err := call[string](timeout(t, 300*time.Millisecond), c, "Echo", "x")
		got <- err
	}()
	w.redis.takeRequest()
	err := <-got
	wantKind(t, err, node.Unknown)
	if took := time.Since(start); took > slack || node.KindOf(err).Final() {
		t.Errorf("after %s: %v", took, err)
	}
	if n := w.redis.length(queueKey); n != 0 {
		t.Errorf("%d requests are left", n)
	}
}

func TestQueuesAndRepliesDoNotStayForEver(t *testing.T) {
	w := redisWorld(t)
	c := w.client()
	_, err := call[string](timeout(t, 50*time.Millisecond), c, "Echo", "nobody")
	wantKind(t, err, node.Unknown)
	if ttl := w.redis.do("TTL", queueKey).(int64); ttl < 290 || ttl > 300 {
		t.Errorf("a queue without a server lives for %d s", ttl)
	}
	w.redis.do("DEL", queueKey)

	impl, s := w.serve()
	_, err = call[string](timeout(t, 100*time.Millisecond), c, "Slow", int64(300))
	wantKind(t, err, node.Unknown)
	eventually(t, time.Minute, "the late reply is dropped", func() bool { return s.Stats().Lost == 1 })
	if n, _ := impl.Ran("slow"); n != 1 {
		t.Errorf("it ran %d times", n)
	}
	for _, key := range must(redis.Strings(w.redis.do("KEYS", "*"), nil)) {
		if ttl := w.redis.do("TTL", key).(int64); ttl == -1 {
			t.Errorf("%s stays for ever", key)
		}
	}
}

func must[T any](v T, err error) T {
	if err != nil {
		panic(err)
	}
	return v
}

func TestConnectionsAreKept(t *testing.T) {
	w := redisWorld(t)
	w.serve()
	c := w.client()
	if _, err := call[string](timeout(t, time.Minute), c, "Echo", "warm"); err != nil {
		t.Fatal(err)
	}
	received := func() int {
		info := must(redis.String(w.redis.do("INFO", "stats"), nil))
		_, rest, _ := strings.Cut(info, "total_connections_received:")
		n := 0
		for _, d := range rest {
			if d < '0' || d > '9' {
				break
			}
			n = 10*n + int(d-'0')
		}
		return n
	}
	before := received()
	for range 200 {
		if _, err := call[string](timeout(t, time.Minute), c, "Echo", "x"); err != nil {
			t.Fatal(err)
		}
	}
	// The query itself makes one; a connection for each call would be 200. Beside a load there were 4.
	if n := received() - before; n > 20 {
		t.Errorf("200 calls made %d connections", n)
	}
}

// Requests that wait while all workers are busy stay in redis, where another
// process can take them.
func TestServerTakesNoMoreThanItCanDo(t *testing.T) {
	w := redisWorld(t)
	impl, _ := w.serve()
	c := w.client()
	for range 6 {
		go func() { _, _ = call[string](timeout(t, 5*time.Second), c, "Slow", int64(400)) }()
	}
	eventually(t, time.Minute, "four run and two wait", func() bool {
		n, _ := impl.Ran("slow")
		return n == 4 && w.redis.length(queueKey) == 2
	})
	eventually(t, time.Minute, "all have run", func() bool { n, _ := impl.Ran("slow"); return n == 6 })
}

// No request may be lost between a server that stops and the next.
func TestNoRequestIsLostWhenServersTakeTurns(t *testing.T) {
	w := redisWorld(t)
	s := w.server(newWorker())
	c := w.client()
	var turns atomic.Int64
	stop := background(t, func(ctx context.Context) error {
		for ctx.Err() == nil {
			turn, end := context.WithTimeout(ctx, 5*time.Millisecond)
			err := s.Run(turn)
			end()
			if err != nil {
				return err
			}
			turns.Add(1)
		}
		return nil
	})
	for i := range 300 {
		if _, err := call[string](timeout(t, time.Minute), c, "Echo", "x"); err != nil {
			t.Fatalf("call %d, after %d turns, %d wait: %v; %+v", i, turns.Load(), w.redis.length(queueKey), err, s.Stats())
		}
	}
	stop()
	if n := turns.Load(); n < 5 {
		t.Errorf("only %d turns were taken", n)
	}
}
