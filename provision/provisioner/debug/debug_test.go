package debug_test

import (
	"encoding/json"
	"slices"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/fakenode"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
	"github.com/croft-edge/croft/provision/provisioner"
	"github.com/croft-edge/croft/provision/provisioner/debug"
)

var (
	_ provisioner.Provisioner = (*debug.Provisioner)(nil)
	_ provisioner.Watched     = (*debug.Provisioner)(nil)
)

// newStreams is a node with these streams.
func newStreams(t *testing.T, specs ...node.DebugSpec) (*fakenode.Node, debug.Streams) {
	t.Helper()
	n := fakenode.New(t)
	n.Debug.Put(specs...)
	return n, n.Debug.Serve(t)
}

func reservation(id, user, data string) *workload.Reservation {
	return &workload.Reservation{ID: id, User: user, NodeID: "NODE", Type: workload.TypeDebug, Data: json.RawMessage(data)}
}

func hashOf(t *testing.T, r *workload.Reservation) string {
	t.Helper()
	h, err := r.Hash()
	if err != nil {
		t.Fatal(err)
	}
	return h.Hex()
}

func TestAnothersStreamIsNotEnded(t *testing.T) {
	r := reservation("1-1", "U", `{"host":"h","port":1}`)
	for hash, ours := range map[string]bool{hashOf(t, r): true, workload.Hash{1}.Hex(): false, "": false} {
		n, s := newStreams(t, node.DebugSpec{ID: "1-1", User: "U", Hash: hash})
		p := debug.New(s, []string{"U"})
		seen, err := p.Look(t.Context())
		if _, there := seen[provisioner.LabelOf("1-1", hash)]; err != nil || len(seen) != 1 || !there {
			t.Errorf("of %q it sees %v, %v", hash, seen, err)
		}
		if err := p.Decommission(t.Context(), r); err != nil || (len(n.Debug.Streams()) == 0) != ours {
			t.Errorf("of %q are left %v, %v", hash, n.Debug.Streams(), err)
		}
		left := len(n.Debug.Streams())
		if err := p.Remove(t.Context(), provisioner.Label{ID: "1-1", Hash: workload.Hash{2}}); err != nil || len(n.Debug.Streams()) != left {
			t.Errorf("of %q as another orphan are left %v, %v", hash, n.Debug.Streams(), err)
		}
		if err := p.Remove(t.Context(), provisioner.LabelOf("1-1", hash)); err != nil || len(n.Debug.Streams()) != 0 {
			t.Errorf("of %q as an orphan are left %v, %v", hash, n.Debug.Streams(), err)
		}
	}
}

func TestProvisionStartsAStream(t *testing.T) {
	for _, c := range []struct {
		data string
		want node.DebugSpec
	}{
		{`{"host":"h","port":6379,"channel":"c"}`, node.DebugSpec{ID: "1-1", User: "U", Host: "h", Port: 6379, Channel: "c"}},
		{`{"host":"h","port":65535,"channel":""}`, node.DebugSpec{ID: "1-1", User: "U", Host: "h", Port: 65535, Channel: "NODE-logs"}},
		{`{"host":"fd00::1","port":1}`, node.DebugSpec{ID: "1-1", User: "U", Host: "fd00::1", Port: 1, Channel: "NODE-logs"}},
	} {
		n, s := newStreams(t)
		p := debug.New(s, []string{"V", "U"})
		for range 2 { // it is idempotent
			data, err := p.Provision(t.Context(), reservation("1-1", "U", c.data))
			if err != nil || data != nil {
				t.Fatalf("%s gives %s, %v", c.data, data, err)
			}
		}
		c.want.Hash = hashOf(t, reservation("1-1", "U", c.data))
		if len(n.Debug.Streams()) != 1 || n.Debug.Streams()["1-1"] != c.want {
			t.Errorf("%s starts %+v, want %+v", c.data, n.Debug.Streams(), c.want)
		}
	}
}

func TestUnlistedUserIsRefused(t *testing.T) {
	const data = `{"host":"h","port":6379,"channel":"c"}`
	for _, users := range [][]string{nil, {}, {""}, {"V"}, {"u"}, {"UU"}} {
		n, s := newStreams(t, node.DebugSpec{ID: "1-1", User: "U", Hash: hashOf(t, reservation("1-1", "U", data))}, node.DebugSpec{ID: "2-1", User: "V"})
		p := debug.New(s, users)
		_, err := p.Provision(t.Context(), reservation("1-1", "U", data))
		if node.KindOf(err) != node.Refused ||
			err.Error() != "cannot provision debug 1-1: user U may not have the node's logs; the operator lists users in debug-users" {
			t.Errorf("of %v: %v", users, err)
		}
		if _, goesOn := n.Debug.Streams()["1-1"]; goesOn || len(n.Debug.Streams()) != 1 {
			t.Errorf("of %v are left: %v", users, n.Debug.Streams())
		}
	}
	for _, method := range []string{"Debug.List", "Debug.Stop"} {
		n, s := newStreams(t, node.DebugSpec{ID: "1-1", User: "U", Hash: hashOf(t, reservation("1-1", "U", data))})
		n.Fail(method, node.Errorf(node.Unknown, "no answer"))
		if _, err := debug.New(s, nil).Provision(t.Context(), reservation("1-1", "U", data)); node.KindOf(err) != node.Unknown {
			t.Errorf("a stream that can't be ended because %s fails: %v", method, err)
		}
	}
}

func TestProvisionRefusesUnreadableData(t *testing.T) {
	for _, data := range []string{
		``, `null`, `[]`, `{}`, `{"host":"h"}`, `{"port":1}`, `{"host":"h","port":0}`, `{"host":"h","port":65536}`,
		`{"host":"h","port":-1}`, `{"host":"h","port":4294967297}`, `{"host":"","port":1}`,
	} {
		n, s := newStreams(t)
		_, err := debug.New(s, []string{"U"}).Provision(t.Context(), reservation("1-1", "U", data))
		if node.KindOf(err) != node.Invalid || len(n.Debug.Streams()) != 0 || !strings.HasPrefix(err.Error(), "cannot provision debug 1-1") {
			t.Errorf("data %s gives %v, want it invalid and nothing started", data, err)
		}
	}
}

func TestErrorsKeepTheirKind(t *testing.T) {
	for _, kind := range []node.Kind{node.NoSpace, node.Exist, node.Transient, node.Unknown, node.Refused} {
		n, s := newStreams(t)
		n.FailAll(node.Errorf(kind, "cannot"))
		p, r := debug.New(s, []string{"U"}), reservation("1-1", "U", `{"host":"h","port":1}`)
		if _, err := p.Provision(t.Context(), r); node.KindOf(err) != kind {
			t.Errorf("provision makes %s of %s", node.KindOf(err), kind)
		}
		if err := p.Decommission(t.Context(), r); node.KindOf(err) != kind {
			t.Errorf("decommission makes %s of %s", node.KindOf(err), kind)
		}
		if _, err := p.List(t.Context()); node.KindOf(err) != kind {
			t.Errorf("list makes %s of %s", node.KindOf(err), kind)
		}
	}
}

func TestDecommissionOfMissingWorkload(t *testing.T) {
	r := reservation("1-1", "U", `{"host":"h","port":1}`)
	n, s := newStreams(t, node.DebugSpec{ID: "1-1", Hash: hashOf(t, r)}, node.DebugSpec{ID: "2-1"})
	for range 2 {
		if err := debug.New(s, nil).Decommission(t.Context(), r); err != nil {
			t.Fatal(err)
		}
	}
	if _, other := n.Debug.Streams()["2-1"]; !other || len(n.Debug.Streams()) != 1 {
		t.Fatalf("leaves %v, want 2-1 only", n.Debug.Streams())
	}
}

// A user who is taken off the operator's list loses an existing stream, too.
func TestLookReportsUnlistedUsers(t *testing.T) {
	_, s := newStreams(t, node.DebugSpec{ID: "1-1", User: "U"}, node.DebugSpec{ID: "2-1", User: "V"})
	p := debug.New(s, []string{"U"})
	ids, err := p.List(t.Context())
	if err != nil || !slices.Equal(ids, []string{"1-1", "2-1"}) {
		t.Fatalf("lists %v, %v", ids, err)
	}
	seen, err := p.Look(t.Context())
	if err != nil || len(seen) != 2 || seen[provisioner.Label{ID: "1-1"}].Drift != "" || !strings.Contains(seen[provisioner.Label{ID: "2-1"}].Drift, "user V may not") {
		t.Fatalf("sees %v, %v", seen, err)
	}
}
