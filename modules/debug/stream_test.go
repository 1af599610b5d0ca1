package debug

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/node"
)

func TestLinesReachARedisServer(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	w.begin(specOf("1-1", s))
	w.begin(specOf("2-1", s))
	one, two := s.subscribe("logs-1-1"), s.subscribe("logs-2-1")
	w.log.Info().Str("id", "7-1").Msg("hello")
	w.log.Warn().Str("password", "opensesame").Str("bus", "redis://:opensesame@h").Msg("password=opensesame")
	w.log.Info().Msg("long " + strings.Repeat("x", 2*maxLine))
	for _, r := range []*reader{one, two} {
		until(t, "three lines are there", func() bool { return len(r.all()) == 3 })
		lines := r.all()
		var first map[string]any
		if err := json.Unmarshal([]byte(lines[0]), &first); err != nil || first["message"] != "hello" || first["id"] != "7-1" || first["time"] == nil {
			t.Errorf("the first line is %s, %v", lines[0], err)
		}
		if r.has("opensesame") {
			t.Errorf("a secret has left: %s", lines[1])
		}
		if len(lines[2]) != maxLine || !strings.HasSuffix(lines[2], cutMark) {
			t.Errorf("a long line has %d bytes", len(lines[2]))
		}
	}
	until(t, "they are counted", func() bool { return w.one("1-1").Sent == 3 })
	if i := w.one("1-1"); !i.Connected || i.Dropped != 0 || i.LastError != "" || i.User != "U" || i.Port != s.port || i.Channel != "logs-1-1" {
		t.Errorf("%+v", i)
	}
	if err := w.Stop("1-1"); err != nil {
		t.Fatal(err)
	}
	w.log.Info().Msg("later")
	until(t, "the other stream goes on", func() bool { return two.has("later") })
	if one.has("later") {
		t.Error("a stream that was stopped goes on")
	}
}

func TestRedisServerComesBack(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	w.begin(specOf("1-1", s))
	w.connected("1-1")
	s.kill()
	quick(t, "logging into nothing", func() {
		for i := range maxQueued + 500 {
			w.log.Info().Int("n", i).Msg("lost?")
		}
	})
	until(t, "it says that it isn't connected", func() bool {
		i := w.one("1-1")
		return !i.Connected && strings.Contains(i.LastError, "connection refused")
	})
	dropped := w.one("1-1").Dropped
	if dropped < 500 || dropped > maxQueued+500 {
		t.Errorf("%d lines were dropped", dropped)
	}
	s.start()
	r := s.subscribe("logs-1-1")
	w.connected("1-1")
	w.log.Info().Msg("again")
	until(t, "it resumes", func() bool { return r.has("again") })
	w.log.Info().Msg("the end")
	until(t, "all is there", func() bool { return r.has("the end") })
	i := w.one("1-1")
	if i.LastError != "" || i.Dropped < dropped {
		t.Errorf("%+v", i)
	}
	if n := strings.Count(w.own.String(), "tried again"); n != 1 {
		t.Errorf("the node's log was told %d times:\n%s", n, w.own)
	}
	if strings.Count(w.own.String(), "goes on") != 1 {
		t.Errorf("the node's log doesn't say once that it goes on:\n%s", w.own)
	}
}

// A log line about dropped lines (a slow server) doesn't suppress one about a failed connection.
func TestDropLogDoesNotSuppressOutageLog(t *testing.T) {
	var log strings.Builder
	s := newStream(t.Context(), node.DebugSpec{ID: "1-1"}, Config{Log: zerolog.New(&log)})
	s.outages.dropped(1)
	s.fail(errors.New("connection refused"))
	s.outages.dropped(1)
	s.fail(errors.New("connection refused"))
	if text := log.String(); strings.Count(text, "were dropped") != 1 || strings.Count(text, "tried again") != 1 {
		t.Errorf("the log is:\n%s", text)
	}
}

// The notice is published where lines are missing, and has their number.
func TestDroppedLinesNotice(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	r := s.subscribe("logs-1-1")
	s.signal(unix.SIGSTOP)
	w.begin(specOf("1-1", s))
	const all = maxQueued + 300
	for i := range all {
		w.log.Info().Int("n", i).Msg("x")
	}
	if i := w.one("1-1"); i.Connected || i.Sent != 0 || i.Dropped != 300 {
		t.Errorf("frozen: %+v", i)
	}
	s.signal(unix.SIGCONT)
	until(t, "the last line is there", func() bool { return r.has(fmt.Sprintf(`"n":%d`, all-1)) })
	lines := r.all()
	var notice struct {
		Dropped uint64
		Message string
	}
	if err := json.Unmarshal([]byte(lines[0]), &notice); err != nil || notice.Dropped != 300 || notice.Message != "croft: 300 lines were dropped" {
		t.Fatalf("the first line is %s, %v", lines[0], err)
	}
	if !strings.Contains(lines[1], `"n":300`) || len(lines) != maxQueued+1 {
		t.Errorf("after it comes %s, of %d lines", lines[1], len(lines))
	}
}

func TestFrozenRedisServerBlocksNobody(t *testing.T) {
	s := newServer(t)
	w, hasty := newWorldWithin(t, patient, loopback), newWorld(t, loopback)
	w.begin(specOf("1-1", s))
	w.connected("1-1")
	hasty.begin(specOf("1-1", s))
	hasty.connected("1-1")
	s.signal(unix.SIGSTOP)
	big := strings.Repeat("x", 8<<10)
	for range 2000 {
		w.log.Info().Msg(big)
	}
	quick(t, "a line", func() { w.log.Info().Msg(big) })
	quick(t, "List", func() { w.one("1-1") })
	hasty.log.Info().Msg(big)
	until(t, "it says what is wrong", func() bool { return strings.Contains(hasty.one("1-1").LastError, "timeout") })
	quick(t, "a second stream", func() { w.begin(specOf("2-1", s)) })
	quick(t, "Stop", func() {
		if err := w.Stop("1-1"); err != nil {
			t.Error(err)
		}
	})
	quick(t, "Close", w.Close)
}

// A batch of long lines takes a second to scrub.
func TestStopDoesNotWaitForABatch(t *testing.T) {
	s := newStream(t.Context(), node.DebugSpec{ID: "1-1"}, Config{})
	cleaned := 0
	for range 3 {
		s.queue.offer(&line{raw: "a line", clean: func() string {
			cleaned++
			s.end()
			return ""
		}})
	}
	if err := s.flush(nil); !errors.Is(err, context.Canceled) || cleaned != 1 {
		t.Errorf("%d lines are scrubbed, %v", cleaned, err)
	}
}

// A failing stream logs, and must not receive its own log lines.
func TestFailingStreamDoesNotFeedItself(t *testing.T) {
	s := newServer(t)
	w := newWorld(t, loopback)
	w.begin(specOf("1-1", s))
	w.connected("1-1")
	s.kill()
	w.log.Info().Msg("the only line")
	until(t, "it has failed", func() bool { return strings.Contains(w.one("1-1").LastError, "refused") })
	until(t, "it has told the node's log", func() bool { return strings.Contains(w.own.String(), "tried again") })
	lines, lost := (*w.now.Load())[0].queue.take(maxBatch)
	if n := len(lines) + int(lost) + int(w.one("1-1").Dropped); n > 1 {
		t.Errorf("of one line came %d: %v", n, lines)
	}
}

func TestNotARedisServer(t *testing.T) {
	for name, c := range map[string]struct{ answer, want string }{
		"a web server":      {"HTTP/1.1 400 Bad Request\r\n\r\n", "isn't a redis server's"},
		"a huge text":       {"$2000000000\r\n", "isn't a redis server's"},
		"a huge list":       {"*2000000000\r\n", "isn't a redis server's"},
		"an endless line":   {"+" + strings.Repeat("x", 1<<16), "longer than 512 bytes"},
		"an error":          {"-NOPERM no \x1b[31m\x00\r\n", "NOPERM no  [31m "},
		"nothing":           {"", "timeout"},
		"one that hangs up": {"\x00", "cannot ping the redis server"},
	} {
		t.Run(name, func(t *testing.T) {
			port := impostor(t, c.answer)
			w := newWorld(t, loopback)
			w.begin(node.DebugSpec{ID: "1-1", Host: "127.0.0.1", Port: port, Channel: "c"})
			until(t, "it says what is wrong", func() bool { return w.one("1-1").LastError != "" })
			if i := w.one("1-1"); i.Connected || !strings.Contains(i.LastError, c.want) {
				t.Errorf("%+v", i)
			}
		})
	}
}

// impostor is a server that sends answer to every client; a zero byte in it means
// that the server closes the connection.
func impostor(t *testing.T, answer string) uint16 {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	var conns []net.Conn
	go func() {
		defer close(done)
		for {
			conn, err := l.Accept()
			if err != nil {
				return
			}
			if answer == "\x00" {
				conn.Close()
				continue
			}
			conns = append(conns, conn)
			_ = conn.SetWriteDeadline(time.Now().Add(5 * time.Second))
			_, _ = conn.Write([]byte(answer))
		}
	}()
	t.Cleanup(func() {
		l.Close()
		<-done
		for _, c := range conns {
			c.Close()
		}
	})
	return uint16(l.Addr().(*net.TCPAddr).Port)
}

func TestRedisServerWithPassword(t *testing.T) {
	s := newServer(t, "--requirepass", "x")
	w := newWorld(t, loopback)
	w.begin(specOf("1-1", s))
	until(t, "it says so", func() bool { return strings.Contains(w.one("1-1").LastError, "NOAUTH") })
}
