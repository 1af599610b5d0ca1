package bench

import (
	"context"
	"fmt"
	"net"
	"os"
	"strings"
	"time"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/sign"
)

// namesEach is how many tunnels of a hostile network have a name as endpoint.
const namesEach = 20

// swallowNames makes all of the node's DNS servers ignore questions, as the servers of a hostile domain
// do. The node uses those of this machine's resolv.conf, whose addresses are unused in the node's own
// internet.
func (e *enemy) swallowNames() {
	e.b.Helper()
	for _, server := range e.nameServers() {
		where := e.i.Hub.Path()
		if server.IsLoopback() {
			where = e.n.Namespace
		} else {
			e.i.Hub.Addr("lo", server.String()+"/32")
		}
		var conn net.PacketConn
		err := netns.Do(where, func() (err error) {
			conn, err = net.ListenPacket("udp4", net.JoinHostPort(server.String(), "53"))
			return err
		})
		if err != nil {
			e.b.Fatal(err)
		}
		e.b.Cleanup(func() { _ = conn.Close() })
		go e.swallow(conn)
	}
}

// swallow receives and counts questions, until the socket is closed.
func (e *enemy) swallow(conn net.PacketConn) {
	question := make([]byte, 4096)
	for {
		if _, _, err := conn.ReadFrom(question); err != nil {
			return
		}
		e.names.Add(1)
	}
}

// nameServers are this machine's IPv4 DNS servers; 127.0.0.1 where none is configured, the default of
// resolvers.
func (e *enemy) nameServers() (out []net.IP) {
	e.b.Helper()
	raw, err := os.ReadFile("/etc/resolv.conf")
	if err != nil && !os.IsNotExist(err) {
		e.b.Fatal(err)
	}
	named := false
	for line := range strings.Lines(string(raw)) {
		words := strings.Fields(line)
		if len(words) < 2 || words[0] != "nameserver" {
			continue
		}
		named = true
		if ip := net.ParseIP(words[1]).To4(); ip != nil {
			out = append(out, ip)
		}
	}
	if !named {
		out = append(out, net.IPv4(127, 0, 0, 1).To4())
	}
	if len(out) == 0 {
		e.b.Fatal("no name server of /etc/resolv.conf has an IPv4 address: there is nobody to swallow names")
	}
	return out
}

// neverAnswer reserves a network with a new key, whose tunnels' endpoints are all names that are never
// resolved.
func (e *enemy) neverAnswer(ctx context.Context) error {
	user, err := sign.Generate()
	if err != nil {
		return err
	}
	k := e.made.Add(1)
	parts := []*nodetest.Part{e.i.Part(e.n, "10.8.2.0/24", uint16(24000+k%6000), "")}
	parts[0].IPRange = "10.8.0.0/16"
	for p := range namesEach {
		parts = append(parts, e.i.Part(nil, fmt.Sprintf("10.8.%d.0/24", 100+p), 0, fmt.Sprintf("never%d-%d.example:3001", k, p)))
	}
	_, err = e.i.Client.Reserve(ctx, e.i.Networks(user, "names", parts...)[0])
	sleep(ctx, time.Second)
	return err
}
