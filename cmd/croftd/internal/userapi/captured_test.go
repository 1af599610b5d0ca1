package userapi_test

import (
	"bytes"
	"context"
	"crypto/rand"
	"encoding/hex"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"os"
	"os/exec"
	"runtime"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/cmd/croftd/internal/userapi"
	"github.com/croft-edge/croft/cmd/croftd/internal/userapi/wire"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
	"github.com/croft-edge/croft/pkg/sign"
)

// hostile makes this program stand in for the door's process, captured.
func hostile(how string, args []string) {
	c, err := wire.NewControl(os.NewFile(3, "control"))
	if err != nil {
		os.Exit(3)
	}
	if how != "mute" {
		_, _ = c.FromAgent()
	}
	hello := func() { _ = c.Send(wire.Message{Kind: wire.Hello, Body: make([]byte, wire.KeySize)}) }
	switch how {
	case "dies":
	case "shouts":
		_, _ = os.Stderr.WriteString(strings.Repeat("\x1b[2J shouted ", 1<<16))
	case "garbage":
		for range 100 {
			b := make([]byte, 300)
			_, _ = rand.Read(b)
			_ = c.Send(wire.Message{Kind: wire.Kind(b[0] | 0x80), Body: b})
		}
		select {}
	case "asks first":
		_ = c.Send(wire.Message{Kind: wire.Proof, Body: make([]byte, wire.ChallengeSize)})
		select {}
	case "two keys":
		hello()
		hello()
		select {}
	case "a long challenge":
		hello()
		_ = c.Send(wire.Message{Kind: wire.Proof, Body: make([]byte, 200)})
		select {}
	case "an unknown limit":
		hello()
		_ = c.Send(wire.Message{Kind: wire.Reached, Number: 99, Body: make([]byte, 4)})
		select {}
	case "a beat too many":
		for n := range uint32(9) {
			_ = c.Send(wire.Message{Kind: wire.Beat, Number: 1000 + n})
		}
		select {}
	case "descriptors":
		hello()
		for c.Send(wire.Message{Kind: wire.Link, File: os.Stdin}) == nil {
		}
		select {}
	case "proofs":
		hello()
		for c.Send(wire.Message{Kind: wire.Proof, Body: make([]byte, wire.ChallengeSize)}) == nil {
		}
		select {}
	case "opens":
		hello()
		for c.Send(wire.Message{Kind: wire.Link}) == nil {
		}
		select {}
	case "mute":
		hello()
		select {}
	case "keeps tunnels":
		for hello(); ; {
			if m, err := c.FromAgent(); err != nil || m.Kind == wire.Beat && c.Send(m) != nil {
				os.Exit(7)
			}
		}
	case "links":
		hello()
		hostileLinks(c)
	case "replays":
		hello()
		replays(c, args)
	}
	os.Exit(4)
}

// hostileLinks opens links without end, and sends nonsense on each. It asks for many at a time: one after the other would take
// a busy machine two changes of the process for each of a thousand links, which is minutes.
func hostileLinks(c *wire.Control) {
	const ahead = 64
	held := map[uint32]net.Conn{}
	for n, asked := uint32(1), uint32(1); ; {
		for ; asked < n+ahead; asked++ {
			if c.Send(wire.Message{Kind: wire.Link, Number: asked}) != nil {
				os.Exit(5)
			}
		}
		m, err := c.FromAgent()
		if err != nil {
			os.Exit(5)
		}
		if m.Kind == wire.Beat {
			_ = c.Send(m)
			continue
		}
		n++
		if m.File == nil {
			continue
		}
		conn, err := wire.Socket(m.File)
		if err != nil {
			continue // its own descriptors are exhausted, which isn't the agent's problem
		}
		held[n] = conn
		begin := func() {
			_ = wire.WriteFrame(conn, wire.Connection, append(make([]byte, wire.BindingSize), "127.0.0.1:1"...))
		}
		switch n % 6 {
		case 0: // nothing
		case 1:
			_, _ = conn.Write([]byte{'Q', 255, 255, 255, 255})
		case 2:
			begin()
			_, _ = conn.Write([]byte{'Q', 0, 1, 0, 0, 1, 2, 3}) // the rest never comes
		case 3:
			begin()
			_ = wire.WriteFrame(conn, wire.Stayed, []byte{0})
			_ = wire.WriteFrame(conn, wire.Stayed, []byte{0})
		case 4:
			begin()
			_ = wire.WriteFrame(conn, wire.Request, bytes.Repeat([]byte{0xff}, 4000))
		case 5: // requests whose answers aren't read
			begin()
			raw, _ := wire.Asked{Method: "GET", Target: "/v1/version"}.Encode()
			for range 3 {
				_ = wire.WriteFrame(conn, wire.Request, raw)
			}
		}
	}
}

// said is a captured process's request, with the binding that it claims and the answer's status.
type said struct {
	Binding []byte
	Raw     []byte
	Status  int
}

// replays sends requests, each on a link of its own, and reports the answers' status.
func replays(c *wire.Control, args []string) {
	raw, _ := hex.DecodeString(args[0])
	var all []said
	_ = json.Unmarshal(raw, &all)
	for i := range all {
		_ = c.Send(wire.Message{Kind: wire.Link, Number: uint32(i)})
		m, err := c.FromAgent()
		for ; err == nil && m.Kind == wire.Beat; m, err = c.FromAgent() {
			_ = c.Send(m)
		}
		conn, err := wire.Socket(m.File)
		if err != nil {
			os.Exit(6)
		}
		_ = wire.WriteFrame(conn, wire.Connection, append(all[i].Binding[:wire.BindingSize:wire.BindingSize], "127.0.0.1:1"...))
		_ = wire.WriteFrame(conn, wire.Request, all[i].Raw)
		buffer := make([]byte, wire.MaxPart)
		for all[i].Status == 0 {
			f, err := wire.ReadFrame(conn, buffer)
			if err != nil {
				all[i].Status = -1
			}
			if f.Kind == wire.Stay {
				_ = wire.WriteFrame(conn, wire.Stayed, []byte{wire.StayOK})
			}
			var a wire.Answer
			if f.Kind == wire.Head && json.Unmarshal(f.Payload, &a) == nil {
				all[i].Status = a.Status
			}
		}
		_ = conn.Close()
	}
	for _, a := range all {
		_, _ = fmt.Fprint(os.Stderr, " ", a.Status)
	}
	_, _ = fmt.Fprint(os.Stderr, " that is all")
}

func openFiles(t *testing.T) int {
	t.Helper()
	return len(must[[]os.DirEntry](t)(os.ReadDir("/proc/self/fd")))
}

// as makes hostile the door's process, behaving as how says.
func as(how string, args ...string) func(*userapi.Config) {
	return func(c *userapi.Config) {
		c.Command = append([]string{"/proc/self/exe", "hostile", how}, args...)
		if c.Limits.Hung = patience; how == "mute" {
			c.Limits.Hung = time.Second
		}
	}
}

// TestAHostileDoorCostsOnlyItself: whatever the door's process does, it is ended and restarted, and the
// agent has as many open files and goroutines, and as much memory, as before.
func TestAHostileDoorCostsOnlyItself(t *testing.T) {
	for how, words := range map[string]string{
		"dies": "exit status 4", "shouts": "shouted", "garbage": "cannot take a message", "asks first": "before its key",
		"two keys": "its key twice", "a long challenge": "cannot take a message of the door", "an unknown limit": "unknown limit",
		"a beat too many": "without being asked", "descriptors": "it is larger than allowed", "proofs": "more than 4 signatures",
		"mute": "sent nothing for 1s",
	} {
		t.Run(how, func(t *testing.T) {
			files, routines := openFiles(t), runtime.NumGoroutine()
			t.Run("run", func(t *testing.T) {
				w := newWorld(t, as(how), func(c *userapi.Config) {
					// A signature takes long, as by a busy module.
					c.Sign = func(ctx context.Context, _ []byte) ([]byte, error) { <-ctx.Done(); return nil, ctx.Err() }
				})
				w.settle("it isn't started again", func() bool { return w.door.Restarts() >= 2 })
				if text := w.log.String(); !strings.Contains(text, words) || strings.Contains(text, "\x1b") || len(text) > 64<<10 {
					t.Errorf("the log says %.2000s", text)
				}
			})
			settled(t, files, routines)
		})
	}
}

// settled waits until there are at most as many open files and goroutines as before.
func settled(t *testing.T, files, routines int) {
	t.Helper()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		f, r := openFiles(t), runtime.NumGoroutine()
		if f <= files && r <= routines {
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("%d open files instead of %d, %d goroutines instead of %d", f, files, r, routines)
		}
	}
}

// TestADoorThatOpensWithoutEnd: links and messages are bounded, read or not.
func TestADoorThatOpensWithoutEnd(t *testing.T) {
	for _, how := range []string{"opens", "links"} {
		t.Run(how, func(t *testing.T) {
			files, routines := openFiles(t), runtime.NumGoroutine()
			t.Run("run", func(t *testing.T) {
				before := limit.Times()
				var m0, m1 runtime.MemStats
				runtime.GC()
				runtime.ReadMemStats(&m0)
				// On a busy machine links mustn't end as fast as they are opened: then no bound is ever reached.
				slow := func(c *userapi.Config) {
					c.Limits.Greeting, c.Limits.Header, c.Limits.Body, c.Limits.Idle = 2*patience, 2*patience, 2*patience, 2*patience
				}
				w := newWorld(t, as(how), slow)
				w.settle("no bound is reached", func() bool {
					now := limit.Times()
					return now["door-links"] > before["door-links"] || now["door-messages"] > before["door-messages"] || w.door.Restarts() > 0
				})
				if n := openFiles(t); n > files+1100 {
					t.Errorf("%d open files", n)
				}
				runtime.GC()
				runtime.ReadMemStats(&m1)
				if grown := int64(m1.HeapAlloc) - int64(m0.HeapAlloc); grown > 64<<20 {
					t.Errorf("%d MiB are held", grown>>20)
				}
			})
			settled(t, files, routines)
		})
	}
}

// TestATunnelIntoAHostileDoor: the process never ends connections of the tunnel.
func TestATunnelIntoAHostileDoor(t *testing.T) {
	files, routines := openFiles(t), runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		before := limit.Times()["door-pipes"]
		w := newWorld(t, as("keeps tunnels"))
		for range 800 {
			ours, theirs := net.Pipe()
			t.Cleanup(func() { _ = ours.Close() })
			w.door.Take(theirs)
		}
		w.settle("no bound is reached", func() bool { return limit.Times()["door-pipes"] >= before+96 })
		if n := openFiles(t); n > files+800 {
			t.Errorf("%d open files", n)
		}
	})
	settled(t, files, routines)
}

// TestCapturedDoorHasNoRights: a process that has seen a user's request can't replay it, nor make another
// one of theirs, whichever binding it claims.
func TestCapturedDoorHasNoRights(t *testing.T) {
	user, own := must[sign.KeyPair](t)(sign.Generate()), must[sign.KeyPair](t)(sign.Generate())
	id := own.ID()
	at := func(fill byte) []byte { return bytes.Repeat([]byte{fill}, wire.BindingSize) }
	signed := func(by sign.KeyPair, target string, binding []byte) wire.Asked {
		a := wire.Asked{Method: "GET", Target: target, Header: map[string][]string{}}
		nodeapi.Request{Node: id, Method: a.Method, Target: target, Time: time.Now(), Binding: binding}.Sign(by, a.Header)
		return a
	}
	encoded := func(a wire.Asked) []byte {
		raw, ok := a.Encode()
		if !ok {
			t.Fatal("it is too large")
		}
		return raw
	}
	const status = "/v1/workloads/7-1/status"
	good := signed(user, status, at(1))
	other := good
	other.Target = "/v1/workloads/7-1/stats"
	forged := signed(own, status, at(3))
	forged.Header.Set("Croft-User", user.ID())
	all := []said{
		{Binding: at(1), Raw: encoded(good)},
		{Binding: at(1), Raw: encoded(good)},  // again, on a connection that claims the same binding
		{Binding: at(2), Raw: encoded(good)},  // on another one
		{Binding: at(1), Raw: encoded(other)}, // another request with its signature
		{Binding: at(3), Raw: encoded(forged)},
		{Binding: at(1), Raw: encoded(signed(user, status, at(1)))}, // a fresh one for a connection that has ended
		{Binding: at(4), Raw: encoded(signed(own, status, at(4)))},  // its own key owns nothing here
		{Binding: at(5), Raw: encoded(signed(user, status, at(5)))},
	}
	script := must[[]byte](t)(json.Marshal(all))
	w := newWorld(t, as("replays", hex.EncodeToString(script)), func(c *userapi.Config) {
		c.NodeID, c.Workloads = id, &records{owner: user.ID()}
	})
	w.settle("it doesn't answer", func() bool { return strings.Contains(w.log.String(), "that is all") })
	if text := w.log.String(); !strings.Contains(text, " 200 401 401 401 401 401 404 200 that is all") {
		t.Errorf("the requests are answered %s", text)
	}
}

// doorPID is the process ID of the door's process, a child of this one.
func doorPID(t *testing.T) int {
	t.Helper()
	for _, task := range must[[]os.DirEntry](t)(os.ReadDir("/proc/self/task")) {
		raw, _ := os.ReadFile("/proc/self/task/" + task.Name() + "/children")
		for _, text := range strings.Fields(string(raw)) {
			line, _ := os.ReadFile("/proc/" + text + "/cmdline")
			if bytes.HasSuffix(line, []byte("\x00door\x00")) {
				return must[int](t)(strconv.Atoi(text))
			}
		}
	}
	return 0
}

// TestADoorThatIsKilled: an owner's command and log end, the owner reconnects, and the agent keeps
// nothing of the old connections.
func TestADoorThatIsKilled(t *testing.T) {
	files, routines := openFiles(t), runtime.NumGoroutine()
	t.Run("run", func(t *testing.T) {
		w := newWorld(t)
		for round := range 8 {
			running := w.streams.running()
			ends := make(chan error, 2)
			go func() {
				_, err := w.dial(w.dialer()).Exec(t.Context(), "7-1", nodeapi.ExecOptions{Args: []string{"flood"}}, nodeapi.ExecIO{Stdout: io.Discard, Stderr: io.Discard})
				ends <- err
			}()
			go func() {
				ends <- w.dial(w.dialer()).Logs(t.Context(), "7-1", nodeapi.LogOptions{Tail: 0, Follow: true}, func(nodeapi.LogLine) error { return nil })
			}()
			w.streams.lines <- node.LogLine{Stream: "stdout", Text: "x"}
			w.settle("the command doesn't begin", func() bool { return w.streams.running() == running+1 })
			<-time.After(time.Duration(round) * 7 * time.Millisecond)
			if err := unix.Kill(doorPID(t), unix.SIGKILL); err != nil {
				t.Fatal(err)
			}
			for range 2 {
				if err := <-ends; node.KindOf(err) != node.Transient {
					t.Errorf("it ends with %v", err)
				}
			}
			w.settle("the command runs on", func() bool { return w.streams.running() == 0 })
			if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
				t.Errorf("afterwards: %v", err)
			}
		}
		if n := w.door.Restarts(); n != 8 {
			t.Errorf("it was started again %d times", n)
		}
	})
	settled(t, files, routines)
}

// agent runs a node with a door until it is killed.
func agent() {
	key, err := sign.Generate()
	if err != nil {
		os.Exit(3)
	}
	d, err := userapi.Listen(context.Background(), userapi.Config{
		NodeID: key.ID(), Listen: "127.0.0.1:0", Now: func() (time.Time, bool) { return time.Now(), true }, Workloads: &records{},
		Sign: func(_ context.Context, m []byte) ([]byte, error) { return key.Sign(m), nil },
	})
	if err != nil {
		os.Exit(4)
	}
	_, _ = fmt.Println(key.ID(), d.Address())
	_ = d.Run(context.Background())
	os.Exit(5)
}

// TestTheProcessEndsWithItsAgent: after a kill of the agent, no process serves its port.
func TestTheProcessEndsWithItsAgent(t *testing.T) {
	cmd := exec.Command("/proc/self/exe", "agent")
	out := must[io.ReadCloser](t)(cmd.StdoutPipe())
	if err := cmd.Start(); err != nil {
		t.Fatal(err)
	}
	defer func() { _ = cmd.Process.Kill(); _ = cmd.Wait() }()
	var id, address string
	if _, err := fmt.Fscan(out, &id, &address); err != nil {
		t.Fatal(err)
	}
	c, err := nodeapi.Dialer{Node: id, User: must[sign.KeyPair](t)(sign.Generate()), Address: address}.Dial(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	defer c.Close()
	if _, err := c.Version(t.Context()); err != nil {
		t.Fatal(err)
	}
	_ = cmd.Process.Kill()
	_ = cmd.Wait()
	for deadline := time.Now().Add(patience); ; <-time.After(10 * time.Millisecond) {
		l, err := net.Listen("tcp", address)
		if err == nil {
			_ = l.Close()
			return
		}
		if time.Now().After(deadline) {
			t.Fatalf("somebody is still there: %v", err)
		}
	}
}

// TestTheDoorsProcessHasNothing: its rights, as the kernel reports them while it serves.
func TestTheDoorsProcessHasNothing(t *testing.T) {
	w := newWorld(t)
	if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
		t.Fatal(err)
	}
	at := "/proc/" + strconv.Itoa(doorPID(t))
	text := string(must[[]byte](t)(os.ReadFile(at + "/status")))
	for _, want := range []string{
		"CapPrm:\t0000000000000000", "CapEff:\t0000000000000000", "CapAmb:\t0000000000000000", "NoNewPrivs:\t1", "Seccomp:\t2",
		"Uid:\t1878982655\t1878982655", "Gid:\t1878982655\t1878982655",
	} {
		if !strings.Contains(text, want) {
			t.Errorf("it isn't so: %q in\n%s", want, text)
		}
	}
	for _, ns := range []string{"user", "net", "pid", "ipc", "uts"} {
		theirs, ours := must[string](t)(os.Readlink(at+"/ns/"+ns)), must[string](t)(os.Readlink("/proc/self/ns/"+ns))
		if theirs == ours {
			t.Errorf("its %s namespace is the node's", ns)
		}
	}
	limits := string(must[[]byte](t)(os.ReadFile(at + "/limits")))
	if !strings.Contains(strings.Join(strings.Fields(limits), " "), "Max open files 4096 4096") {
		t.Errorf("its limits are\n%s", limits)
	}
}
