package bus_test

import (
	"context"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
)

// client0 connects with a deadline of its own.
func (w *world) client0(t *testing.T, limit time.Duration) (*bus.Client, error) {
	c, err := bus.Dial(timeout(t, limit), w.url, w.options())
	if err == nil {
		t.Cleanup(func() { _ = c.Close() })
	}
	return c, err
}

func TestConnectTakesTheURLsOfTheEcosystem(t *testing.T) {
	noLeaks(t)
	port := freePort(t)
	p := startRedis(t, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--requirepass", "s3cret/&")
	conn, err := redis.Dial("unix", p.socket, redis.DialPassword("s3cret/&"))
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := conn.Do("ACL", "SETUSER", "croft", "on", ">other", "~*", "&*", "+@all"); err != nil {
		t.Fatal(err)
	}
	host := fmt.Sprintf("127.0.0.1:%d", port)
	for url, db := range map[string]int{
		"redis://:s3cret%2F&@" + host:              0,
		"redis://:s3cret%2F&@" + host + "/3":       3,
		"redis://croft:other@" + host + "/1":       1,
		"redis://croft:other@" + host + "/":        0,
		"tcp://s3cret%2F&@" + host:                 0,
		"tcp://:s3cret%2F&@" + host:                0,
		"unix://:s3cret%2F&@" + p.socket + "?db=2": 2,
	} {
		b, err := bus.Connect(timeout(t, 5*time.Second), url, bus.Options{})
		if err != nil {
			t.Errorf("%s: %v", url, err)
			continue
		}
		c := bus.NewClient(b, bus.Options{})
		_, err = call[string](timeout(t, 50*time.Millisecond), c, "Echo", "x")
		wantKind(t, err, node.Unknown)
		if _, err := conn.Do("SELECT", db); err != nil {
			t.Fatal(err)
		}
		if n := must(redis.Int(conn.Do("DEL", queueKey))); n != 1 {
			t.Errorf("%s: the request isn't in database %d", url, db)
		}
		_ = c.Close()
		_ = b.Close()
	}
}

func TestConnectFailsAtOnceAndClearly(t *testing.T) {
	noLeaks(t)
	port := freePort(t)
	p := startRedis(t, "--port", fmt.Sprint(port), "--bind", "127.0.0.1", "--requirepass", "s3cret")
	host := fmt.Sprintf("127.0.0.1:%d", port)
	nobody := filepath.Join(shortDir(t), "nobody.sock")
	file := filepath.Join(shortDir(t), "file")
	if err := os.WriteFile(file, []byte("x"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, test := range []struct {
		url  string
		kind node.Kind
		text string
	}{
		{"redis://" + host, node.Transient, "NOAUTH"},
		{"redis://:wr0ng@" + host, node.Transient, "WRONGPASS"},
		{"redis://wr0ng@" + host, node.Transient, "WRONGPASS"},
		{p.url(), node.Transient, "NOAUTH"},
		{fmt.Sprintf("redis://127.0.0.1:%d", freePort(t)), node.Transient, "connection refused"},
		{"unix://" + nobody, node.Transient, "no such file"},
		{"unix://" + file, node.Transient, "connection refused"},
		{"unix://relative/path", node.Invalid, "absolute"},
		{"unix://", node.Invalid, "absolute"},
		{"redis://", node.Invalid, "no host"},
		{"redis://" + host + "/x", node.Invalid, `database "x"`},
		{"redis://" + host + "/-1", node.Invalid, `database "-1"`},
		{"rediss://" + host, node.Invalid, `"rediss"`},
		{"http://:wr0ng@" + host, node.Invalid, "allowed are redis, tcp and unix"},
		{"redis://:wr0ng@%zz", node.Invalid, "isn't a URL"},
		{"", node.Invalid, "allowed are redis, tcp and unix"},
	} {
		within(t, slack, "connecting to "+test.url, func() {
			c, err := bus.Dial(context.Background(), test.url, bus.Options{})
			if err == nil {
				t.Errorf("%s: connected", test.url)
				_ = c.Close()
				return
			}
			if node.KindOf(err) != test.kind || !strings.Contains(err.Error(), test.text) || strings.Contains(err.Error(), "wr0ng") {
				t.Errorf("%s: kind %s, %v", test.url, node.KindOf(err), err)
			}
		})
	}
	_, err := bus.Connect(t.Context(), p.url(), bus.Options{Workers: -1})
	wantKind(t, err, node.Invalid)
}
