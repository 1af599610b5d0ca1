package userapi_test

import (
	"bufio"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
)

// A user reads a log fast, so that the kernel's buffer grows, and then stops. The kernel buffers little
// of the rest, and other users read on.
func TestAnUnreadStreamHoldsLittleOfTheKernel(t *testing.T) {
	const most = 512 << 10 // the kernel doubles the set size, for its own needs
	w := newWorld(t)
	conn := w.raw()
	in := w.good(conn)
	in.Target = "/v1/workloads/7-1/logs?tail=0&follow=true"
	r := w.request(in, in.Method, in.Target, nil)
	if err := r.Write(conn); err != nil {
		t.Fatal(err)
	}
	ended, stop := make(chan struct{}), make(chan struct{})
	go func() {
		defer close(ended)
		line := node.LogLine{At: 1, Stream: "stdout", Text: strings.Repeat("x", 16<<10)}
		for {
			select {
			case w.streams.lines <- line:
			case <-stop:
				return
			}
		}
	}()
	defer func() { close(stop); <-ended }()
	resp, err := http.ReadResponse(conn.reader, r)
	if err != nil {
		t.Fatal(err)
	}
	defer conn.Close()
	if _, err := io.CopyN(io.Discard, resp.Body, 64<<20); err != nil {
		t.Fatal(err)
	}
	_, port, err := net.SplitHostPort(w.door.Address())
	if err != nil {
		t.Fatal(err)
	}
	w.settle("the kernel holds nothing", func() bool { return unsent(t, port) > 0 })
	worst := 0
	for range 40 {
		worst = max(worst, unsent(t, port))
		select {
		case <-t.Context().Done():
		case <-time.After(25 * time.Millisecond):
		}
	}
	t.Logf("the kernel holds %d KiB", worst>>10)
	if worst > most {
		t.Errorf("the kernel holds %d bytes of what isn't read, at most %d are wanted", worst, most)
	}
	if _, err := w.dial(w.dialer()).Status(t.Context(), "7-1"); err != nil {
		t.Errorf("what isn't a stream: %v", err)
	}
}

// unsent is how many bytes the kernel buffers for the peers of connections to a port of 127.0.0.1.
func unsent(t *testing.T, port string) int {
	t.Helper()
	file, err := os.Open("/proc/net/tcp")
	if err != nil {
		t.Fatal(err)
	}
	defer file.Close()
	var number, sum int
	_, _ = fmt.Sscan(port, &number)
	seen := map[string]bool{} // the file is read in pieces: a connection may be listed twice when others come and go
	local := fmt.Sprintf("0100007F:%04X", number)
	for lines := bufio.NewScanner(file); lines.Scan(); {
		// "sl local remote state tx_queue:rx_queue …"; state 01 is established.
		fields := strings.Fields(lines.Text())
		if len(fields) > 4 && fields[1] == local && fields[3] == "01" && !seen[fields[2]] {
			seen[fields[2]] = true
			var queued int
			_, _ = fmt.Sscanf(fields[4], "%X:", &queued)
			sum += queued
		}
	}
	return sum
}
