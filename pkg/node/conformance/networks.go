package conformance

import (
	"context"
	"crypto/ecdh"
	"crypto/rand"
	"encoding/base64"
	"encoding/hex"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

// NetworksClient is the interface of the stub of node.Networks.
type NetworksClient interface {
	Create(ctx context.Context, spec node.NetworkSpec) (node.NetworkInfo, error)
	Delete(ctx context.Context, id string) error
	List(ctx context.Context) ([]node.NetworkInfo, error)
	Join(ctx context.Context, spec node.MemberSpec) (node.Member, error)
	Leave(ctx context.Context, network, member string) error
	Subnet(ctx context.Context, id string) (string, error)
	Gateway(ctx context.Context, id string) (string, error)
	Status(ctx context.Context) (node.NetworkStatus, error)
}

// TapsClient is the interface of the stub of node.Taps.
type TapsClient interface {
	Setup(ctx context.Context, spec node.TapSpec) (node.Tap, error)
	Remove(ctx context.Context, vm string) error
	List(ctx context.Context) ([]node.Tap, error)
}

// NetworksSubject is a new network module: it has no networks, and its node has no
// public IPv6 range.
type NetworksSubject struct {
	Client NetworksClient
	Taps   TapsClient
	// Process starts a process with a network namespace of its own and returns
	// its ID. It ends with the test.
	Process func(t *testing.T) uint64
	// Pin makes a file that keeps the namespace at source, a path below /proc, or
	// without one a new network namespace that a user namespace owns. Unpin removes
	// the file and its namespace; the test's end does so anyway.
	Pin   func(t *testing.T, source string) (path string)
	Unpin func(t *testing.T, path string)
	// Break removes a tap's device behind the module's back.
	Break func(t *testing.T, tap node.Tap)
	// Port is a UDP port that nothing uses.
	Port func(t *testing.T) uint16
	// Restart kills the module like kill -9, starts it again on the same
	// folder, and returns the new clients.
	Restart func(t *testing.T) (NetworksClient, TapsClient)
}

// NetworksSuite tests an implementation of node.Networks and node.Taps. Each part
// gets its own subject from open.
func NetworksSuite(t *testing.T, open func(t *testing.T) NetworksSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s NetworksSubject)
	}{
		{"create", networksCreate},
		{"twice", networksTwice},
		{"changed in place", networksChange},
		{"remove what isn't there", networksRemoveNothing},
		{"in use", networksInUse},
		{"after a restart", networksRestart},
		{"bad specs", networksBadSpecs},
		{"ports and overlaps", networksConflicts},
		{"join", networksJoin},
		{"join twice", networksJoinTwice},
		{"join by a file", networksJoinKept},
		{"join by a file twice", networksJoinKeptTwice},
		{"another reservation's", networksAnotherHash},
		{"a member of another hash", membersAnotherHash},
		{"an unlabelled member", membersUnlabelled},
		{"bad members", networksBadMembers},
		{"bad members by a file", networksBadKept},
		{"full", networksFull},
		{"taps", tapsSetup},
		{"a tap of another hash", tapsAnotherHash},
		{"an unlabelled tap", tapsUnlabelled},
		{"a changed tap", tapsChange},
		{"a tap's device is gone", tapsMend},
		{"bad taps", tapsBad},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) {
			t.Parallel()
			part.run(t, open(t))
		})
	}
}

// networkUser owns the suite's networks.
const networkUser = "6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry"

// NetworkSpec is a spec that must be accepted, of the user's network of that
// name, with a new key and without peers.
func NetworkSpec(t *testing.T, name, subnet string, port uint16) node.NetworkSpec {
	t.Helper()
	private, err := ecdh.X25519().GenerateKey(rand.Reader)
	expect.NoError(t, err)
	key := workload.NetworkKey(networkUser, name)
	return node.NetworkSpec{
		ID: hex.EncodeToString(key[:]), Label: "1-1", User: networkUser, Name: name, IPRange: "10.1.0.0/16", Subnet: subnet,
		PrivateKey: base64.StdEncoding.EncodeToString(private.Bytes()), PublicKey: base64.StdEncoding.EncodeToString(private.PublicKey().Bytes()),
		ListenPort: port,
	}
}

// create makes a network that must succeed.
func (s NetworksSubject) create(t *testing.T, name, subnet string) (node.NetworkSpec, node.NetworkInfo) {
	t.Helper()
	spec := NetworkSpec(t, name, subnet, s.Port(t))
	info, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	return spec, info
}

// one is the only network.
func (s NetworksSubject) one(t *testing.T) node.NetworkInfo {
	t.Helper()
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 {
		t.Fatalf("there are %d networks, want 1: %+v", len(list), list)
	}
	return list[0]
}

// join adds a member that must be accepted.
func (s NetworksSubject) join(t *testing.T, spec node.MemberSpec) node.Member {
	t.Helper()
	m, err := s.Client.Join(t.Context(), spec)
	expect.NoError(t, err)
	return m
}
