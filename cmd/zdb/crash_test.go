package main

import (
	"fmt"
	"os/exec"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// Writes that were acknowledged to clients over TCP survive a kill of the server, or an orderly end, at
// any time.
func TestAcknowledgedIsKept(t *testing.T) {
	zdb := shipped(t)
	for _, c := range []struct {
		name   string
		args   []string
		signal syscall.Signal
	}{
		{"kill -9, user", []string{"--mode", "user"}, syscall.SIGKILL},
		{"kill -9, user, sync", []string{"--mode", "user", "--sync"}, syscall.SIGKILL},
		{"kill -9, seq", []string{"--mode", "seq"}, syscall.SIGKILL},
		{"kill -9, seq, sync", []string{"--mode", "seq", "--sync"}, syscall.SIGKILL},
		{"SIGTERM, user", []string{"--mode", "user"}, syscall.SIGTERM},
		{"SIGTERM, seq", []string{"--mode", "seq"}, syscall.SIGTERM},
	} {
		t.Run(c.name, func(t *testing.T) {
			args := append([]string{"--data", t.TempDir(), "--listen", "127.0.0.1", "--port", "0"}, c.args...)
			known := map[string]string{}
			for round := range 3 {
				p := begin(t, exec.Command(zdb, args...))
				holds(t, p, known)
				writing := write(t, p, round)
				<-time.After(time.Duration(100+200*round) * time.Millisecond)
				state := p.end(c.signal)
				if status := state.Sys().(syscall.WaitStatus); c.signal == syscall.SIGTERM && !state.Success() || c.signal == syscall.SIGKILL && status.Signal() != syscall.SIGKILL {
					t.Errorf("it ended with %v: %s", state, p.errs.String())
				}
				for key, value := range writing() {
					known[key] = value
				}
			}
			p := begin(t, exec.Command(zdb, args...))
			holds(t, p, known)
			p.orderly()
			if len(known) < 500 {
				t.Errorf("only %d writes were acknowledged: that shows little", len(known))
			}
		})
	}
}

// write makes clients write, each with some pipelined requests, until the server is gone. The returned
// func waits for them and returns the acknowledged writes.
func write(t *testing.T, p *process, round int) func() map[string]string {
	t.Helper()
	const clients, pipeline = 8, 10
	acknowledged := make([]map[string]string, clients)
	var all sync.WaitGroup
	for i := range clients {
		conn := p.client()
		acknowledged[i] = map[string]string{}
		all.Go(func() {
			for n := 0; ; n += pipeline {
				var values []string
				for k := range pipeline {
					key := fmt.Sprintf("%d-%d-%d", round, i, n+k)
					value := key + strings.Repeat("v", (n+k)*37%5000)
					values = append(values, value)
					if p.seq() {
						key = ""
					}
					if conn.Send("SET", key, value) != nil {
						return
					}
				}
				if conn.Flush() != nil {
					return
				}
				for _, value := range values {
					key, err := redis.String(conn.Receive())
					if err != nil {
						return
					}
					acknowledged[i][key] = value
				}
			}
		})
	}
	return func() map[string]string {
		all.Wait()
		out := map[string]string{}
		for _, some := range acknowledged {
			for key, value := range some {
				if out[key] != "" {
					t.Errorf("%q was acknowledged to two", key)
				}
				out[key] = value
			}
		}
		return out
	}
}

func (p *process) seq() bool { return strings.Contains(strings.Join(p.cmd.Args, " "), "--mode seq") }

// holds checks that all known keys have their values.
func holds(t *testing.T, p *process, known map[string]string) {
	t.Helper()
	conn := p.client()
	wrong := 0
	for key, want := range known {
		if got, err := redis.String(conn.Do("GET", key)); got != want || err != nil {
			if wrong++; wrong < 5 {
				t.Errorf("%q is %.40q of %d bytes, %v; acknowledged was %.40q of %d", key, got, len(got), err, want, len(want))
			}
		}
	}
	if wrong > 0 {
		t.Fatalf("%d of %d acknowledged values are wrong: %s", wrong, len(known), p.errs.String())
	}
}

// Connected clients don't delay its end.
func TestEndWithClients(t *testing.T) {
	p := launch(t, "--data", t.TempDir())
	c := p.client()
	if _, err := c.Do("PING"); err != nil {
		t.Fatal(err)
	}
	p.orderly()
	if _, err := c.Do("PING"); err == nil {
		t.Error("a client is still served")
	}
}
