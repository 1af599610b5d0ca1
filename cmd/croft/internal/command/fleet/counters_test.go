package fleet_test

import (
	"bytes"
	"context"
	"encoding/json"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/cmd/croft/internal/command"
	"github.com/croft-edge/croft/cmd/croft/internal/command/shell"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/bus/broker"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// run runs a command line in a folder without settings.
func run(ctx context.Context, t *testing.T, args ...string) (code int, stdout, stderr string) {
	t.Helper()
	var out, errs bytes.Buffer
	home := t.TempDir()
	code = command.Run(ctx, shell.Env{
		Stdin: strings.NewReader(""), Stdout: &out, Stderr: &errs, Now: time.Now,
		Getenv: func(name string) (string, bool) { return home, name == "HOME" },
	}, append([]string{"croft"}, args...))
	return code, out.String(), errs.String()
}

// counting is a node's stream: a value every 20 ms, one volume more each time.
type counting struct{}

func (counting) Counters(ctx context.Context) <-chan workload.ProvisionCounters {
	out := make(chan workload.ProvisionCounters)
	go func() {
		defer close(out)
		tick := time.NewTicker(20 * time.Millisecond)
		defer tick.Stop()
		for n := int64(1); ; n++ {
			select {
			case <-ctx.Done():
				return
			case out <- workload.ProvisionCounters{Volume: n, ZDB: 7}:
			}
			select {
			case <-ctx.Done():
				return
			case <-tick.C:
			}
		}
	}()
	return out
}

// serveCounters serves a node's bus on a socket, and returns its URL.
func serveCounters(t *testing.T) string {
	t.Helper()
	options := bus.Options{Log: zerolog.Nop()}
	b := bus.NewInProcess()
	server, err := bus.NewServer(b, node.ProvisionModule, options)
	if err != nil {
		t.Fatal(err)
	}
	if err := bus.Register[node.Provision](server, bus.Object(node.ProvisionObject, node.ProvisionVersion), counting{}); err != nil {
		t.Fatal(err)
	}
	url := "unix://" + filepath.Join(t.TempDir(), "bus.sock")
	door, err := broker.Listen(b, url, options.Log)
	if err != nil {
		t.Fatal(err)
	}
	ctx, cancel := context.WithCancel(context.Background())
	var running sync.WaitGroup
	running.Go(func() { _ = server.Run(ctx) })
	running.Go(func() { _ = door.Run(ctx) })
	t.Cleanup(func() {
		cancel()
		door.Close()
		running.Wait()
		b.Close()
	})
	return url
}

func TestCountersOverTheBus(t *testing.T) {
	url := serveCounters(t)
	code, out, errs := run(t.Context(), t, "counters", "--bus", url, "-o", "json")
	var got map[string]int64
	if code != 0 || json.Unmarshal([]byte(out), &got) != nil || got["volume"] < 1 || got["zdb"] != 7 || len(got) != 6 {
		t.Errorf("exit code %d, %s%s", code, out, errs)
	}
	code, out, errs = run(t.Context(), t, "counters", "--bus", url)
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) != 2 || lines[0] != "CONTAINER VOLUME    NETWORK   ZDB       VM        DEBUG" || !strings.Contains(lines[1], "7 ") {
		t.Errorf("exit code %d, %q%s", code, lines, errs)
	}
}

func TestCountersWatchUntilInterrupted(t *testing.T) {
	url := serveCounters(t)
	ctx, cancel := context.WithTimeout(t.Context(), time.Second)
	defer cancel()
	code, out, errs := run(ctx, t, "counters", "--bus", url, "--watch", "-o", "json")
	lines := strings.Split(strings.TrimSpace(out), "\n")
	if code != 0 || len(lines) < 3 {
		t.Fatalf("exit code %d, %d lines: %s%s", code, len(lines), out, errs)
	}
	last := int64(0)
	for _, line := range lines {
		var v map[string]int64
		if err := json.Unmarshal([]byte(line), &v); err != nil || v["volume"] <= last {
			t.Errorf("line %q after volume %d: %v", line, last, err)
		}
		last = v["volume"]
	}
}

func TestCountersWithoutANode(t *testing.T) {
	for url, says := range map[string]string{
		"unix://" + filepath.Join(t.TempDir(), "none.sock"): "cannot read counters from unix://",
		"ftp://nowhere": "cannot read counters from ftp://nowhere",
	} {
		code, _, errs := run(t.Context(), t, "counters", "--bus", url)
		if code != 1 || !strings.Contains(errs, says) {
			t.Errorf("%s: exit code %d, %s", url, code, errs)
		}
	}
}
