package bus_test

import (
	"bytes"
	"strings"
	"testing"
	"time"

	"github.com/threefoldtech/zbus"
	"github.com/vmihailenco/msgpack"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

func TestOnlyReplyKeysOfTheAgreedFormAreAnswered(t *testing.T) {
	w := redisWorld(t)
	impl, s := w.serve()
	for _, key := range []string{"storage.storage@0.1.0", "", "works.object@1.0", "{" + someUUID + "}", strings.ReplaceAll(someUUID, "-", ""), "urn:uuid:" + someUUID, someUUID + "\x00"} {
		req, err := zbus.NewRequest("x", key, object(), "Slow", int64(0))
		if err != nil {
			t.Fatal(err)
		}
		frame, err := req.Encode()
		if err != nil {
			t.Fatal(err)
		}
		before := s.Stats().Refused
		w.redis.do("RPUSH", queueKey, frame)
		eventually(t, 5*time.Second, "the request is refused", func() bool { return s.Stats().Refused == before+1 })
		if key != "" && w.redis.length(key) != 0 {
			t.Errorf("a reply landed in %q", key)
		}
	}
	if n, _ := impl.Ran("slow"); n != 0 {
		t.Errorf("%d requests were run whose answer nobody may get", n)
	}
	req, err := zbus.NewRequest("x", someUUID, object(), "Echo", "hi")
	if err != nil {
		t.Fatal(err)
	}
	if rep := w.raw(t, req); rep == nil || rep.ID != "x" || rep.Error != nil {
		t.Errorf("a request with a proper reply key got %+v", rep)
	}
}

func TestReplyWithAnotherIDIsNotTaken(t *testing.T) {
	w := redisWorld(t)
	c := w.client()
	got := make(chan error, 1)
	value := make(chan string, 1)
	go func() {
		v, err := call[string](timeout(t, 5*time.Second), c, "Echo", "mine")
		value <- v
		got <- err
	}()
	req := w.redis.takeRequest()
	for _, id := range []string{someUUID, "", req.ID} {
		data, err := msgpack.Marshal("for " + id)
		if err != nil {
			t.Fatal(err)
		}
		frame, err := zbus.NewResponse(id, zbus.Output{Data: data}, "").Encode()
		if err != nil {
			t.Fatal(err)
		}
		w.redis.do("RPUSH", req.ReplyTo, frame)
	}
	if v := <-value; v != "for "+req.ID {
		t.Errorf("got the reply %q", v)
	}
	if err := <-got; err != nil {
		t.Error(err)
	}
	if n := c.Stats().StrayReplies; n != 2 {
		t.Errorf("%d stray replies were counted, want 2", n)
	}
}

func TestGarbageReplyIsAnError(t *testing.T) {
	w := redisWorld(t)
	c := w.client()
	for _, test := range []struct {
		name    string
		garbage func(id string) []byte
		// ends is how long the call may take; early is whether its error comes before: it is known whose reply the garbage is.
		ends  time.Duration
		early bool
	}{
		{"an ID, then garbage", func(id string) []byte { return append([]byte("\x83\xa2ID\xd9\x24"+id), 0xc1) }, time.Minute, true},
		{"an ID, then too deep", func(id string) []byte {
			return append([]byte("\x82\xa2ID\xd9\x24"+id+"\xa6Output"), bytes.Repeat([]byte{0x91}, 1<<20)...)
		}, time.Minute, true},
		{"nothing but garbage", func(string) []byte { return []byte("hello") }, 700 * time.Millisecond, false},
		{"nothing", func(string) []byte { return nil }, 700 * time.Millisecond, false},
	} {
		got := make(chan error, 1)
		start := time.Now()
		go func() {
			_, err := call[string](timeout(t, test.ends), c, "Echo", "x")
			got <- err
		}()
		req := w.redis.takeRequest()
		w.redis.do("RPUSH", req.ReplyTo, test.garbage(req.ID))
		wantKind(t, <-got, node.Unknown)
		if took := time.Since(start); (took < test.ends) != test.early {
			t.Errorf("%s: the error of a call of %s came after %s", test.name, test.ends, took)
		}
	}
	if n := c.Stats().UnreadableReplies; n != 4 {
		t.Errorf("%d unreadable replies were counted", n)
	}
}

// Any one of these frames kills a process that uses the bare library.
func TestHostileFramesAreHarmless(t *testing.T) {
	everyWorld(t, func(t *testing.T, w *world) {
		_, s := w.serve()
		deep := bytes.Repeat([]byte{0x91}, 3<<20)
		req := &zbus.Request{ID: "x", Inputs: zbus.Tuple{deep}, Object: object(), ReplyTo: someUUID, Method: "Send"}
		inArgument, err := req.Encode()
		if err != nil {
			t.Fatal(err)
		}
		raw := w.dialRaw(t)
		for _, frame := range [][]byte{
			deep,
			append([]byte("\x81\xa6Inputs"), deep...),
			{0xdf, 0xff, 0xff, 0xff, 0xff},
			{0xc6, 0xff, 0xff, 0xff, 0xff},
			append([]byte{0xdd, 0, 0x30, 0, 0}, bytes.Repeat([]byte{0xc0}, 3<<20)...),
			[]byte("not a frame"), {}, {0xc1}, {0xc0}, {0x90},
		} {
			if _, err := raw.Do("RPUSH", queueKey, frame); err != nil {
				t.Fatal(err)
			}
		}
		eventually(t, 10*time.Second, "ten frames are refused", func() bool { return s.Stats().Refused == 10 })
		if _, err := raw.Do("RPUSH", queueKey, inArgument); err != nil {
			t.Fatal(err)
		}
		if got, err := call[string](timeout(t, 5*time.Second), w.client(), "Echo", "alive"); err != nil || got != "alive" {
			t.Errorf("after hostile frames: %q, %v", got, err)
		}
	})
}

func TestFrameBeyondTheLimitIsNotRead(t *testing.T) {
	w := redisWorld(t)
	w.serve()
	w.redis.do("RPUSH", queueKey, make([]byte, 20<<20))
	if got, err := call[string](timeout(t, 10*time.Second), w.client(), "Echo", "alive"); err != nil || got != "alive" {
		t.Errorf("after a frame of 20 MiB: %q, %v", got, err)
	}
	if log := w.logs.String(); !strings.Contains(log, "cannot read a reply of more than") {
		t.Errorf("the log doesn't say so: %s", log)
	}
}

func TestUndecodableEventIsSkippedAndCounted(t *testing.T) {
	w := redisWorld(t)
	c := w.client()
	events, _ := stream(t, c, "Ticks")
	good, err := msgpack.Marshal(tick{7})
	if err != nil {
		t.Fatal(err)
	}
	for _, frame := range [][]byte{{0xc1}, bytes.Repeat([]byte{0x91}, 1<<20), {}, []byte("zbus says hello"), good} {
		w.redis.do("PUBLISH", queueKey+".Ticks", frame)
	}
	if n := nextTick(t, events, 5*time.Second); n != 7 {
		t.Errorf("got %d", n)
	}
	if n := c.Stats().SkippedEvents; n != 4 {
		t.Errorf("%d events were counted as skipped, want 4", n)
	}
}

func TestEventThatCannotBeEncodedIsSkipped(t *testing.T) {
	noLeaks(t)
	b := bus.NewInProcess()
	defer b.Close()
	s, err := bus.NewServer(b, module, bus.Options{})
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register[mixed](s, object(), mixes{}); err != nil {
		t.Fatal(err)
	}
	c := bus.NewClient(b, bus.Options{})
	defer c.Close()
	events, _ := stream(t, c, "Mixed")
	background(t, s.Run)
	var v map[string]int
	if err := (<-events).Unmarshal(&v); err != nil || v["n"] != 1 {
		t.Errorf("got %v, %v", v, err)
	}
	eventually(t, time.Second, "one event is counted as lost", func() bool { return s.Stats().Lost >= 1 })
}
