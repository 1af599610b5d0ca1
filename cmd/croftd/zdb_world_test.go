package main_test

import (
	"fmt"
	"net"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/modules/zdb/socket"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// zdbs is a node for namespaces, with clients outside (in the hub, over IPv4 and IPv6) and one in a
// user's network on it (the shell).
type zdbs struct{ *boxes }

// The addresses of the node and of the hub.
const (
	zdbIPv4, zdbIPv6 = "203.0.113.11", "2001:db8:113::11"
	hubIPv6          = "2001:db8:113::1"
	userZDB, seqZDB  = "zdb-ssd0-user", "zdb-ssd0-seq"
)

func newZDBs(t *testing.T, args ...string) *zdbs {
	t.Helper()
	return (&zdbs{newBoxes(t, append(zdbFlags(), args...)...)}).sixth()
}

func newSplitZDBs(t *testing.T, args ...string) *zdbs {
	t.Helper()
	return (&zdbs{newSplitBoxes(t, append(zdbFlags(), args...)...)}).sixth()
}

func zdbFlags() []string { return []string{"--pool-size", "24GiB", "--zdb-memory", "256MiB"} }

// sixth gives the node and the hub an IPv6 address.
func (z *zdbs) sixth() *zdbs {
	z.Helper()
	for ns, at := range map[string][2]string{z.n.Namespace: {zdbIPv6, "eth0"}, z.Hub.Path(): {hubIPv6, "br0"}} {
		if out, err := nodetest.Command(ns, "ip", "addr", "add", at[0]+"/64", "dev", at[1], "nodad"); err != nil {
			z.Fatalf("%v: %s", err, out)
		}
	}
	return z
}

// made pushes a namespace and waits until it is deployed.
func (z *zdbs) made(change func(*workload.ZDB)) (*workload.Reservation, workload.ZDBResult) {
	z.Helper()
	r := z.Push(z.ZDB(z.n, change))
	return r, z.ZDBResult(r)
}

func password(text string) func(*workload.ZDB) {
	return func(d *workload.ZDB) { d.PlainPassword = text }
}

// inside connects from the hub to a namespace, and fails the test on an error.
func (z *zdbs) inside(at workload.ZDBResult, password string) redis.Conn {
	z.Helper()
	conn, err := z.SelectZDB(z.Hub.Path(), nodetest.ZDBAddress(at), at.Namespace, password)
	if err != nil {
		z.Fatalf("select %s: %v", at.Namespace, err)
	}
	return conn
}

// ask sends a command and returns its answer as text; an error is its text.
func ask(conn redis.Conn, command string, args ...any) string {
	reply, err := conn.Do(command, args...)
	switch {
	case err != nil:
		return "-" + err.Error()
	case reply == nil:
		return "-nothing"
	}
	text, err := redis.String(reply, nil)
	if err != nil {
		return fmt.Sprint(reply)
	}
	return text
}

// answers fails unless a command returns that answer.
func (z *zdbs) answers(conn redis.Conn, want, command string, args ...any) {
	z.Helper()
	if got := ask(conn, command, args...); got != want {
		z.Errorf("%s %.200q answers %.200q, want %.200q", command, args, got, want)
	}
}

// refuses fails unless a command returns an error with that text.
func (z *zdbs) refuses(conn redis.Conn, says, command string, args ...any) {
	z.Helper()
	if got := ask(conn, command, args...); !strings.HasPrefix(got, "-") || got == "-nothing" || !strings.Contains(strings.ToLower(got), says) {
		z.Errorf("%s %.200q answers %.200q, want an error with %q", command, args, got, says)
	}
}

// admin connects to the admin socket of a zdb, outside the node.
func (z *zdbs) admin(container string) redis.Conn {
	z.Helper()
	server, ok := z.n.ZDBServer(container)
	if !ok {
		z.Fatalf("the node has no %s", container)
	}
	conn, err := socket.Dial(z.Context(), server.Data+"/admin.sock")
	if err != nil {
		z.Fatal(err)
	}
	z.Cleanup(func() { _ = conn.Close() })
	return redis.NewConn(conn, 20*time.Second, 20*time.Second)
}

// zdbRuns waits until a zdb container has no drift in the node's status, and returns both.
func (z *zdbs) zdbRuns(container string) (node.ZDBServer, node.ContainerInfo) {
	z.Helper()
	var server node.ZDBServer
	var box node.ContainerInfo
	z.Until(back, container+" is as it should be", func() bool {
		var known, runs bool
		server, known = z.n.ZDBServer(container)
		box, runs = z.n.OwnContainer(container)
		return known && runs && server.Drift == "" && box.State == node.ContainerRunning && box.PID != 0
	})
	return server, box
}

// free fails unless the port is closed.
func (z *zdbs) free(port uint) {
	z.Helper()
	for _, ip := range []string{zdbIPv4, zdbIPv6} {
		if err := z.ReachesFrom(z.Hub.Path(), net.JoinHostPort(ip, fmt.Sprint(port)), 5*time.Second); err == nil {
			z.Errorf("somebody answers at %s port %d", ip, port)
		}
	}
}

// deployed waits until all of the node's workloads are deployed and none has drifted since.
func (z *zdbs) deployed(all ...*workload.Reservation) {
	z.Helper()
	z.Until(nodetest.Soon, "all are deployed", func() bool {
		there := 0
		for _, x := range z.n.Status().Workloads {
			if x.Phase == "deployed" && slices.ContainsFunc(all, func(r *workload.Reservation) bool { return r.ID == x.ID }) {
				there++
			}
		}
		return there == len(all)
	})
}
