package main_test

import (
	"context"
	"errors"
	"fmt"
	"io"
	"net/http"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/coder/websocket"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// shellSource is a shell that reports its identity.
const shellSource = `package main

import (
	"bufio"
	"fmt"
	"os"
)

func main() {
	host, _ := os.Hostname()
	fmt.Printf("a shell on %s\n", host)
	for in := bufio.NewScanner(os.Stdin); in.Scan(); {
		fmt.Printf("uid %d below %d heard <%s>\n", os.Getuid(), os.Getppid(), in.Text())
	}
}
`

func TestAnInteractiveContainer(t *testing.T) {
	b := newBoxes(t, "--public-ip6-range", publicRange)
	image := b.Image("shell", imagetest.Server("-say", "the program").Program("/bin/sh", shellSource))
	r, url := b.run(func(c *workload.Container) {
		c.FList, c.Interactive, c.Network.PublicIP6 = image, true, true
	})
	result := b.ContainerResult(r)
	at := "http://" + result.IPv4 + ":7681"
	mentions(t, "the page", b.shell.MustGet(at+"/"), "<html", "<script")
	shell := b.terminal(at)
	shell.shows("a shell on " + r.ID)
	shell.types("hello\r")
	shell.shows("uid 0 below 1 heard <hello>")
	for host, want := range map[string]int{
		r.ID + ":7681": http.StatusOK, r.ID + ".croft.internal:7681": http.StatusOK, r.ID + ".net1:7681": http.StatusOK, result.IPv4 + ":7681": http.StatusOK,
		"example.com:7681": http.StatusForbidden, r.ID + ".example.com:7681": http.StatusForbidden,
	} {
		if got := b.asked(at, host); got != want && (want == http.StatusOK || got < 400) {
			t.Errorf("asked for %s it answers %d, want %d", host, got, want)
		}
	}
	b.onlyPrivate(r, result)

	// The program behaves as it would without a terminal.
	var said []string
	for _, line := range b.n.LogLines(r) {
		said = append(said, line.Text)
	}
	if len(said) != 2 || said[0] != "the program" || !strings.HasPrefix(said[1], "listening on") {
		t.Errorf("the log is %q", said)
	}
	b.exit(url, 7)
	b.Until(time.Minute, "it was started again", func() bool {
		info, ok := b.n.ContainerStatus(r)
		return ok && info.Restarts == 1 && info.ExitCode == 7 && info.State == node.ContainerRunning
	})
	b.shell.MustGet(url + "/")
	shell = b.terminal(at)
	shell.shows("a shell on " + r.ID)
	b.gone(r)
}

func TestAnInteractiveContainerWithoutAProgram(t *testing.T) {
	b := newBoxes(t)
	image := b.Image("nothing", imagetest.New().File("/readme", "no program at all", 0o644))
	r := b.Push(b.Container(b.n, func(c *workload.Container) { c.FList, c.Interactive = image, true }))
	at := "http://" + b.ContainerResult(r).IPv4 + ":7681"
	mentions(t, "the page", b.shell.MustGet(at+"/"), "<html")
	b.terminal(at).shows("This image has no shell")
	if info := b.only(r)[0]; info.Restarts != 0 {
		t.Errorf("it is %+v", info)
	}
	b.gone(r)
	for change, cause := range map[string]string{"/bin/not-there": "/bin/not-there", "/readme": "readme"} {
		bad := b.Push(b.Container(b.n, func(c *workload.Container) { c.FList, c.Interactive, c.Entrypoint = image, true, change }))
		mentions(t, "the cause", b.Result(bad, workload.StateError).Error, cause)
	}
	b.only()
}

// asked is the server's status code for a request with that Host header.
func (b *boxes) asked(at, host string) int {
	b.Helper()
	req, err := http.NewRequestWithContext(b.Context(), http.MethodGet, at+"/", nil)
	if err != nil {
		b.Fatal(err)
	}
	req.Host = host
	res, err := b.HTTP(b.shell.Path()).Do(req)
	if err != nil {
		b.Fatal(err)
	}
	defer res.Body.Close()
	_, _ = io.Copy(io.Discard, res.Body)
	return res.StatusCode
}

// onlyPrivate fails if the terminal answers at other addresses than the container's private ones,
// tested from inside, where the program answers at all of them.
func (b *boxes) onlyPrivate(r *workload.Reservation, result workload.ContainerResult) {
	b.Helper()
	inside := netns.OfProcess(b.n.WaitRunning(r).PID)
	for _, address := range []string{"127.0.0.1", "[::1]", "[" + result.IPv6 + "]"} {
		if _, err := b.Get(inside, "http://"+address+":8080/", 20*time.Second); err != nil {
			b.Errorf("the program doesn't answer at %s: %v", address, err)
		}
		if got, err := b.Get(inside, "http://"+address+":7681/", 20*time.Second); !errors.Is(err, syscall.ECONNREFUSED) {
			b.Errorf("the terminal answers at %s: %.80q, %v", address, got, err)
		}
	}
}

// session is an open terminal.
type session struct {
	*boxes
	conn *websocket.Conn
	seen string
}

// terminal opens a terminal from the network, as the web page does.
func (b *boxes) terminal(at string) *session {
	b.Helper()
	s := &session{boxes: b}
	b.Until(time.Minute, "a terminal at "+at, func() bool {
		ctx, cancel := context.WithTimeout(b.Context(), 20*time.Second)
		defer cancel()
		conn, _, err := websocket.Dial(ctx, at+"/ws", &websocket.DialOptions{HTTPClient: b.HTTP(b.shell.Path()), HTTPHeader: http.Header{"Origin": {at}}})
		s.conn = conn
		return err == nil
	})
	b.Cleanup(func() { _ = s.conn.CloseNow() })
	return s
}

func (s *session) types(text string) {
	s.Helper()
	if err := s.conn.Write(s.Context(), websocket.MessageBinary, []byte(text)); err != nil {
		s.Fatal(err)
	}
}

// shows reads until a text is displayed, or is the reason why the session ends.
func (s *session) shows(text string) {
	s.Helper()
	ctx, cancel := context.WithTimeout(s.Context(), time.Minute)
	defer cancel()
	for !strings.Contains(s.seen, text) {
		_, message, err := s.conn.Read(ctx)
		var end websocket.CloseError
		if errors.As(err, &end) {
			s.seen += fmt.Sprint(end.Reason)
		}
		s.seen += string(message)
		if err != nil && !strings.Contains(s.seen, text) {
			s.Fatalf("%q is never shown: %v; shown is %q", text, err, s.seen)
		}
	}
}
