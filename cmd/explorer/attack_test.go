package main

import (
	"context"
	"encoding/json"
	"fmt"
	"io"
	"net"
	"net/http"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	wire "github.com/croft-edge/croft/pkg/explorer"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// peak is the process's peak memory, in MiB.
func (p *process) peak() int {
	p.t.Helper()
	status, err := os.ReadFile("/proc/" + strconv.Itoa(p.cmd.Process.Pid) + "/status")
	must(p.t, err)
	_, rest, _ := strings.Cut(string(status), "VmHWM:")
	kib, err := strconv.Atoi(strings.Fields(rest)[0])
	must(p.t, err)
	return kib >> 10
}

// from is a client that connects from an address.
func from(t *testing.T, url, address string) *wire.Client {
	t.Helper()
	dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(address)}}
	transport := &http.Transport{DialContext: dial.DialContext}
	t.Cleanup(transport.CloseIdleConnections)
	c, err := wire.NewClient(wire.Config{URL: url, Transport: transport})
	must(t, err)
	return c
}

// largest is a container of about 500 KiB.
func largest(t *testing.T, user sign.KeyPair, nodeID string) *workload.Reservation {
	t.Helper()
	var env []string
	for i := range 16 {
		env = append(env, fmt.Sprintf(`"E%d":"%s"`, i, strings.Repeat("x", 31<<10)))
	}
	r := volume(t, user, nodeID)
	r.Type, r.Nonce, r.Signature = workload.TypeContainer, nil, nil
	r.Data = json.RawMessage(`{"flist":"https://hub.grid.tf/tf-official-apps/caddy.flist","flist_storage":"zdb://hub.grid.tf:9900","env":{` + strings.Join(env, ",") +
		`},"entrypoint":"/x","interactive":false,"mounts":[],"network":{"network_id":"net1","ips":["10.1.1.20"]},"capacity":{"cpu":2,"memory":1024}}`)
	must(t, r.Sign(user.Private()))
	return r
}

// mostMemory is the maximum memory of an explorer under attack, in MiB.
const mostMemory = 400

// Clients that request everything and read nothing don't fill the memory. With 4 of them it had 3.6 GB,
// with 31 of them 6 GB.
func TestUnreadAnswersDontFillTheMemory(t *testing.T) {
	p := start(t, shipped(t, "--db", filepath.Join(t.TempDir(), "e.db")))
	k := key(t)
	must(t, client(t, p.url, &k).RegisterNode(t.Context(), wire.Node{NodeID: k.ID()}))
	user := key(t)
	for range 64 {
		_, err := client(t, p.url, nil).Reserve(t.Context(), largest(t, user, k.ID()))
		must(t, err)
	}
	before := p.peak()
	for i := range 31 {
		dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.IPv4(127, 0, 0, byte(10+i))}}
		conn, err := dial.DialContext(t.Context(), "tcp", strings.TrimPrefix(p.url, "http://"))
		must(t, err)
		t.Cleanup(func() { _ = conn.Close() })
		for range 2 {
			_, err = fmt.Fprintf(conn, "GET /reservations/%s/poll?from=0 HTTP/1.1\r\nHost: x\r\n\r\n", k.ID())
			must(t, err)
		}
	}
	honest := from(t, p.url, "127.0.0.2")
	for range 50 {
		_, err := honest.Get(t.Context(), "1-1")
		must(t, err)
	}
	must(t, settle(func() bool { return p.peak() > before }))
	t.Logf("the memory was %d MiB at most before, and is %d", before, p.peak())
	if p.peak() > mostMemory {
		t.Errorf("it has had %d MiB, %d are allowed", p.peak(), mostMemory)
	}
	page, err := honest.PollPage(t.Context(), k.ID(), wire.Cursor{}, 0)
	must(t, err)
	if len(page.Reservations) == 0 {
		t.Error("the node gets nothing")
	}
}

// idle opens n silent connections from each of some addresses.
func idle(t *testing.T, url string, n int, addresses ...string) {
	t.Helper()
	for range n {
		for _, a := range addresses {
			dial := &net.Dialer{LocalAddr: &net.TCPAddr{IP: net.ParseIP(a)}, Timeout: 10 * time.Second}
			conn, err := dial.DialContext(t.Context(), "tcp", strings.TrimPrefix(url, "http://"))
			must(t, err)
			t.Cleanup(func() { _ = conn.Close() })
		}
	}
}

// An explorer that may open 1,024 files serves everybody while 1,200 idle clients of one address, then
// of eight, stay connected. It was unreachable for 20 s.
func TestIdleClientsBlockNoOthers(t *testing.T) {
	plain := command("--listen", "127.0.0.1:0", "--db", filepath.Join(t.TempDir(), "e.db"))
	limited := exec.Command("/bin/sh", append([]string{"-c", `ulimit -n 1024 && exec "$0" "$@"`, plain.Path}, plain.Args[1:]...)...)
	limited.Env = plain.Env
	p := start(t, limited)
	k := key(t)
	node := client(t, p.url, &k)
	must(t, node.RegisterNode(t.Context(), wire.Node{NodeID: k.ID()}))
	first, err := node.PollPage(t.Context(), k.ID(), wire.Cursor{}, 0)
	must(t, err)
	polled := make(chan error, 1)
	go func() {
		page, err := node.PollPage(context.Background(), k.ID(), wire.Cursor{Epoch: first.Epoch}, 50*time.Second)
		if err == nil && len(page.Reservations) != 1 {
			err = fmt.Errorf("the page is %+v", page)
		}
		polled <- err
	}()
	must(t, settle(func() bool { return metric(t, p.url, "croft_explorer_long_polls 1") }))
	ask := func(n int) {
		for i := range n {
			ctx, cancel := context.WithTimeout(t.Context(), 5*time.Second)
			// A new connection each time.
			_, err := from(t, p.url, fmt.Sprintf("127.0.2.%d", i+1)).Info(ctx)
			cancel()
			if err != nil {
				t.Errorf("somebody else isn't answered: %v", err)
			}
		}
	}
	idle(t, p.url, 1200, "127.0.0.9")
	ask(10)
	idle(t, p.url, 150, "127.0.1.1", "127.0.1.2", "127.0.1.3", "127.0.1.4", "127.0.1.5", "127.0.1.6", "127.0.1.7", "127.0.1.8")
	ask(10)
	// The node's poll was not displaced.
	_, err = from(t, p.url, "127.0.0.3").Reserve(t.Context(), volume(t, key(t), k.ID()))
	must(t, err)
	if err := <-polled; err != nil {
		t.Errorf("the node's poll ends with %v", err)
	}
	resp, err := http.Get(p.url + "/metrics")
	must(t, err)
	defer resp.Body.Close()
	if all, err := io.ReadAll(resp.Body); err != nil || !strings.Contains(string(all), `croft_explorer_limit_reached_total{limit="explorer-connections"}`) {
		t.Errorf("that places were taken isn't counted: %v", err)
	}
}
