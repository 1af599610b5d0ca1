package zdb_test

import (
	"context"
	"errors"
	"net"
	"os"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/zdb"
	"github.com/croft-edge/croft/zdb/loop"
)

// served is a server with its loop, on a port of its own.
type served struct {
	cfg     zdb.Config
	address string
	admin   string // address of the admin's listener, "" for none

	srv     *zdb.Server
	loop    *loop.Loop
	cancel  context.CancelFunc
	done    chan error
	stopped chan struct{} // by STOP
}

// start serves cfg until the test ends, or stop.
func (s *served) start(t *testing.T) string {
	t.Helper()
	s.stopped = make(chan struct{}, 1)
	cfg := s.cfg
	cfg.Stop = func() { s.stopped <- struct{}{} }
	var err error
	if s.srv, err = zdb.New(cfg); err != nil {
		t.Fatal(err)
	}
	if s.loop, err = loop.New(loop.Config{Handler: s.srv, Log: cfg.Log, MaxArguments: zdb.Arguments(cfg.Compat)}); err != nil {
		t.Fatal(err)
	}
	s.srv.Attach(s.loop)
	s.address = s.listen(t, s.address, false)
	if cfg.AdminSocket {
		s.admin = s.listen(t, s.admin, true)
	}
	ctx, cancel := context.WithCancel(t.Context())
	s.cancel, s.done = cancel, make(chan error, 1)
	run := s.loop.Run
	go func() { s.done <- run(ctx) }()
	t.Cleanup(func() { s.stop(t) })
	return s.address
}

// listen hands a socket to the loop: the one of before, when there was one.
func (s *served) listen(t *testing.T, address string, admin bool) string {
	t.Helper()
	if address == "" {
		address = "127.0.0.1:0"
	}
	l, err := net.Listen("tcp", address)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	file, err := l.(*net.TCPListener).File()
	if err == nil {
		err = s.loop.Listen(file, admin)
	}
	if err != nil {
		t.Fatal(err)
	}
	return l.Addr().String()
}

// stop ends it in good order.
func (s *served) stop(t *testing.T) {
	t.Helper()
	if s.srv == nil {
		return
	}
	s.cancel()
	if err := <-s.done; err != nil && !errors.Is(err, context.Canceled) {
		t.Error(err)
	}
	if err := s.srv.Close(); err != nil {
		t.Error(err)
	}
	s.srv = nil
}

func (s *served) ended(t *testing.T) {
	t.Helper()
	select {
	case <-s.stopped:
	case <-time.After(patience):
		t.Error("STOP doesn't stop the server")
	}
}

// configOf is the config of a suite's arguments.
func configOf(t *testing.T, s suite, version string) zdb.Config {
	t.Helper()
	cfg := zdb.Config{Data: "data", Index: "index", Compat: zdb.CompatV2, Version: "v2.0.7", Debug: s.Build == "debug", Log: logTo(t)}
	if version == "v1-2020-03" {
		cfg.Compat = zdb.CompatV1
	}
	for i := 0; i < len(s.Args); i++ {
		value := func() string { i++; return s.Args[i] }
		size := func() uint64 {
			n, err := strconv.ParseUint(value(), 10, 64)
			if err != nil {
				t.Fatal(err)
			}
			return n
		}
		switch s.Args[i] {
		case "--mode":
			cfg.Mode = value()
		case "--datasize":
			cfg.DataSize = size()
		case "--maxsize":
			cfg.MaxSize = size()
		case "--admin":
			cfg.Admin = value()
		case "--protect":
			cfg.Protect = true
		case "--hook":
			cfg.Hook = value()
		default:
			t.Fatalf("argument %s isn't known", s.Args[i])
		}
	}
	return cfg
}

// logTo shows the server's log when the test fails.
func logTo(t *testing.T) zerolog.Logger {
	if os.Getenv("ZDB_LOG") == "" {
		return zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	}
	return zerolog.New(os.Stderr)
}

// totals are what becomes of the steps of each version, so that none is passed
// over.
var totals = map[string]tally{
	"v2.0.7":     {exact: 583, volatile: 38, notImitated: 12, deviating: 13},
	"v1-2020-03": {exact: 492, volatile: 26, notImitated: 12, deviating: 14},
}

// Every step of the recorded transcripts is played, and each is compared.
func TestTranscripts(t *testing.T) {
	for version, want := range totals {
		all := play(t, version, func(t *testing.T, s suite, version string) running {
			return &served{cfg: configOf(t, s, version)}
		})
		if all != want {
			t.Errorf("%s: %v, want %v", version, all, want)
		}
	}
}

// serve serves cfg, in a new folder where it names none, until the test ends.
func serve(t *testing.T, cfg zdb.Config) *served {
	t.Helper()
	if cfg.Data == "" {
		cfg.Data = t.TempDir()
	}
	s := &served{cfg: cfg}
	s.start(t)
	return s
}

// dial is a client over TCP.
func (s *served) dial(t *testing.T) redis.Conn { return s.dialTo(t, s.address) }

func (s *served) dialTo(t *testing.T, address string) redis.Conn {
	t.Helper()
	c, err := redis.Dial("tcp", address, redis.DialConnectTimeout(patience), redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = c.Close() })
	return c
}
