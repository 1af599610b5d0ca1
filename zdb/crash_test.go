package zdb_test

import (
	"errors"
	"fmt"
	"maps"
	"math/rand/v2"
	"path/filepath"
	"syscall"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"
)

// world is the expected content: the keys of each namespace.
type world map[string]map[string]string

func (w world) copy() world {
	out := world{}
	for name, keys := range w {
		out[name] = maps.Clone(keys)
	}
	return out
}

func (w world) equal(o world) bool {
	return maps.EqualFunc(w, o, func(a, b map[string]string) bool { return maps.Equal(a, b) })
}

// crasher runs commands that make, fill, empty and remove namespaces, and knows
// what there must be before the last of them, and after it.
type crasher struct {
	t             *testing.T
	random        *rand.Rand
	before, after world
}

// run sends commands until the server is gone, and returns how many were
// answered.
func (c *crasher) run(conn redis.Conn) (answered int) {
	for {
		commands, next := c.next()
		c.after = next
		for _, command := range commands {
			if _, err := conn.Do(command[0].(string), command[1:]...); err != nil {
				var refused redis.Error
				if errors.As(err, &refused) {
					c.t.Errorf("%v: %v", command, err)
				}
				return answered
			}
		}
		c.before = next
		answered++
	}
}

// next chooses commands, of which only the last changes anything, and what there is
// after it.
func (c *crasher) next() ([][]any, world) {
	next := c.before.copy()
	name := fmt.Sprint("space ", c.random.IntN(4))
	keys, there := next[name]
	leave := [][]any{{"SELECT", "default"}}
	enter := [][]any{{"SELECT", name, "pw"}}
	switch {
	case !there:
		next[name] = map[string]string{}
		return append(leave, []any{"NSNEW", name}), next
	case c.random.IntN(12) == 0:
		delete(next, name)
		return append(leave, []any{"NSDEL", name}), next
	case c.random.IntN(8) == 0:
		next[name] = map[string]string{}
		return append([][]any{{"NSSET", name, "password", "pw"}, {"NSSET", name, "public", "0"}}, append(enter, []any{"FLUSH"})...), next
	}
	key, value := fmt.Sprint("key ", c.random.IntN(20)), fmt.Sprint(c.random.Uint64())
	keys[key] = value
	return append(enter, []any{"SET", key, value}), next
}

// now asks the server for all that there is.
func (c *crasher) now(conn redis.Conn) world {
	c.t.Helper()
	names, err := redis.Strings(conn.Do("NSLIST"))
	if err != nil {
		c.t.Fatal(err)
	}
	out := world{}
	for _, name := range names {
		if name == "default" {
			continue
		}
		if _, err := conn.Do("SELECT", name, "pw"); err != nil {
			c.t.Fatal(err)
		}
		out[name] = map[string]string{}
		for n := range 20 {
			key := fmt.Sprint("key ", n)
			value, err := redis.String(conn.Do("GET", key))
			if err == nil {
				out[name][key] = value
			} else if !errors.Is(err, redis.ErrNil) {
				c.t.Fatalf("GET %s in %s: %v", key, name, err)
			}
		}
		if n, err := redis.Int(conn.Do("DBSIZE")); err != nil || n != len(out[name]) {
			c.t.Errorf("DBSIZE of %s: %d, %v, want %d", name, n, err, len(out[name]))
		}
	}
	if _, err := conn.Do("SELECT", "default"); err != nil {
		c.t.Fatal(err)
	}
	return out
}

// Whenever the server is killed: each namespace that was made is there, each that
// was removed or emptied is so, and of the command under way nothing is done by
// half.
func TestKillDuringNamespaceChanges(t *testing.T) {
	program := build(t)
	for _, args := range [][]string{{"--mode", "user"}, {"--mode", "user", "--sync"}} {
		t.Chdir(t.TempDir())
		c := &crasher{t: t, random: rand.New(rand.NewPCG(7, 7)), before: world{}, after: world{}}
		// A busy machine answers few commands in a round: there are more rounds then.
		const leastRounds, mostRounds, leastCommands = 12, 40, 200
		total := 0
		for round := 0; round < leastRounds || total < leastCommands && round < mostRounds; round++ {
			p := &process{program: program, args: args}
			address := p.start(t)
			conn, err := redis.Dial("tcp", address, redis.DialReadTimeout(patience), redis.DialWriteTimeout(patience))
			if err != nil {
				t.Fatal(err)
			}
			got := c.now(conn)
			if !got.equal(c.before) && !got.equal(c.after) {
				t.Fatalf("there is\n%v, must be\n%v, or\n%v", got, c.before, c.after)
			}
			c.before = got
			cmd := p.cmd
			timer := time.AfterFunc(time.Duration(20+c.random.IntN(300))*time.Millisecond, func() { _ = cmd.Process.Signal(syscall.SIGKILL) })
			total += c.run(conn)
			timer.Stop()
			_ = conn.Close()
			<-p.done
			p.cmd = nil
		}
		if total < leastCommands {
			t.Errorf("only %d commands were answered: that shows little", total)
		}
		p := &process{program: program, args: args}
		p.start(t)
		soon(t, "nothing is left of what was removed", func() bool {
			left, _ := filepath.Glob("*/.*")
			generations, _ := filepath.Glob("data/*/[0-9]*")
			return len(left) == 0 && (len(generations) == len(c.before)+1 || len(generations) == len(c.after)+1)
		})
		p.stop(t)
		t.Logf("%v: %d commands were answered", args, total)
	}
}
