package main

import (
	"context"
	"errors"
	"fmt"
	"io"
	"log"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/google/go-containerregistry/pkg/name"
	"github.com/google/go-containerregistry/pkg/registry"
	"github.com/google/go-containerregistry/pkg/v1/empty"
	"github.com/google/go-containerregistry/pkg/v1/remote"
	"github.com/rogpeppe/go-internal/testscript"
	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/pkg/workload"
)

func TestMain(m *testing.M) {
	testscript.Main(m, map[string]func(){"croft": func() { os.Exit(run()) }})
}

// worldKey is where a script's world is found.
type worldKey struct{}

// TestScripts runs the real command line against a real explorer; what the
// commands mean beside testscript's own is said at each of them.
func TestScripts(t *testing.T) {
	testscript.Run(t, testscript.Params{
		Dir:                 "testdata/script",
		RequireExplicitExec: true,
		RequireUniqueNames:  true,
		Setup:               setup,
		Cmds: map[string]func(*testscript.TestScript, bool, []string){
			"exits": exits, "node": nodeCommand, "explorer": explorerCommand, "pushes": pushes, "mode": mode, "fill": fill, "keep": keep, "interrupt": interrupt,
			"waitfor": waitFor, "shows": shows, "locked": locked, "neighbour": neighbour, "hash": hashCommand, "registry": registryCommand,
			"machine": machineCommand, "admin-conf": adminConf, "state": stateCommand, "debug": debugCommand, "contains": contains, "looks": looks,
		},
	})
}

func setup(e *testscript.Env) error {
	w, err := newWorld(e.WorkDir)
	if err != nil {
		return err
	}
	e.Defer(w.close)
	e.Values[worldKey{}] = w
	home := filepath.Join(e.WorkDir, "home")
	if err := os.Mkdir(home, 0o700); err != nil {
		return err
	}
	e.Setenv("HOME", home)
	e.Setenv("TZ", "UTC")
	// The race detector of each command has the settings of this process's.
	e.Setenv("GORACE", os.Getenv("GORACE"))
	e.Setenv("NODE", w.node.key.ID())
	e.Setenv("CROFT_EXPLORER", w.front.URL)
	e.Setenv("CROFT_STATE_SOCKET", filepath.Join(e.WorkDir, "run", "state.sock"))
	e.Setenv("CROFT_DEBUG_SOCKET", filepath.Join(e.WorkDir, "run", "debug.sock"))
	return nil
}

func worldOf(ts *testscript.TestScript) *world { return ts.Value(worldKey{}).(*world) }

// exits CODE COMMAND…: the command ends with this exit code.
func exits(ts *testscript.TestScript, _ bool, args []string) {
	want, err := strconv.Atoi(args[0])
	ts.Check(err)
	err = ts.Exec(args[1], args[2:]...)
	var exit *exec.ExitError
	got := 0
	if errors.As(err, &exit) {
		got = exit.ExitCode()
	} else if err != nil {
		ts.Fatalf("%v", err)
	}
	if got != want {
		ts.Fatalf("exit code is %d, want %d\nstdout: %s\nstderr: %s", got, want, ts.ReadFile("stdout"), ts.ReadFile("stderr"))
	}
}

// node on|off|ok|door|hidden|steady|fail TEXT|evict ID WHY|joins FARM|seen AGO|console FILE: what the node does from now
// on; "door" opens its door, "hidden" one that only the explorer reaches; "steady" lets its containers run; "why TEXT" is what its door says of whatever isn't done; "console FILE" is what its VMs' consoles show. It is off at first; "seen AGO" registers it at that time, before "on".
func nodeCommand(ts *testscript.TestScript, _ bool, args []string) {
	n := worldOf(ts).node
	switch args[0] {
	case "on":
		ts.Check(n.register(context.Background(), 0))
		ts.Check(n.on())
	case "off":
		n.off()
	case "ok":
		n.fail("")
	case "fail":
		n.fail(args[1])
	case "evict":
		ts.Check(n.evict(context.Background(), args[1], args[2]))
	case "why":
		n.why.Store(args[1])
	case "console":
		n.console.Store(os.Expand(ts.ReadFile(args[1]), ts.Getenv))
	case "steady":
		n.steady.Store(true)
	case "door", "hidden":
		n.shut()
		door, err := n.openDoor(context.Background(), args[0] == "hidden")
		n.door = door
		ts.Check(err)
	case "joins":
		farm, err := strconv.ParseUint(args[1], 10, 64)
		ts.Check(err)
		n.farm = farm
	case "seen":
		ago, err := time.ParseDuration(args[1])
		ts.Check(err)
		ts.Check(n.register(context.Background(), ago))
	default:
		ts.Fatalf("unknown: node %s", args[0])
	}
}

// registry NAME…: a registry at $REGISTRY has an image of each name.
func registryCommand(ts *testscript.TestScript, _ bool, args []string) {
	s := httptest.NewServer(registry.New(registry.Logger(log.New(io.Discard, "", 0))))
	ts.Defer(s.Close)
	host := strings.TrimPrefix(s.URL, "http://")
	for _, image := range args {
		ref, err := name.ParseReference(host + "/" + image)
		ts.Check(err)
		ts.Check(remote.Write(ref, empty.Image))
	}
	ts.Setenv("REGISTRY", host)
}

// neighbour NAME ADDRESS… [port:N…]: another node is at the explorer, with these
// addresses and WireGuard ports in use. $NAME is its ID. It never answers.
func neighbour(ts *testscript.TestScript, _ bool, args []string) {
	id, err := worldOf(ts).neighbour(context.Background(), args[1:])
	ts.Check(err)
	ts.Setenv(args[0], id)
}

// explorer stop|start|HOW-IT-LIES: see proxy.
func explorerCommand(ts *testscript.TestScript, _ bool, args []string) {
	w := worldOf(ts)
	switch args[0] {
	case "stop":
		w.stopExplorer()
	case "start":
		w.node.off()
		ts.Check(w.startExplorer())
		ts.Check(w.node.on())
	default:
		w.proxy.lie(args[0])
	}
}

// pushes N: so many documents were pushed since the script began.
func pushes(ts *testscript.TestScript, _ bool, args []string) {
	if got := fmt.Sprint(worldOf(ts).proxy.pushed()); got != args[0] {
		ts.Fatalf("%s documents were pushed, want %s", got, args[0])
	}
}

// mode PERM FILE: the file has this mode.
func mode(ts *testscript.TestScript, _ bool, args []string) {
	info, err := os.Stat(ts.MkAbs(args[1]))
	ts.Check(err)
	if got := fmt.Sprintf("%04o", info.Mode().Perm()); got != args[0] {
		ts.Fatalf("%s has mode %s, want %s", args[1], got, args[0])
	}
}

// fill FILE: writes what the environment says where the file says $NAME.
func fill(ts *testscript.TestScript, _ bool, args []string) {
	for _, name := range args {
		text := os.Expand(ts.ReadFile(name), ts.Getenv)
		ts.Check(os.WriteFile(ts.MkAbs(name), []byte(text), 0o600))
	}
}

// keep NAME: the last standard output goes into a file of that name.
func keep(ts *testscript.TestScript, _ bool, args []string) {
	ts.Check(os.WriteFile(ts.MkAbs(args[0]), []byte(ts.ReadFile("stdout")), 0o600))
}

// hash NAME: $NAME is the hash of the reservation that the last standard output shows.
func hashCommand(ts *testscript.TestScript, _ bool, args []string) {
	r, _, err := workload.DecodeShown([]byte(ts.ReadFile("stdout")))
	ts.Check(err)
	h, err := r.Hash()
	ts.Check(err)
	ts.Setenv(args[0], h.Hex())
}

// waitfor FILE: the file is there.
func waitFor(ts *testscript.TestScript, _ bool, args []string) {
	settle(ts, "there is no "+args[0], func() bool {
		_, err := os.Stat(ts.MkAbs(args[0]))
		return err == nil
	})
}

// shows PATTERN PROGRAM ARGUMENT…: the program's output has the pattern; on a busy machine it doesn't reach a node at once.
func shows(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile(args[0])
	ts.Check(err)
	settle(ts, strings.Join(args[1:], " ")+" doesn't show "+args[0], func() bool {
		return ts.Exec(args[1], args[2:]...) == nil && pattern.MatchString(ts.ReadFile("stdout"))
	})
}

// contains FILE PATTERN: the file has the pattern, or gets it.
func contains(ts *testscript.TestScript, _ bool, args []string) {
	pattern, err := regexp.Compile("(?m)" + args[1])
	ts.Check(err)
	settle(ts, args[0]+" doesn't have "+args[1], func() bool {
		got, err := os.ReadFile(ts.MkAbs(args[0]))
		return err == nil && pattern.Match(got)
	})
}

// looks N: who watches has been shown so many reservations since.
func looks(ts *testscript.TestScript, _ bool, args []string) {
	more, err := strconv.Atoi(args[0])
	ts.Check(err)
	p := worldOf(ts).proxy
	want := p.looks() + more
	settle(ts, "nobody asks for "+args[0]+" more reservations", func() bool { return p.looks() >= want })
}

// locked FILE: somebody has the lock on it.
func locked(ts *testscript.TestScript, _ bool, args []string) {
	settle(ts, "nobody has locked "+args[0], func() bool {
		f, err := os.Open(ts.MkAbs(args[0]))
		if err != nil {
			return false
		}
		defer f.Close()
		return errors.Is(unix.Flock(int(f.Fd()), unix.LOCK_EX|unix.LOCK_NB), unix.EWOULDBLOCK)
	})
}

// settle waits until ok says so.
func settle(ts *testscript.TestScript, what string, ok func() bool) {
	tick := time.NewTicker(10 * time.Millisecond)
	defer tick.Stop()
	for deadline := time.Now().Add(time.Minute); !ok(); <-tick.C {
		if time.Now().After(deadline) {
			ts.Fatalf("%s after a minute", what)
		}
	}
}

// interrupt: the background commands get an interrupt.
func interrupt(ts *testscript.TestScript, _ bool, args []string) {
	for _, c := range ts.BackgroundCmds() {
		ts.Check(c.Process.Signal(os.Interrupt))
	}
}
