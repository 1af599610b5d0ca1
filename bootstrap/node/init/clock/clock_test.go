package clock

import (
	"bytes"
	"context"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/internal/testing/netlab"
	engine "github.com/croft-edge/croft/pkg/clock"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

func TestServers(t *testing.T) {
	for want, in := range map[string][2][]string{
		"pool 2.debian.pool.ntp.org iburst\n":                                        {},
		"server 192.0.2.1 iburst\nserver fd00::1 iburst\n":                           {nil, {"192.0.2.1", "fd00::1", "a b", "x\ny"}},
		"server time.example.org iburst port 1123\nserver fd00::2 iburst port 123\n": {{"time.example.org:1123", "[fd00::2]:123"}, {"192.0.2.1"}},
	} {
		if got := serverLines(in[0], in[1]); got != want {
			t.Errorf("got %q, want %q", got, want)
		}
	}
}

func TestValidate(t *testing.T) {
	for _, server := range []string{"", "a b", "x\nallow all", "host:0", "host:99999", "[fe80::1%eth0]:123", "fe80::1%eth0", "a:b:c"} {
		if err := (Config{Servers: []string{server}, Run: "/r", State: "/s"}).Validate(); err == nil || !strings.Contains(err.Error(), "ntp-servers") {
			t.Errorf("the server %q is accepted: %v", server, err)
		}
	}
	if err := (Config{Run: "run", State: "/s"}).Validate(); err == nil {
		t.Error("a relative folder is accepted")
	}
}

// Debian's chronyd runs with the configuration, listens to nobody, and follows servers that change.
func TestChronyd(t *testing.T) {
	lab := netlab.New(t)
	server, node := lab.Namespace("server"), lab.Namespace("node")
	lab.Veth(server, "eth0", node, "eth0")
	server.Addr("eth0", "192.0.2.1/24")
	server.Addr("eth0", "192.0.2.2/24")
	node.Addr("eth0", "192.0.2.9/24")
	runServer(t, server)
	dir := t.TempDir()
	c, err := New(Config{Run: filepath.Join(dir, "run"), State: filepath.Join(dir, "state"), Untouched: true})
	if err != nil {
		t.Fatal(err)
	}
	if err := c.Use(t.Context(), []string{"192.0.2.1"}); err != nil {
		t.Fatal(err)
	}
	command, err := c.Prepare()
	if err != nil {
		t.Fatal(err)
	}
	if out, err := exec.Command("chronyd", "-p", "-f", c.configFile()).CombinedOutput(); err != nil {
		t.Fatalf("chronyd doesn't read its configuration: %v: %s", err, out)
	}
	for range 2 { // it is killed, and starts again
		stop := start(t, node, command)
		settle(t, "the server is followed", func() bool { return strings.Contains(c.sources(), "^* 192.0.2.1") })
		if out := node.Run("ss", "-Hlunp"); strings.Contains(out, "chronyd") {
			t.Errorf("chronyd listens: %s", out)
		}
		stop()
		if _, err := c.Prepare(); err != nil {
			t.Fatal(err)
		}
	}
	start(t, node, command)
	settle(t, "the server is followed", func() bool { return strings.Contains(c.sources(), "^* 192.0.2.1") })
	if err := c.Use(t.Context(), []string{"192.0.2.2"}); err != nil {
		t.Fatal(err)
	}
	settle(t, "the other server is followed", func() bool {
		s := c.sources()
		return strings.Contains(s, "^* 192.0.2.2") && !strings.Contains(s, "192.0.2.1")
	})
}

func (c *Chrony) sources() string {
	out, _ := exec.Command("chronyc", "-n", "-h", c.socket(), "sources").CombinedOutput()
	return string(out)
}

func runServer(t *testing.T, on *netlab.Namespace) {
	dir := t.TempDir()
	if err := os.Chmod(dir, 0o750); err != nil {
		t.Fatal(err)
	}
	config := filepath.Join(dir, "chrony.conf")
	text := fmt.Sprintf("local stratum 3\nallow 192.0.2.0/24\ncmdport 0\nbindcmdaddress %s/sock\npidfile %s/pid\n", dir, dir)
	if err := os.WriteFile(config, []byte(text), 0o600); err != nil {
		t.Fatal(err)
	}
	start(t, on, []string{"chronyd", "-d", "-x", "-f", config, "-u", "root"})
}

func start(t *testing.T, on *netlab.Namespace, command []string) (stop func()) {
	ctx, cancel := context.WithCancel(context.Background())
	cmd := on.Command(ctx, command[0], command[1:]...)
	var out bytes.Buffer
	cmd.Stdout, cmd.Stderr = &out, &out
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	stopped := false
	stop = func() {
		if stopped {
			return
		}
		stopped = true
		cancel()
		cmd.Wait()
		if t.Failed() {
			t.Logf("chronyd: %s", out.String())
		}
	}
	t.Cleanup(stop)
	return stop
}

func settle(t *testing.T, what string, is func() bool) {
	t.Helper()
	for end := time.Now().Add(40 * time.Second); time.Now().Before(end); time.Sleep(100 * time.Millisecond) {
		if is() {
			return
		}
	}
	t.Fatalf("it isn't so that %s", what)
}

func TestSynced(t *testing.T) {
	got, err := Synced()
	if err != nil || got != engine.Synced() {
		t.Errorf("got %t, %v; the engine sees %t", got, err, engine.Synced())
	}
}

// A clock that is certainly wrong is set forward, but stays a day behind what has passed; a time is stored only while the kernel calls the clock right.
func TestPast(t *testing.T) {
	build := time.Date(2026, 5, 1, 0, 0, 0, 0, time.UTC)
	clock, synced := build, false
	p := NewPast(filepath.Join(t.TempDir(), "time"), build)
	p.now = func() time.Time { return clock }
	p.set = func(to time.Time) error { clock = to; return nil }
	p.synced = func() (bool, error) { return synced, nil }
	raise := func(from, want time.Time) {
		t.Helper()
		clock = from
		set, err := p.Raise()
		if err != nil || !clock.Equal(want) || set != !from.Equal(want) {
			t.Errorf("from %s the clock is set to %s (%t, %v), want %s", from, clock, set, err, want)
		}
	}
	old := time.Unix(0, 0).UTC()
	raise(old, build.Add(-behind))
	raise(build.Add(time.Hour), build.Add(time.Hour))
	clock = build.Add(48 * time.Hour)
	if err := p.Store(); err != nil {
		t.Fatal(err)
	}
	raise(old, build.Add(-behind))
	synced, clock = true, build.Add(72*time.Hour)
	ctx, stop := context.WithCancel(t.Context())
	stop()
	if err := p.Keep(ctx, zerolog.Nop()); err != nil {
		t.Fatal(err)
	}
	raise(old, build.Add(72*time.Hour-behind))
	raise(build.Add(71*time.Hour), build.Add(71*time.Hour))
	if err := os.WriteFile(p.File, []byte("long ago"), 0o600); err != nil {
		t.Fatal(err)
	}
	clock = old
	if set, err := p.Raise(); !set || err == nil || !clock.Equal(build.Add(-behind)) {
		t.Errorf("with a broken file the clock is %s: %t, %v", clock, set, err)
	}
}
