package zdb_test

import (
	"fmt"
	"math/rand/v2"
	"os/exec"
	"strings"
	"sync"
	"testing"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/zdb"
)

// Fifty clients in five namespaces set and get their own keys, send many
// commands at once, and go away in the midst of it. Acknowledged writes stay.
func TestManyClients(t *testing.T) {
	w := serve(t, zdb.Config{})
	admin := w.dial(t)
	const spaces, clients, rounds = 5, 50, 40
	for n := range spaces {
		if _, err := admin.Do("NSNEW", fmt.Sprint("space", n)); err != nil {
			t.Fatal(err)
		}
	}
	acknowledged := make([]map[string]string, clients)
	var crowd sync.WaitGroup
	for n := range clients {
		crowd.Go(func() { acknowledged[n] = one(t, w, n, fmt.Sprint("space", n%spaces), rounds) })
	}
	// Meanwhile namespaces come and go.
	crowd.Go(func() {
		c := w.dial(t)
		for n := range rounds {
			name := fmt.Sprint("short", n)
			for _, command := range []string{"NSNEW", "NSINFO", "NSDEL"} {
				if _, err := c.Do(command, name); err != nil {
					t.Error(err)
				}
			}
		}
	})
	crowd.Wait()
	total := 0
	for n, keys := range acknowledged {
		c := w.dial(t)
		if _, err := c.Do("SELECT", fmt.Sprint("space", n%spaces)); err != nil {
			t.Fatal(err)
		}
		for key, want := range keys {
			got, err := redis.String(c.Do("GET", key))
			if err != nil || got != want {
				t.Errorf("client %d: GET %s: %q, %v, want %q", n, key, got, err, want)
			}
			total++
		}
	}
	if total < clients*rounds {
		t.Errorf("only %d keys were acknowledged", total)
	}
}

// one is a client of the crowd: it returns the entries that it knows to be stored.
func one(t *testing.T, w *served, n int, space string, rounds int) map[string]string {
	known := map[string]string{}
	random := rand.New(rand.NewPCG(uint64(n), 1))
	connect := func() redis.Conn {
		c, err := redis.Dial("tcp", w.address, redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
		if err == nil {
			_, err = c.Do("SELECT", space)
		}
		if err != nil {
			t.Error(err)
		}
		return c
	}
	c := connect()
	defer func() { _ = c.Close() }()
	for round := range rounds {
		keys := make([]string, 1+random.IntN(20))
		for i := range keys {
			keys[i] = fmt.Sprintf("client %d key %d", n, random.IntN(50))
			value := fmt.Sprintf("%d %d %s", round, i, strings.Repeat("x", random.IntN(3000)))
			if err := c.Send("SET", keys[i], value); err != nil {
				t.Error(err)
			}
			known[keys[i]] = value
		}
		if round%7 == 3 { // gone with its replies unread: these keys have what they have
			_ = c.Flush()
			_ = c.Close()
			for _, key := range keys {
				delete(known, key)
			}
			c = connect()
			for _, key := range keys {
				if _, err := c.Do("DEL", key); err != nil && err.Error() != "Key not found" {
					t.Error(err)
				}
			}
			continue
		}
		replies, err := redis.Values(c.Do(""))
		if err != nil || len(replies) != len(keys) {
			t.Errorf("client %d: %d replies to %d commands: %v", n, len(replies), len(keys), err)
			return known
		}
		for i, key := range keys {
			if got, _ := redis.String(replies[i], nil); got != key {
				t.Errorf("client %d: SET %s answers %q", n, key, got)
			}
		}
		key := keys[random.IntN(len(keys))]
		if got, err := redis.String(c.Do("GET", key)); err != nil || got != known[key] {
			t.Errorf("client %d: GET %s: %.40q, %v, want %.40q", n, key, got, err, known[key])
		}
	}
	return known
}

// redis-cli asks for COMMAND and HELLO when it connects; it goes on without.
func TestRedisCli(t *testing.T) {
	w := serve(t, zdb.Config{})
	host, port, _ := strings.Cut(w.address, ":")
	for _, c := range []struct{ args, stdin, want string }{
		{"SET key value", "", "key\n"},
		{"GET key", "", "value\n"},
		{"", "PING\nSET other thing\nGET other\nNSLIST\n", "PONG\nother\nthing\ndefault\n"},
		{"-3 GET key", "", "value\n"},
		{"CONFIG GET save", "", "Command not supported\n\n"},
	} {
		args := append([]string{"-h", host, "-p", port}, strings.Fields(c.args)...)
		cmd := exec.CommandContext(t.Context(), "redis-cli", args...)
		cmd.Stdin = strings.NewReader(c.stdin)
		out, err := cmd.CombinedOutput()
		if err != nil || !strings.HasSuffix(string(out), c.want) {
			t.Errorf("redis-cli %s: %q, %v, want %q", c.args, out, err, c.want)
		}
	}
}
