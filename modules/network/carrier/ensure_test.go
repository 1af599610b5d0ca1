package carrier

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"fmt"
	"net"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/carrier"
	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

func TestManyEnsuresStartOneCarrier(t *testing.T) {
	s := newSite(t, 1)
	must(t, kind().Folder(s.run).Make())
	// What a dead carrier left doesn't confuse.
	for _, left := range []string{"socket", "pid", "lock", "start.lock"} {
		must(t, os.WriteFile(filepath.Join(s.run, "wg", left), []byte("1\n"), 0o600))
	}
	pids := make([]int, 8)
	var wg sync.WaitGroup
	for i := range pids {
		wg.Go(func() {
			client, err := Ensure(t.Context(), s.carrier())
			if err != nil {
				t.Error(err)
				return
			}
			pids[i] = client.PID()
			client.Close()
		})
	}
	wg.Wait()
	client := s.start(t)
	if pids = slices.Compact(append(pids, client.PID())); len(pids) != 1 {
		t.Errorf("carriers %v", pids)
	}
	text, err := os.ReadFile(filepath.Join(s.run, "wg", "pid"))
	if err != nil || string(text) != fmt.Sprintln(client.PID()) {
		t.Errorf("the PID file says %q (%v)", text, err)
	}
	exe, _ := os.Executable()
	out, err := exec.Command(exe, carry, s.run).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another carrier runs") {
		t.Errorf("a second carrier: %s (%v)", out, err)
	}
}

func TestTheCarrierIsOnItsOwn(t *testing.T) {
	// A file without close-on-exec, as a service manager passes them.
	leaked, err := unix.Open(t.TempDir(), unix.O_DIRECTORY|unix.O_RDONLY, 0)
	must(t, err)
	defer unix.Close(leaked)
	s := newSite(t, 1)
	client := s.start(t)
	proc := fmt.Sprintf("/proc/%d/", client.PID())
	name, err := os.Readlink(fmt.Sprintf("/proc/self/fd/%d", leaked))
	must(t, err)
	files, err := os.ReadDir(proc + "fd")
	must(t, err)
	for _, f := range files {
		if target, _ := os.Readlink(proc + "fd/" + f.Name()); target == name || strings.HasPrefix(target, "pipe:") {
			t.Errorf("it has %s of its starter", target)
		}
	}
	if sid, err := unix.Getsid(client.PID()); err != nil || sid != client.PID() {
		t.Errorf("it is in session %d (%v)", sid, err)
	}
	mine, err := cgroup.Hierarchies()
	must(t, err)
	theirs := cgroup.Of(client.PID(), kind().Folder(s.run).Group()).Folders()
	if len(theirs) == 0 || len(theirs) != len(mine) {
		t.Fatalf("its groups are %v, the tests are in %v", theirs, mine)
	}
	limited := false
	for _, group := range theirs {
		for _, h := range mine {
			if !h.Limits() && strings.HasPrefix(group, h.Group+"/") && h.Group != h.Point {
				t.Errorf("%s is inside of its starter's %s", group, h.Group)
			}
		}
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			text, err := os.ReadFile(filepath.Join(group, file))
			limited = limited || err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(DefaultHardLimit)
		}
	}
	if !limited {
		t.Errorf("none of %v limits its memory to %d", theirs, DefaultHardLimit)
	}
	info, err := client.Info(t.Context())
	if err != nil || info.PID != client.PID() || info.Version != "test" || info.Memory == 0 || time.Since(info.Started) > time.Minute {
		t.Errorf("%+v %v", info, err)
	}
	must(t, client.Stop(t.Context()))
	for _, group := range theirs {
		if _, err := os.Stat(group); !os.IsNotExist(err) {
			t.Errorf("the empty group %s stayed: %v", group, err)
		}
	}
	left, _ := filepath.Glob(filepath.Join(s.run, "wg", "*"))
	for i, path := range left {
		left[i] = filepath.Base(path)
	}
	if !slices.Equal(left, []string{"lock", "log", "start.lock"}) {
		t.Errorf("it left %v", left)
	}
}

func TestCarrierFailsToStart(t *testing.T) {
	run := t.TempDir()
	for _, c := range []struct {
		name    string
		command []string
		kind    node.Kind
		text    string
	}{
		{"no command", nil, node.Invalid, "no command is given"},
		{"no such program", []string{"/nowhere/croftd"}, node.Transient, "no such file"},
		{"it ends", []string{"/bin/sh", "-c", "echo why >&2; exit 7"}, node.Transient, "exit status 7"},
		{"it never answers", []string{"/bin/sh", "-c", "echo $$ >" + run + "/sleeper; exec sleep 60"}, node.Transient, "to answer"},
	} {
		t.Run(c.name, func(t *testing.T) {
			client, err := Ensure(t.Context(), Config{RunDir: run, Command: c.command, Within: time.Second, Log: zerolog.Nop()})
			wants(t, c.kind, c.text, err)
			if client != nil || err == nil {
				t.Error("a client of nothing")
			}
		})
	}
	if text, err := os.ReadFile(filepath.Join(run, "wg", "log")); err != nil || string(text) != "why\n" {
		t.Errorf("its log says %q (%v)", text, err)
	}
	text, err := os.ReadFile(run + "/sleeper")
	must(t, err)
	pid, err := strconv.Atoi(strings.TrimSpace(string(text)))
	must(t, err)
	must(t, unix.Kill(pid, unix.SIGKILL))
}

// Nobody would end the process of a caller that has gone.
func TestACallerThatHasGoneStartsNoCarrier(t *testing.T) {
	var log bytes.Buffer
	ctx, cancel := context.WithCancel(t.Context())
	cancel()
	_, err := Ensure(ctx, Config{RunDir: t.TempDir(), Command: []string{"/bin/sh", "-c", "exit 7"}, Log: zerolog.New(&log)})
	wants(t, node.Transient, "context canceled", err)
	if strings.Contains(log.String(), "carrier started") {
		t.Errorf("a process was started: %s", log.String())
	}
}

// A carrier of another version of croft that speaks another protocol.
func TestACarrierOfAnotherProtocolIsReplaced(t *testing.T) {
	s := newSite(t, 1)
	old := exec.Command("/proc/self/exe", carryOld, s.run)
	must(t, old.Start())
	ended := make(chan error, 1)
	go func() { ended <- old.Wait() }()
	until(t, "the old one listens", func() bool { _, err := os.Stat(kind().Folder(s.run).Socket()); return err == nil })
	client := s.start(t)
	if client.PID() == old.Process.Pid {
		t.Fatal("the old one was taken")
	}
	must(t, <-ended)
	if info, err := client.Info(t.Context()); err != nil || info.Protocol != protocol {
		t.Errorf("%+v %v", info, err)
	}
}

// Messages on the socket, byte for byte, and the beginning of the answer.
func TestGarbageOnTheSocket(t *testing.T) {
	s := newSite(t, 1)
	client := s.start(t)
	for name, c := range map[string]struct{ say, want string }{
		"nothing":          {"", ""},
		"an empty line":    {"\n", `"kind":"Invalid"`},
		"zeros":            {strings.Repeat("\x00", 5000) + "\n", `"kind":"Invalid"`},
		"no line":          {`{"version":1,"op":"devices"`, `"kind":"Invalid"`},
		"http":             {"GET / HTTP/1.1\r\n\r\n", `"kind":"Invalid"`},
		"an array":         {"[1,2]\n", `"kind":"Invalid"`},
		"deep":             {strings.Repeat("[", 200000) + "\n", `"kind":"Invalid"`},
		"no version":       {`{"op":"devices"}` + "\n", "of version 0"},
		"another version":  {`{"version":2,"op":"devices"}` + "\n", "speaks version 1"},
		"no operation":     {`{"version":1}` + "\n", "no such operation"},
		"unknown field":    {`{"version":1,"op":"devices","x":1}` + "\n", "unknown field"},
		"two":              {`{"version":1,"op":"devices"}{}` + "\n", "one line of JSON"},
		"no device":        {`{"version":1,"op":"set-device","id":"a"}` + "\n", "device is missing"},
		"a bad key":        {`{"version":1,"op":"set-device","id":"a","device":{"private_key":"AA"}}` + "\n", "base64 of 32 bytes"},
		"a bad endpoint":   {`{"version":1,"op":"set-device","id":"a","device":{"peers":[{"endpoint":"x"}]}}` + "\n", `"kind":"Invalid"`},
		"no zone":          {`{"version":1,"op":"set-zone"}` + "\n", "zone is missing"},
		"beyond the limit": {strings.Repeat("x", maxRequest+10), ""},
		"info of any":      {`{"version":99,"op":"info","new":1}` + "\n", `"protocol":1`},
	} {
		t.Run(name, func(t *testing.T) {
			if got := say(t, s, c.say); !strings.Contains(got, c.want) || c.want == "" && got != "" {
				t.Errorf("%q answers with %q", c.want, got)
			}
		})
	}
	// Those who say nothing and stay don't keep others out.
	for range carrier.MaxConnections - 2 {
		conn, err := net.Dial("unix", kind().Folder(s.run).Socket())
		must(t, err)
		defer conn.Close()
	}
	if _, err := client.Devices(t.Context()); err != nil {
		t.Error(err)
	}
	info, err := os.Stat(kind().Folder(s.run).Socket())
	if err != nil || info.Mode().Perm() != 0o600 {
		t.Errorf("the socket: %v %v", info.Mode(), err)
	}
}

// say writes text and returns the answer, if any.
func say(t *testing.T, s *site, text string) string {
	t.Helper()
	conn, err := net.Dial("unix", kind().Folder(s.run).Socket())
	must(t, err)
	defer conn.Close()
	must(t, conn.SetDeadline(time.Now().Add(2*time.Minute)))
	_, _ = conn.Write([]byte(text))
	_ = conn.(*net.UnixConn).CloseWrite()
	line, _ := bufio.NewReader(conn).ReadBytes('\n')
	if len(line) > 0 && !json.Valid(line) {
		t.Errorf("the answer isn't JSON: %q", line)
	}
	return string(bytes.TrimSpace(line))
}
