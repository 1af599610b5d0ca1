package main

import (
	"bytes"
	"context"
	"errors"
	"net"
	"net/http"
	"net/http/httptest"
	"net/netip"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/bootstrap/node/init/disks"
	"github.com/croft-edge/croft/bootstrap/node/init/network"
	"github.com/croft-edge/croft/internal/guest/service"
)

// TestCommands holds that the program does nothing by accident: it is on a machine's PATH.
func TestCommands(t *testing.T) {
	for _, args := range [][]string{nil, {"run"}, {"halt"}, {"poweroff", "now"}} {
		var out, errs bytes.Buffer
		if status := command(args, &out, &errs); status != 2 || errs.Len() == 0 {
			t.Errorf("%q: status %d, %q", args, status, errs.String())
		}
	}
	var out, errs bytes.Buffer
	if status := command([]string{"help"}, &out, &errs); status != 0 || !strings.Contains(out.String(), "poweroff") {
		t.Errorf("help: status %d, %q", status, out.String())
	}
}

// TestPrograms holds that each program starts behind others that there are, none of which waits for it, and that all parts of croftd are there.
func TestPrograms(t *testing.T) {
	behind := map[string][]string{workloadsNeed: nil}
	var names []string
	for _, k := range slices.Concat(early(), parts()) {
		behind[k.Name] = k.behind
		if k.Ready == nil {
			t.Errorf("%s is ready without a try", k.Name)
		}
		names = append(names, k.Name)
	}
	var follow func(name string, through []string)
	follow = func(name string, through []string) {
		others, ok := behind[name]
		switch {
		case !ok:
			t.Errorf("%s start behind %s, which isn't a program", through, name)
		case slices.Contains(through, name):
			t.Errorf("%s wait for each other", through)
		default:
			for _, other := range others {
				follow(other, append(slices.Clone(through), name))
			}
		}
	}
	for _, name := range names {
		follow(name, nil)
	}
	// The folders of croftd's modules have their names, but for the engine's.
	folders, err := os.ReadDir("../../../cmd/croftd/internal/module")
	if err != nil {
		t.Fatal(err)
	}
	for _, f := range folders {
		if f.IsDir() && !slices.Contains(names, f.Name()) {
			t.Errorf("croftd %s isn't run", f.Name())
		}
	}
}

// TestRedis asks what a redis server says, and what another one would.
func TestRedis(t *testing.T) {
	socket := filepath.Join(t.TempDir(), "s")
	l, err := net.Listen("unix", socket)
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	answers := make(chan string, 2)
	go func() {
		for answer := range answers {
			c, err := l.Accept()
			if err != nil {
				return
			}
			_, _ = c.Read(make([]byte, 100))
			_, _ = c.Write([]byte(answer))
			c.Close()
		}
	}()
	defer close(answers)
	for answer, want := range map[string]string{"+PONG\r\n": "", "-LOADING wait\r\n": "LOADING"} {
		answers <- answer
		err := pingRedis(t.Context(), socket)
		if (err == nil) != (want == "") || err != nil && !strings.Contains(err.Error(), want) {
			t.Errorf("%q: %v", answer, err)
		}
	}
	if err := pingRedis(t.Context(), socket+"x"); err == nil {
		t.Error("a server that isn't there answers")
	}
}

func TestHealth(t *testing.T) {
	status := http.StatusOK
	server := httptest.NewServer(http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) { w.WriteHeader(status) }))
	defer server.Close()
	file := filepath.Join(t.TempDir(), "health")
	if err := askHealth(t.Context(), file, "/readyz"); err == nil {
		t.Error("an engine that hasn't said where it answers is ready")
	}
	if err := os.WriteFile(file, []byte(strings.TrimPrefix(server.URL, "http://")+"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if err := askHealth(t.Context(), file, "/readyz"); err != nil {
		t.Error(err)
	}
	status = http.StatusServiceUnavailable
	if err := askHealth(t.Context(), file, "/readyz"); err == nil || !strings.Contains(err.Error(), "503") {
		t.Error(err)
	}
}

// TestStarter holds that a program is started once those behind which it starts are ready.
func TestStarter(t *testing.T) {
	dir := t.TempDir()
	runner := service.NewRunner(dir, t.Logf)
	s := newStarter(runner, t.Logf)
	up := filepath.Join(dir, "up")
	sleep := []string{"/bin/sleep", "1000"}
	ctx, cancel := context.WithCancel(t.Context())
	defer cancel()
	s.start(ctx, []kept{
		{Spec: service.Spec{Name: "first", Command: sleep, Ready: func(context.Context) error { _, err := os.Stat(up); return err }}},
		{Spec: service.Spec{Name: "second", Command: sleep}, behind: []string{"first"}},
	})
	defer func() { runner.Stop("first", "second") }()
	for end := time.Now().Add(time.Minute); runner.Service("first") == nil || runner.Service("first").State().Cause == ""; <-time.After(time.Millisecond) {
		if time.Now().After(end) {
			t.Fatal("the first program isn't tried")
		}
	}
	if runner.Service("second") != nil {
		t.Error("the second program runs before the first is ready")
	}
	if err := os.WriteFile(up, nil, 0o600); err != nil {
		t.Fatal(err)
	}
	if err := waitStarted(ctx, runner, "second"); err != nil {
		t.Error(err)
	}
}

// TestProblems holds that a problem is said once, and its end too.
func TestProblems(t *testing.T) {
	var out bytes.Buffer
	j := newJournal(&out)
	j.wrong("disk", errors.New("it is gone"))
	j.wrong("disk", errors.New("it is gone"))
	j.wrong("clock", nil)
	if got := j.current(); len(got) != 1 || got[0] != (problem{"disk", "it is gone"}) || strings.Count(out.String(), "gone") != 1 {
		t.Errorf("%q, said %q", got, out.String())
	}
	j.wrong("disk", nil)
	if got := j.current(); len(got) != 0 || !strings.Contains(out.String(), "all right") || strings.Contains(out.String(), "clock") {
		t.Errorf("%q, said %q", got, out.String())
	}
	if err := j.logIn(t.TempDir()); err != nil {
		t.Fatal(err)
	}
	j.showOn(nil)
	j.say("quiet")
	if strings.Contains(out.String(), "quiet") || j.log.Last(1)[0] == "" {
		t.Errorf("said %q, the log has %q", out.String(), j.log.Last(1))
	}
}

func TestEvent(t *testing.T) {
	got := parseEvent([]byte("add@/devices/x\x00ACTION=add\x00MODALIAS=pci:v1=2\x00"))
	if got["ACTION"] != "add" || got["MODALIAS"] != "pci:v1=2" || len(got) != 2 {
		t.Errorf("%q", got)
	}
}

func TestRecentEnds(t *testing.T) {
	now := time.Unix(1_700_000_000, 0)
	if got := recent([]time.Time{now.Add(-time.Hour), now.Add(-time.Minute), now}, now); len(got) != 2 {
		t.Errorf("%v", got)
	}
}

func TestRelease(t *testing.T) {
	file := filepath.Join(t.TempDir(), "os-release")
	if err := os.WriteFile(file, []byte("ID=croft\nVERSION_ID=\"v1.2\"\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	if got := release(file, "VERSION_ID"); got != "v1.2" {
		t.Errorf("%q", got)
	}
	if got := release(file+"x", "VERSION_ID"); got != "" {
		t.Errorf("%q", got)
	}
	if got := imageBuilt(file); !got.IsZero() {
		t.Errorf("built at %s", got)
	}
}

// TestProcesses finds this one, and no thread of the kernel.
func TestProcesses(t *testing.T) {
	all := processes("/proc")
	if !slices.Contains(all, os.Getpid()) || slices.Contains(all, 2) {
		t.Errorf("%v", all)
	}
}

// TestLastGoodSettings holds that a file that has gone is a fault, unless the operator says that none is wanted.
func TestLastGoodSettings(t *testing.T) {
	file := filepath.Join(t.TempDir(), "settings.json")
	if got, err := readLastGood(file); got != nil || err != nil {
		t.Errorf("%+v, %v", got, err)
	}
	if err := os.WriteFile(file, []byte(`{"image": "v1", "file": true, "croftd": {"allow-users": "alice"}}`), 0o600); err != nil {
		t.Fatal(err)
	}
	last, err := readLastGood(file)
	if err != nil || last.Image != "v1" || last.Croftd["allow-users"] != "alice" {
		t.Fatalf("%+v, %v", last, err)
	}
	if err := last.lost(false); err == nil || !strings.Contains(err.Error(), "croft.config=none") {
		t.Error(err)
	}
	if err := last.lost(true); err != nil {
		t.Error(err)
	}
	if err := (&lastGood{}).lost(false); err != nil {
		t.Error(err)
	}
	if err := (*lastGood)(nil).lost(false); err != nil {
		t.Error(err)
	}
	if err := os.WriteFile(file, []byte("{"), 0o600); err != nil {
		t.Fatal(err)
	}
	if _, err := readLastGood(file); err == nil {
		t.Error("a damaged file is read")
	}
}

func TestDoor(t *testing.T) {
	is := network.State{Interfaces: []network.Interface{
		{Addresses: []netip.Prefix{netip.MustParsePrefix("fe80::1/64")}},
		{Addresses: []netip.Prefix{netip.MustParsePrefix("fe80::2/64"), netip.MustParsePrefix("192.0.2.7/24")}},
	}}
	for listens, want := range map[string]string{
		"[::]:9178": "192.0.2.7:9178", "0.0.0.0:1": "192.0.2.7:1", "198.51.100.4:9178": "198.51.100.4:9178", "": "", "[2001:db8::1]:5": "[2001:db8::1]:5",
	} {
		if got := doorAt(listens, is); got != want {
			t.Errorf("a door at %q is reached at %q, want %q", listens, got, want)
		}
	}
	if got := doorAt("[::]:9178", network.State{}); got != "" {
		t.Errorf("without an address the door is reached at %q", got)
	}
}

// TestQuiet: a disk that appears while others are read is listed before the node does without its state, however long the reading takes.
func TestQuiet(t *testing.T) {
	start := time.Now().Add(-time.Hour)
	long := 2 * quietLate
	for name, c := range map[string]struct {
		loaded, changed, listed time.Time
		want                    bool
	}{
		"no drivers":              {time.Time{}, start, start.Add(long), false},
		"drivers only now":        {start.Add(long), start, start.Add(long), false},
		"a disk only now":         {start, start.Add(long), start.Add(long), false},
		"read for very long":      {start, start, start, false},
		"listed again, after all": {start, start, start.Add(long), true},
	} {
		s := search{events: newEvents(), loaded: c.loaded, history: disks.Begin(c.changed)}
		if got := s.quiet(c.listed); got != c.want {
			t.Errorf("%s: quiet is %v", name, got)
		}
	}
}

func TestReserve(t *testing.T) {
	for memory, want := range map[uint64]int{0: 128, 1 << 30: 4096, 2 << 30: 5792, 64 << 30: 32768, 1 << 45: 262144} {
		if got := reserveKiB(memory); got != want {
			t.Errorf("of %d bytes %d KiB are kept, want %d", memory, got, want)
		}
	}
}
