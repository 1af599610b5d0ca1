package qmp_test

import (
	"bufio"
	"context"
	"net"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/modules/vm/qmp"
	"github.com/croft-edge/croft/pkg/node"
)

const (
	greeting = `{"QMP": {"version": {"qemu": {"micro": 0, "minor": 2, "major": 7}}, "capabilities": []}}`
	done     = `{"return": {}}`
	event    = `{"timestamp": {"seconds": 1, "microseconds": 2}, "event": "RESUME"}`
)

// serve is a QEMU that greets, then answers each line with the next of the answers, which may be several lines.
func serve(t *testing.T, greeting string, answers ...string) string {
	t.Helper()
	path := filepath.Join(t.TempDir(), "qmp")
	listener, err := net.Listen("unix", path)
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = listener.Close() })
	go func() {
		conn, err := listener.Accept()
		if err != nil {
			return
		}
		defer conn.Close()
		_, _ = conn.Write([]byte(greeting))
		lines := bufio.NewScanner(conn)
		for _, answer := range answers {
			if !lines.Scan() {
				return
			}
			_, _ = conn.Write([]byte(answer + "\n"))
		}
		<-t.Context().Done()
	}()
	return path
}

func TestStatus(t *testing.T) {
	t.Parallel()
	c, err := qmp.Dial(t.Context(), serve(t, greeting+"\n", done, event+"\n"+event+"\n"+`{"return": {"status": "running", "running": true}}`,
		`{"error": {"class": "GenericError", "desc": "the guest\nis gone"}}`))
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if status, err := c.Status(t.Context()); err != nil || status != "running" {
		t.Errorf("status %q, %v", status, err)
	}
	if err := c.PowerDown(t.Context()); node.KindOf(err) != node.Busy || !strings.Contains(err.Error(), "the guest is gone") {
		t.Errorf("a refused command: %v", err)
	}
}

// TestHostileQEMU: whatever QEMU says, or doesn't say, is an error in time, and in bounded memory.
func TestHostileQEMU(t *testing.T) {
	t.Parallel()
	for name, answers := range map[string][]string{
		"no greeting":     {`{"return": {}}` + "\n"},
		"silence":         {""},
		"no JSON":         {"hello\n"},
		"an endless line": {strings.Repeat("a", 1<<20)},
		"endless events":  {greeting + "\n", strings.Repeat(event+"\n", 2000)},
		"another type":    {greeting + "\n", done, `{"return": {"status": 7}}`},
		"a closed door":   {greeting + "\n", done, "\x00"},
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			path := serve(t, answers[0], answers[1:]...)
			ctx, cancel := context.WithTimeout(t.Context(), 2*time.Second)
			defer cancel()
			c, err := qmp.Dial(ctx, path)
			if err == nil {
				defer c.Close()
				_, err = c.Status(ctx)
			}
			if node.KindOf(err) != node.Transient || len(err.Error()) > 1000 {
				t.Errorf("%.2000v", err)
			}
		})
	}
}
