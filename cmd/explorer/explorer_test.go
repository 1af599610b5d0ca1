package main

import (
	"bufio"
	"bytes"
	"context"
	"encoding/json"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	"go.uber.org/goleak"

	"github.com/croft-edge/croft/pkg/cgroup"
	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// TestMain lets the test's binary be the explorer itself, so that the tests below run the real main in
// a process of its own.
func TestMain(m *testing.M) {
	if os.Getenv("CROFT_TEST_MAIN") == "explorer" {
		main()
		return
	}
	goleak.VerifyTestMain(m)
}

// shipped builds the explorer as it is shipped, for a test of its memory or under a heavy load: with the
// race detector it takes several times as much of both.
func shipped(t *testing.T, args ...string) *exec.Cmd {
	t.Helper()
	program := filepath.Join(t.TempDir(), "explorer")
	build := exec.CommandContext(t.Context(), "go", "build", "-trimpath", "-ldflags", "-s -w", "-o", program, ".")
	build.Env = append(os.Environ(), "CGO_ENABLED=0")
	if out, err := build.CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	return exec.Command(program, append([]string{"--listen", "127.0.0.1:0"}, args...)...)
}

// process is a running explorer.
type process struct {
	t    *testing.T
	cmd  *exec.Cmd
	url  string
	errs bytes.Buffer
	done chan struct{}
}

func command(args ...string) *exec.Cmd {
	cmd := exec.Command(os.Args[0], args...)
	cmd.Env = append(os.Environ(), "CROFT_TEST_MAIN=explorer")
	return cmd
}

func run(t *testing.T, args ...string) *process {
	t.Helper()
	return start(t, command(append([]string{"--listen", "127.0.0.1:0"}, args...)...))
}

func start(t *testing.T, cmd *exec.Cmd) *process {
	t.Helper()
	p := &process{t: t, cmd: cmd, done: make(chan struct{})}
	p.cmd.Stderr = &p.errs
	out, err := p.cmd.StdoutPipe()
	must(t, err)
	must(t, p.cmd.Start())
	t.Cleanup(func() {
		p.end(syscall.SIGKILL)
		removeGroup(t, cmd)
	})
	line, err := bufio.NewReader(out).ReadString('\n')
	url, ok := strings.CutPrefix(strings.TrimSpace(line), "listening on ")
	if err != nil || !ok {
		t.Fatalf("it says %q, %v; %s", line, err, p.errs.String())
	}
	p.url = url
	go func() {
		_ = p.cmd.Wait() // the state is in cmd.ProcessState
		close(p.done)
	}()
	return p
}

// removeGroup removes the control group that a killed explorer leaves.
func removeGroup(t *testing.T, cmd *exec.Cmd) {
	t.Helper()
	at := slices.Index(cmd.Args, "--db")
	if at < 0 {
		return
	}
	group, err := cgroup.Beside(groupOf(cmd.Args[at+1]))
	must(t, err)
	group.Remove()
}

// end sends the signal and waits for the process to end.
func (p *process) end(sig syscall.Signal) {
	select {
	case <-p.done:
		return
	default:
	}
	_ = p.cmd.Process.Signal(sig)
	select {
	case <-p.done:
	case <-time.After(time.Minute):
		p.t.Errorf("the explorer doesn't end by %s", sig)
		_ = p.cmd.Process.Kill()
		<-p.done
	}
}

func client(t *testing.T, url string, key *sign.KeyPair) *wire.Client {
	t.Helper()
	c := wire.Config{URL: url, Timeout: time.Minute}
	if key != nil {
		c.Signer = wire.KeySigner(wire.RoleNode, *key)
	}
	out, err := wire.NewClient(c)
	must(t, err)
	t.Cleanup(out.Close)
	return out
}

func volume(t *testing.T, user sign.KeyPair, nodeID string) *workload.Reservation {
	t.Helper()
	r := &workload.Reservation{NodeID: nodeID, Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now().UTC(), Duration: time.Hour}
	must(t, r.Sign(user.Private()))
	return r
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func key(t *testing.T) sign.KeyPair {
	t.Helper()
	k, err := sign.Generate()
	must(t, err)
	return k
}

// acknowledged are the reservations acknowledged to clients, under load and over kills.
type acknowledged struct {
	mu  sync.Mutex
	ids map[string]*workload.Reservation
}

func (a *acknowledged) add(t *testing.T, id string, r *workload.Reservation) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if _, twice := a.ids[id]; twice {
		t.Errorf("%s was given out twice", id)
	}
	a.ids[id] = r
}

// Killed repeatedly under load, the explorer loses nothing that it has acknowledged, never reuses a
// number, and each node's changes only grow.
func TestKilledUnderLoad(t *testing.T) {
	db := filepath.Join(t.TempDir(), "explorer.db")
	user := key(t)
	nodes := []sign.KeyPair{key(t), key(t), key(t)}
	said := &acknowledged{ids: map[string]*workload.Reservation{}}
	var unsure []*workload.Reservation // pushed, but the answer was lost
	for round := range 4 {
		p := run(t, "--db", db, "--key-rate", "0", "--address-rate", "0")
		if round == 0 {
			for _, k := range nodes {
				must(t, client(t, p.url, &k).RegisterNode(t.Context(), wire.Node{NodeID: k.ID()}))
			}
		}
		// Pushes without an answer before the kill are repeated, as a client does.
		for _, r := range unsure {
			id, err := client(t, p.url, nil).Reserve(t.Context(), r)
			must(t, err)
			said.add(t, id, r)
		}
		unsure = p.loadAndKill(user, nodes, said)
	}
	p := run(t, "--db", db)
	c := client(t, p.url, nil)
	changes := map[string]bool{}
	for _, k := range nodes {
		for cursor := (wire.Cursor{}); ; {
			page, err := c.PollPage(t.Context(), k.ID(), cursor, 0)
			must(t, err)
			for _, raw := range page.Reservations {
				r, err := wire.Document(raw)
				must(t, err)
				if changes[r.ID] || r.NodeID != k.ID() {
					t.Errorf("%s comes twice, or to another node", r.ID)
				}
				changes[r.ID] = true
			}
			cursor = wire.Cursor{Epoch: page.Epoch, Change: page.Next}
			if page.Next == page.Head {
				break
			}
		}
	}
	said.mu.Lock()
	defer said.mu.Unlock()
	for id, r := range said.ids {
		got, err := c.Get(t.Context(), id)
		must(t, err)
		if string(got.Signature) != string(r.Signature) || !changes[id] {
			t.Errorf("%s isn't what was acknowledged, or its node doesn't get it", id)
		}
	}
	t.Logf("%d acknowledged, %d kept, 4 kills", len(said.ids), len(changes))
	if len(said.ids) < 100 {
		t.Errorf("only %d were acknowledged: the load is no load", len(said.ids))
	}
}

// loadAndKill pushes from many clients and kills the explorer meanwhile. It returns the reservations
// whose push got no answer.
func (p *process) loadAndKill(user sign.KeyPair, nodes []sign.KeyPair, said *acknowledged) []*workload.Reservation {
	p.t.Helper()
	var mu sync.Mutex
	var unsure []*workload.Reservation
	enough := make(chan struct{})
	var once sync.Once
	answered := 0
	var load sync.WaitGroup
	for i := range 8 {
		c := client(p.t, p.url, nil)
		load.Go(func() {
			for {
				r := &workload.Reservation{NodeID: nodes[i%len(nodes)].ID(), Type: workload.TypeVolume, Data: json.RawMessage(`{"size":1,"type":"SSD"}`), Created: time.Now().UTC(), Duration: time.Hour}
				if err := r.Sign(user.Private()); err != nil {
					p.t.Error(err)
					return
				}
				id, err := c.Reserve(context.Background(), r)
				mu.Lock()
				if err != nil {
					unsure = append(unsure, r)
					mu.Unlock()
					return
				}
				if answered++; answered > 60 {
					once.Do(func() { close(enough) })
				}
				mu.Unlock()
				said.add(p.t, id, r)
			}
		})
	}
	<-enough
	p.end(syscall.SIGKILL)
	load.Wait()
	return unsure
}

func TestItStopsInOrder(t *testing.T) {
	dir := t.TempDir()
	p := run(t, "--db", filepath.Join(dir, "e.db"), "--port-file", filepath.Join(dir, "port"))
	port, err := os.ReadFile(filepath.Join(dir, "port"))
	must(t, err)
	if "http://"+strings.TrimSpace(string(port)) != p.url {
		t.Errorf("the port file says %q, the explorer %q", port, p.url)
	}
	k := key(t)
	c := client(t, p.url, &k)
	must(t, c.RegisterNode(t.Context(), wire.Node{NodeID: k.ID()}))
	first, err := c.PollPage(t.Context(), k.ID(), wire.Cursor{}, 0)
	must(t, err)
	// A waiting long poll is answered, and doesn't delay the explorer's end.
	polled := make(chan error, 1)
	waits := make(chan struct{})
	go func() {
		close(waits)
		_, err := c.PollPage(context.Background(), k.ID(), wire.Cursor{Epoch: first.Epoch}, 50*time.Second)
		polled <- err
	}()
	<-waits
	must(t, settle(func() bool { return metric(t, p.url, "croft_explorer_long_polls 1") }))
	start := time.Now()
	p.end(syscall.SIGTERM)
	if err := <-polled; err != nil {
		t.Errorf("the poll in hand ends with %v", err)
	}
	if code := p.cmd.ProcessState.ExitCode(); code != 0 || time.Since(start) > 8*time.Second {
		t.Errorf("it ends with %d after %s: %s", code, time.Since(start), p.errs.String())
	}
	if _, err := os.Stat(filepath.Join(dir, "e.db-wal")); !os.IsNotExist(err) {
		t.Error("the database wasn't closed: its -wal file is there")
	}
}

func settle(ok func() bool) error {
	end := time.After(time.Minute)
	tick := time.NewTicker(20 * time.Millisecond)
	defer tick.Stop()
	for !ok() {
		select {
		case <-tick.C:
		case <-end:
			return context.DeadlineExceeded
		}
	}
	return nil
}

func metric(t *testing.T, url, line string) bool {
	t.Helper()
	resp, err := http.Get(url + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
		if lines.Text() == line {
			return true
		}
	}
	return false
}

func TestBadFlags(t *testing.T) {
	dir := t.TempDir()
	for name, args := range map[string][]string{
		"unknown flag":       {"--colour", "red"},
		"unknown command":    {"sing"},
		"little memory":      {"--max-memory", "511"},
		"negative memory":    {"--max-memory", "-1"},
		"listen":             {"--listen", "here"},
		"taken address":      {"--listen", takenAddress(t)},
		"log level":          {"--log-level", "loud"},
		"duration":           {"--max-duration", "-1h"},
		"cert without key":   {"--tls-cert", "x.pem"},
		"absent certificate": {"--tls-cert", filepath.Join(dir, "x.pem"), "--tls-key", filepath.Join(dir, "x.key")},
		"no database folder": {"--db", filepath.Join(dir, "no", "e.db")},
		"backup without db":  {"db", "backup", filepath.Join(dir, "b.db")},
		"epoch of nothing":   {"db", "new-epoch", "--db", filepath.Join(dir, "absent.db")},
	} {
		t.Run(name, func(t *testing.T) {
			cmd := command(args...)
			cmd.Dir = t.TempDir()
			out, err := cmd.CombinedOutput()
			if err == nil || cmd.ProcessState.ExitCode() != 1 || !strings.Contains(string(out), "explorer: ") {
				t.Errorf("it ends with %v and says %s", err, out)
			}
		})
	}
}

func takenAddress(t *testing.T) string {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	must(t, err)
	t.Cleanup(func() { _ = l.Close() })
	return l.Addr().String()
}

// The operator's procedure: back up while it runs, restore, new epoch, go on.
func TestBackupAndRestore(t *testing.T) {
	dir := t.TempDir()
	db, copied := filepath.Join(dir, "e.db"), filepath.Join(dir, "copy.db")
	p := run(t, "--db", db)
	k, user := key(t), key(t)
	c := client(t, p.url, &k)
	must(t, c.RegisterNode(t.Context(), wire.Node{NodeID: k.ID()}))
	kept, err := c.Reserve(t.Context(), volume(t, user, k.ID()))
	must(t, err)
	if out, err := command("db", "backup", "--db", db, copied).CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	lost, err := c.Reserve(t.Context(), volume(t, user, k.ID()))
	must(t, err)
	p.end(syscall.SIGTERM)

	if out, err := command("db", "new-epoch", "--db", copied, "--skip", "10").CombinedOutput(); err != nil {
		t.Fatalf("%v: %s", err, out)
	}
	p = run(t, "--db", copied)
	c = client(t, p.url, &k)
	_, err = c.Get(t.Context(), kept)
	must(t, err)
	if _, err = c.Get(t.Context(), lost); node.KindOf(err) != node.NotExist {
		t.Errorf("what came after the backup: %v", err)
	}
	next, err := c.Reserve(t.Context(), volume(t, user, k.ID()))
	must(t, err)
	if next != "12-1" {
		t.Errorf("the next is %s, want 12-1: %s was given out before", next, lost)
	}
}
