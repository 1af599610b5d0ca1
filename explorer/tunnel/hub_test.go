package tunnel_test

import (
	"bytes"
	"errors"
	"fmt"
	"io"
	"net"
	"strings"
	"testing"
	"time"

	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/croft-edge/croft/explorer/tunnel"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/nodeapi"
)

func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

const patience = 60 * time.Second

// pair returns both ends of a TCP connection.
func pair(t *testing.T) (near, far net.Conn) {
	t.Helper()
	l, err := net.Listen("tcp", "127.0.0.1:0")
	if err != nil {
		t.Fatal(err)
	}
	defer l.Close()
	if near, err = net.Dial("tcp", l.Addr().String()); err != nil {
		t.Fatal(err)
	}
	if far, err = l.Accept(); err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { _ = near.Close(); _ = far.Close() })
	return near, far
}

func hub(t *testing.T, change func(*tunnel.Limits)) *tunnel.Hub {
	t.Helper()
	l := tunnel.DefaultLimits()
	change(&l)
	h := tunnel.New(l, zerolog.Nop())
	t.Cleanup(h.Close)
	return h
}

// open opens a node's tunnel to the hub; its connections echo.
func open(t *testing.T, h *tunnel.Hub, nodeID string) *nodeapi.Tunnel {
	t.Helper()
	near, far := pair(t)
	h.Keep(nodeID, "192.0.2.1", far)
	side, err := nodeapi.NodeTunnel(near)
	if err != nil {
		t.Fatal(err)
	}
	done := make(chan struct{})
	t.Cleanup(func() { _ = side.Close(); <-done })
	go func() {
		defer close(done)
		for {
			conn, err := side.Accept()
			if err != nil {
				return
			}
			go func() {
				_, _ = io.Copy(conn, conn)
				_ = conn.Close()
			}()
		}
	}()
	return side
}

// carried returns the user's end of a connection to the node.
func carried(t *testing.T, h *tunnel.Hub, nodeID, user string) net.Conn {
	t.Helper()
	c, err := h.Connect(nodeID, owner(user))
	if err != nil {
		t.Fatal(err)
	}
	near, far := pair(t)
	c.Carry(far)
	_ = near.SetDeadline(time.Now().Add(patience))
	return near
}

func settle(t *testing.T, what string, ok func() bool) {
	t.Helper()
	for deadline := time.Now().Add(patience); !ok(); <-time.After(5 * time.Millisecond) {
		if time.Now().After(deadline) {
			t.Fatal(what)
		}
	}
}

func TestBytesComeThroughWholeAndTheEndToo(t *testing.T) {
	h := hub(t, func(*tunnel.Limits) {})
	open(t, h, "n")
	c := carried(t, h, "n", "u")
	want := bytes.Repeat([]byte("0123456789"), 1<<20)
	go func() {
		_, _ = c.Write(want)
		_ = c.(*net.TCPConn).CloseWrite()
	}()
	got, err := io.ReadAll(c)
	if err != nil || !bytes.Equal(got, want) {
		t.Errorf("%d bytes came back, want %d: %v", len(got), len(want), err)
	}
	settle(t, "the connection is still counted", func() bool { _, n := h.Open(); return n == 0 })
}

func owner(user string) tunnel.Caller {
	return tunnel.Caller{User: user, Source: "192.0.2." + user, Owner: true}
}

func TestThereIsRoomForSoManyOnly(t *testing.T) {
	h := hub(t, func(l *tunnel.Limits) { l.Owners.Each, l.NodeOwners.Each, l.OwnerSources.Each = 3, 2, 4 })
	open(t, h, "n1")
	open(t, h, "n2")
	refused := func(nodeID string, by tunnel.Caller, words string) {
		t.Helper()
		if _, err := h.Connect(nodeID, by); node.KindOf(err) != node.Busy || !strings.Contains(err.Error(), words) {
			t.Errorf("%+v to %s: %v", by, nodeID, err)
		}
	}
	first := carried(t, h, "n1", "a")
	carried(t, h, "n1", "a")
	refused("n1", owner("a"), "tunnel-node-owners: a user has at most 2")
	carried(t, h, "n2", "a")
	refused("n2", owner("a"), "tunnel-owners: a user has at most 3")
	neighbour := tunnel.Caller{User: "b", Source: owner("a").Source, Owner: true}
	c, err := h.Connect("n2", neighbour)
	if err != nil {
		t.Fatal(err)
	}
	defer c.Drop()
	refused("n2", neighbour, "tunnel-owner-sources: a source has at most 4")
	_ = first.Close()
	settle(t, "there is no room after one has gone", func() bool {
		c, err := h.Connect("n1", owner("a"))
		if err == nil {
			c.Drop()
		}
		return err == nil
	})
	if _, err := h.Connect("nobody", owner("c")); node.KindOf(err) != node.Transient {
		t.Errorf("a node without a tunnel: %v", err)
	}
}

// Keys are free: however many strangers connect, from however many sources, owners
// reach the node, and the strangers displace only each other.
func TestStrangersCannotTakeOwnersPlaces(t *testing.T) {
	h := hub(t, func(*tunnel.Limits) {})
	open(t, h, "n")
	mine := carried(t, h, "n", "a")
	for i := range 200 {
		c, err := h.Connect("n", tunnel.Caller{User: fmt.Sprint("fresh", i), Source: fmt.Sprint("source", i%50)})
		if err != nil {
			t.Fatalf("stranger %d: %v", i, err)
		}
		near, far := pair(t)
		c.Carry(far)
		_ = near.SetDeadline(time.Now().Add(patience))
	}
	settle(t, "more strangers are connected than have places", func() bool { _, n := h.Open(); return n <= 33 })
	echoes(t, mine)
	echoes(t, carried(t, h, "n", "b"))
}

// Owners may be hostile, too: an owner with few connections displaces those with many.
func TestOwnersShareANodesTunnel(t *testing.T) {
	h := hub(t, func(l *tunnel.Limits) { l.NodeOwners.Each, l.NodeOwners.Total = 4, 8 })
	open(t, h, "n")
	for range 4 {
		carried(t, h, "n", "a")
		carried(t, h, "n", "b")
	}
	mine := carried(t, h, "n", "c")
	for range 8 {
		for _, user := range []string{"a", "b"} {
			if c, err := h.Connect("n", owner(user)); err == nil {
				c.Drop()
			}
		}
	}
	echoes(t, mine)
	echoes(t, carried(t, h, "n", "d"))
}

// The nodes of one source can't take all tunnels.
func TestOneSourceCannotTakeAllTunnels(t *testing.T) {
	h := hub(t, func(l *tunnel.Limits) { l.Tunnels.Each, l.Tunnels.Total = 3, 4 })
	keep := func(nodeID, source string) *nodeapi.Tunnel {
		near, far := pair(t)
		h.Keep(nodeID, source, far)
		side, err := nodeapi.NodeTunnel(near)
		if err != nil {
			t.Fatal(err)
		}
		t.Cleanup(func() { _ = side.Close() })
		return side
	}
	for i := range 6 {
		keep(fmt.Sprint("hostile", i), "192.0.2.1")
	}
	settle(t, "a source has more than its places", func() bool { n, _ := h.Open(); return n == 3 })
	mine := keep("n1", "192.0.2.2")
	other := keep("n2", "192.0.2.3")
	for i := range 6 {
		keep(fmt.Sprint("later", i), "192.0.2.1")
	}
	settle(t, "there are more tunnels than places", func() bool { n, _ := h.Open(); return n == 4 })
	for _, side := range []*nodeapi.Tunnel{mine, other} {
		select {
		case <-side.Done():
			t.Error("a node lost its tunnel to the nodes of another source")
		default:
		}
	}
}

// echoes checks that a connection carries bytes.
func echoes(t *testing.T, c net.Conn) {
	t.Helper()
	buffer := make([]byte, 4)
	if _, err := c.Write([]byte("ping")); err != nil {
		t.Error(err)
	} else if _, err := io.ReadFull(c, buffer); err != nil || string(buffer) != "ping" {
		t.Errorf("%q came back: %v", buffer, err)
	}
}

func TestIdleConnectionsEnd(t *testing.T) {
	h := hub(t, func(l *tunnel.Limits) { l.Idle = 300 * time.Millisecond })
	open(t, h, "n")
	c := carried(t, h, "n", "u")
	began := time.Now()
	buffer := make([]byte, 1)
	for time.Since(began) < time.Second {
		if _, err := c.Write([]byte("x")); err != nil {
			t.Fatalf("what carries something is ended: %v", err)
		}
		if _, err := io.ReadFull(c, buffer); err != nil {
			t.Fatalf("what carries something is ended: %v", err)
		}
		<-time.After(20 * time.Millisecond)
	}
	if _, err := c.Read(buffer); err == nil {
		t.Error("something came that nobody sent")
	} else if isTimeout(err) {
		t.Error("it is kept though it carries nothing")
	}
}

// The end of a tunnel ends its connections, and that of a hub its tunnels.
func TestAnEndIsTheEndOfAll(t *testing.T) {
	h := hub(t, func(*tunnel.Limits) {})
	side := open(t, h, "n")
	c := carried(t, h, "n", "u")
	_ = side.Close()
	if _, err := io.ReadAll(c); isTimeout(err) {
		t.Error("a connection outlives its tunnel")
	}
	settle(t, "the tunnel is still there", func() bool { tunnels, n := h.Open(); return tunnels == 0 && n == 0 })
	again := open(t, h, "n")
	c = carried(t, h, "n", "u")
	began := time.Now()
	h.Close()
	if took := time.Since(began); took > 8*time.Second {
		t.Errorf("it took %s to close", took)
	}
	if _, err := io.ReadAll(c); isTimeout(err) {
		t.Error("a connection outlives the hub")
	}
	select {
	case <-again.Done():
	case <-time.After(patience):
		t.Error("a tunnel outlives the hub")
	}
	if err := h.Room(); node.KindOf(err) != node.Transient {
		t.Errorf("a closed hub: %v", err)
	}
	if _, err := h.Connect("n", owner("u")); node.KindOf(err) != node.Transient {
		t.Errorf("a closed hub: %v", err)
	}
}

func isTimeout(err error) bool {
	var timeout net.Error
	return errors.As(err, &timeout) && timeout.Timeout()
}
