package zdb

import (
	"context"
	"net"
	"strconv"
	"testing"
	"time"

	"github.com/gomodule/redigo/redis"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

// Client is the interface of the stub of node.ZDBNamespaces.
type Client interface {
	Attach(ctx context.Context, spec node.ZDBServerSpec) (node.ZDBServer, error)
	Detach(ctx context.Context, container string) error
	Servers(ctx context.Context) ([]node.ZDBServer, error)
	Create(ctx context.Context, spec node.ZDBNamespaceSpec) (node.ZDBNamespace, error)
	Delete(ctx context.Context, container, name string) error
	Inspect(ctx context.Context, container, name string) (node.ZDBNamespace, error)
	List(ctx context.Context, container string) ([]node.ZDBNamespace, error)
}

// Subject is a new zdb module: it has nothing attached, and may give zdbPorts
// ports. Its node has an IPv4 and an IPv6 address.
type Subject struct {
	Client Client
	// Start starts the zdb of a container, for the first time or on its data, and
	// returns the spec for Attach, maybe before it answers. It ends with the
	// test.
	Start func(t *testing.T, container string, mode workload.ZDBMode) node.ZDBServerSpec
	// Kill ends it like kill -9.
	Kill func(t *testing.T, container string)
	// Restart kills the module like kill -9, starts it again on the same
	// folder, and returns the new client.
	Restart func(t *testing.T) Client
	// Dial connects a user to the zdb at an address of the node; over TCP when nil.
	Dial func(ctx context.Context, ip string, port uint16) (Conn, error)
}

// Conn is a user's connection to a zdb, in the manner of a redis.Conn.
type Conn interface {
	Do(command string, arguments ...any) (any, error)
	Close() error
}

func overTCP(ctx context.Context, ip string, port uint16) (Conn, error) {
	return redis.DialContext(ctx, "tcp", net.JoinHostPort(ip, strconv.Itoa(int(port))),
		redis.DialConnectTimeout(expect.Patience), redis.DialReadTimeout(expect.Patience), redis.DialWriteTimeout(expect.Patience))
}

// zdbPorts is the number of ports that a subject may give.
const zdbPorts = 3

// Suite tests an implementation of node.ZDBNamespaces. Each part gets its own subject
// from open.
func Suite(t *testing.T, open func(t *testing.T) Subject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s Subject)
	}{
		{"attach", zdbAttach},
		{"attach twice", zdbAttachTwice},
		{"attach what doesn't answer", zdbAttachNothing},
		{"attach in another mode", zdbAttachMode},
		{"detach", zdbDetach},
		{"ports", zdbAllPorts},
		{"remove what isn't there", zdbRemoveNothing},
		{"after a restart", zdbRestart},
		{"after a restart of the zdb", zdbServerRestart},
		{"bad servers", zdbBadServers},
		{"create", zdbCreate},
		{"create twice", zdbCreateTwice},
		{"another hash", zdbAnotherHash},
		{"unlabelled, not adopted", zdbUnlabelled},
		{"unlabelled, adopted", zdbAdopted},
		{"changed in place", zdbChange},
		{"passwords", zdbPasswords},
		{"full", zdbFull},
		{"sequential", zdbSequential},
		{"delete", zdbDelete},
		{"list", zdbList},
		{"bad namespaces", zdbBadNamespaces},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			s := open(t)
			if s.Dial == nil {
				s.Dial = overTCP
			}
			part.run(t, s)
		})
	}
}

// attach starts a zdb and attaches it once it answers.
func (s Subject) attach(t *testing.T, container string, mode workload.ZDBMode) node.ZDBServer {
	t.Helper()
	return s.attachSpec(t, s.Start(t, container, mode))
}

func (s Subject) attachSpec(t *testing.T, spec node.ZDBServerSpec) node.ZDBServer {
	t.Helper()
	var out node.ZDBServer
	var err error
	eventually(t, func() bool {
		out, err = s.Client.Attach(t.Context(), spec)
		return node.KindOf(err) != node.Transient
	}, func() any { return err })
	expect.NoError(t, err)
	if out.Drift != "" {
		t.Errorf("attached with drift: %+v", out)
	}
	return out
}

// one is the only attached server.
func (s Subject) one(t *testing.T) node.ZDBServer {
	t.Helper()
	list, err := s.Client.Servers(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 {
		t.Fatalf("there are %d in hand, want 1: %+v", len(list), list)
	}
	return list[0]
}

// whole waits until the only server has no drift, and returns it.
func (s Subject) whole(t *testing.T) node.ZDBServer {
	t.Helper()
	var out node.ZDBServer
	eventually(t, func() bool {
		out = s.one(t)
		return out.Drift == ""
	}, func() any { return out })
	return out
}

// create makes a namespace that must succeed.
func (s Subject) create(t *testing.T, spec node.ZDBNamespaceSpec) node.ZDBNamespace {
	t.Helper()
	out, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if out.Container != spec.Container || out.Name != spec.Name || out.Size != spec.Size || out.Public != spec.Public || out.Protected != (spec.Password != "") {
		t.Errorf("created %+v, want %+v", out, spec)
	}
	return out
}

// eventually waits until holds, and reports seen when it doesn't.
func eventually(t *testing.T, holds func() bool, seen func() any) {
	t.Helper()
	late := time.After(expect.Patience)
	for !holds() {
		select {
		case <-late:
			t.Fatalf("%s have passed: %v", expect.Patience, seen())
		case <-time.After(10 * time.Millisecond):
		}
	}
}

// zdbClient is a user's connection to a zdb, at the address for users.
type zdbClient struct {
	Conn
	t *testing.T
}

// user connects to a zdb from outside.
func (s Subject) user(t *testing.T, at node.ZDBServer) zdbClient {
	t.Helper()
	return s.userAt(t, at.IPv4, at.Port)
}

func (s Subject) userAt(t *testing.T, ip string, port uint16) zdbClient {
	t.Helper()
	conn, err := s.Dial(t.Context(), ip, port)
	expect.NoError(t, err)
	t.Cleanup(func() { _ = conn.Close() })
	return zdbClient{conn, t}
}

// do runs a command that must succeed, and returns its reply as text.
func (c zdbClient) do(command string, arguments ...any) string {
	c.t.Helper()
	reply, err := c.Do(command, arguments...)
	if err != nil {
		c.t.Fatalf("%s: %v", command, err)
	}
	if raw, ok := reply.([]byte); ok {
		return string(raw)
	}
	text, _ := reply.(string)
	return text
}

// refused fails unless the zdb refuses a command.
func (c zdbClient) refused(command string, arguments ...any) {
	c.t.Helper()
	reply, err := c.Do(command, arguments...)
	if _, said := err.(redis.Error); !said { //nolint:errorlint // redigo never wraps it
		c.t.Errorf("%s: %v, %v, want it refused", command, reply, err)
	}
}
