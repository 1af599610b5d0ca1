package logs

import (
	"bufio"
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

	"github.com/croft-edge/croft/pkg/cgroup"
	"github.com/croft-edge/croft/pkg/node"
)

func TestManyEnsuresStartOneCarrier(t *testing.T) {
	c := site(t, MinSize, 2)
	must(t, kind().Folder(c.RunDir).Make())
	// What a dead carrier left doesn't confuse.
	for _, left := range []string{"socket", "pid", "lock", "start.lock"} {
		must(t, os.WriteFile(kind().Folder(c.RunDir).Path(left), []byte("1\n"), 0o600))
	}
	pids := make([]int, 8)
	var wg sync.WaitGroup
	for i := range pids {
		wg.Go(func() {
			client, err := Ensure(t.Context(), c)
			if err != nil {
				t.Error(err)
				return
			}
			pids[i] = client.PID()
			client.Close()
		})
	}
	wg.Wait()
	client := started(t, c)
	if pids = slices.Compact(append(pids, client.PID())); len(pids) != 1 {
		t.Errorf("carriers %v", pids)
	}
	out, err := exec.Command(c.Command[0], c.Command[1:]...).CombinedOutput()
	if err == nil || !strings.Contains(string(out), "another log carrier runs") {
		t.Errorf("a second carrier: %s (%v)", out, err)
	}
}

func TestTheCarrierIsOnItsOwn(t *testing.T) {
	c := site(t, MinSize, 2)
	client := started(t, c)
	if sid, err := unix.Getsid(client.PID()); err != nil || sid != client.PID() {
		t.Errorf("it is in session %d (%v)", sid, err)
	}
	groups := cgroup.Of(client.PID(), kind().Folder(c.RunDir).Group()).Folders()
	limited := false
	for _, group := range groups {
		for _, file := range []string{"memory.limit_in_bytes", "memory.max"} {
			text, err := os.ReadFile(filepath.Join(group, file))
			limited = limited || err == nil && strings.TrimSpace(string(text)) == strconv.Itoa(DefaultHardLimit)
		}
	}
	if !limited {
		t.Errorf("none of %v limits its memory to %d", groups, DefaultHardLimit)
	}
	info, err := client.Info(t.Context())
	if err != nil || info.PID != client.PID() || info.Version != "test" || info.Memory == 0 || info.Size != MinSize || info.Files != 2 || info.Dir != c.Dir {
		t.Errorf("%+v %v", info, err)
	}
	must(t, client.Stop(t.Context()))
	_, err = client.List(t.Context())
	wants(t, node.Transient, "cannot reach the carrier", err)
	for _, group := range groups {
		if _, err := os.Stat(group); !os.IsNotExist(err) {
			t.Errorf("the empty group %s stayed: %v", group, err)
		}
	}
	left, err := os.ReadDir(filepath.Join(c.RunDir, "log"))
	must(t, err)
	for _, entry := range left {
		if !slices.Contains([]string{"lock", "log", "start.lock"}, entry.Name()) {
			t.Errorf("it left %s", entry.Name())
		}
	}
}

func TestOtherSettingsReplaceTheCarrier(t *testing.T) {
	c := site(t, MinSize, 2)
	first := started(t, c)
	fifos, err := first.Open(t.Context(), "1-1", "")
	must(t, err)
	out := shim(t, fifos.Stdout)
	say(t, out, "one\n")
	wrong := c
	wrong.Files = 3 // its command still says 2
	_, err = Ensure(t.Context(), wrong)
	wants(t, node.Invalid, "other settings", err)
	say(t, out, "two\n")
	right := wrong
	right.Command = append(slices.Clone(c.Command[:len(c.Command)-1]), "3")
	second := started(t, right)
	say(t, out, "three\n")
	info, err := second.Info(t.Context())
	if err != nil || info.Files != 3 || info.Containers != 1 || second.PID() == first.PID() {
		t.Errorf("%+v %v", info, err)
	}
	until(t, "all lines", func() bool { return strings.Join(texts(last(t, c, "1-1", 9)), "|") == "one|two|three" })
	for _, bad := range []Config{{Size: MinSize - 1}, {Files: 1}, {Size: -1}, {Files: 1001}} {
		_, err := Ensure(t.Context(), bad)
		wants(t, node.Invalid, "cannot use", err)
	}
}

func TestTheKeeperHasACarrierAgainAtOnce(t *testing.T) {
	c := site(t, MinSize, 2)
	c.Log = zerolog.Nop()
	k := NewKeeper(c)
	t.Cleanup(k.Close)
	ctx, cancel := context.WithCancel(t.Context())
	ended := make(chan error, 1)
	go func() { ended <- k.Run(ctx) }()
	fifos, err := k.Open(t.Context(), "1-1", "")
	must(t, err)
	out := shim(t, fifos.Stdout)
	var want []string
	for i := range 3 {
		client, err := k.Carrier(t.Context())
		must(t, err)
		client.kill(t)
		// Nobody asks for a carrier: the line is only written when there is one.
		say(t, out, fmt.Sprintln("line", i))
		want = append(want, fmt.Sprint("line ", i))
		until(t, "the line", func() bool { return slices.Equal(texts(last(t, c, "1-1", 9)), want) })
	}
	cancel()
	must(t, <-ended)
	// The next agent finds it, and has another one at once without a call.
	next := NewKeeper(c)
	t.Cleanup(next.Close)
	ctx, cancel = context.WithCancel(t.Context())
	defer cancel()
	go func() { ended <- next.Run(ctx) }()
	until(t, "it is found", func() bool { return next.Running() != nil })
	was := next.Running()
	was.kill(t)
	until(t, "there is another one", func() bool { c := next.Running(); return c != nil && c.PID() != was.PID() })
	cancel()
	must(t, <-ended)
	info, err := k.Info(t.Context())
	if err != nil || info.Containers != 1 {
		t.Errorf("%+v %v", info, err)
	}
	must(t, k.Drop(t.Context(), "1-1", false))
	if ids, err := k.List(t.Context()); err != nil || len(ids) != 0 {
		t.Errorf("%v %v", ids, err)
	}
}

func TestCarrierFailsToStart(t *testing.T) {
	dir := folder(t)
	for _, c := range []struct {
		name    string
		command []string
		kind    node.Kind
		text    string
	}{
		{"no command", nil, node.Invalid, "no command is given"},
		{"no such program", []string{"/nowhere/croftd"}, node.Transient, "no such file"},
		{"it ends", []string{"/bin/sh", "-c", "exit 7"}, node.Transient, "exit status 7"},
	} {
		t.Run(c.name, func(t *testing.T) {
			_, err := Ensure(t.Context(), Config{RunDir: dir, Dir: dir, Command: c.command, Within: 30 * time.Second, Log: zerolog.Nop()})
			wants(t, c.kind, c.text, err)
		})
	}
}

// Messages on the socket, byte for byte, and a part of the answer.
func TestGarbageOnTheSocket(t *testing.T) {
	c := site(t, MinSize, 2)
	client := started(t, c)
	for name, g := range map[string]struct{ say, want string }{
		"nothing":          {"", ""},
		"an empty line":    {"\n", `"kind":"Invalid"`},
		"zeros":            {strings.Repeat("\x00", 5000) + "\n", `"kind":"Invalid"`},
		"no line":          {`{"version":2,"op":"list"`, `"kind":"Invalid"`},
		"deep":             {strings.Repeat("[", 50000) + "\n", `"kind":"Invalid"`},
		"another version":  {`{"version":3,"op":"list"}` + "\n", "speaks version 2"},
		"no operation":     {`{"version":2}` + "\n", "no such operation"},
		"unknown field":    {`{"version":2,"op":"list","x":1}` + "\n", "unknown field"},
		"no id":            {`{"version":2,"op":"open"}` + "\n", "as the ID of a container"},
		"a way out":        {`{"version":2,"op":"drop","id":"../../x"}` + "\n", "as the ID of a container"},
		"beyond the limit": {strings.Repeat("x", maxRequest+10), ""},
		"info of any":      {`{"version":99,"op":"info","new":1}` + "\n", `"protocol":2`},
	} {
		t.Run(name, func(t *testing.T) {
			conn, err := net.Dial("unix", kind().Folder(c.RunDir).Socket())
			must(t, err)
			defer conn.Close()
			must(t, conn.SetDeadline(time.Now().Add(time.Minute)))
			_, _ = conn.Write([]byte(g.say))
			_ = conn.(*net.UnixConn).CloseWrite()
			line, _ := bufio.NewReader(conn).ReadBytes('\n')
			if !strings.Contains(string(line), g.want) || g.want == "" && len(line) > 0 || len(line) > 0 && !json.Valid(line) {
				t.Errorf("%q answers with %q", g.want, line)
			}
		})
	}
	if _, err := client.List(t.Context()); err != nil {
		t.Error(err)
	}
}
