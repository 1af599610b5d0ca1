package netlab

import (
	"context"
	"net"
	"os/exec"
	"time"
)

// Command is a command inside the namespace, not yet started.
func (n *Namespace) Command(ctx context.Context, name string, args ...string) *exec.Cmd {
	return exec.CommandContext(ctx, "nsenter", append([]string{"--net=" + n.path, "--", name}, args...)...)
}

// Run runs a command inside the namespace and returns its output. The test fails when the command does.
func (n *Namespace) Run(name string, args ...string) string {
	n.lab.t.Helper()
	out, err := n.Command(context.Background(), name, args...).CombinedOutput()
	n.lab.must(err, "run %s %q in namespace %s: %s", name, args, n.name, out)
	return string(out)
}

// DialTCP connects from inside the namespace to an IP address and port.
func (n *Namespace) DialTCP(address string, timeout time.Duration) (net.Conn, error) {
	return n.Dial("tcp", address, timeout)
}

// Dial connects from inside the namespace to an IP address and port.
func (n *Namespace) Dial(network, address string, timeout time.Duration) (conn net.Conn, err error) {
	n.lab.t.Helper()
	n.Do(func() {
		dialer := net.Dialer{Timeout: timeout}
		conn, err = dialer.DialContext(context.Background(), network, address)
	})
	return conn, err
}

// ListenTCP listens inside the namespace until the test ends.
func (n *Namespace) ListenTCP(address string) net.Listener {
	n.lab.t.Helper()
	var listener net.Listener
	n.Do(func() {
		var err error
		listener, err = new(net.ListenConfig).Listen(context.Background(), "tcp", address)
		n.lab.must(err, "listen on %s in namespace %s", address, n.name)
	})
	n.lab.undo(func() { listener.Close() })
	return listener
}

// ListenUDP receives packets inside the namespace until the test ends.
func (n *Namespace) ListenUDP(address string) net.PacketConn {
	n.lab.t.Helper()
	var conn net.PacketConn
	n.Do(func() {
		var err error
		conn, err = new(net.ListenConfig).ListenPacket(context.Background(), "udp", address)
		n.lab.must(err, "listen on %s in namespace %s", address, n.name)
	})
	n.lab.undo(func() { conn.Close() })
	return conn
}
