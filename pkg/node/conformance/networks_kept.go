package conformance

import (
	"reflect"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

func networksJoinKept(t *testing.T, s NetworksSubject) {
	spec, info := s.create(t, "net1", "10.1.2.0/24")
	file := s.Pin(t, "")
	first := s.join(t, node.MemberSpec{Network: spec.ID, Member: "5-1", Name: "web", Namespace: file})
	if first.IPv4 != "10.1.2.2" || first.Gateway != info.Gateway || first.IPv6 == "" || first.Drift != "" {
		t.Errorf("joined: %+v", first)
	}
	s.join(t, node.MemberSpec{Network: spec.ID, Member: "6-1", PID: s.Process(t)})
	expect.Kind(t, s.Client.Delete(t.Context(), spec.ID), node.Busy)
	s.Client, s.Taps = s.Restart(t)
	after := s.one(t)
	if after.Drift != "" || len(after.Members) != 2 || !reflect.DeepEqual(after.Members[0], first) {
		t.Errorf("after a restart it is %+v, was with %+v", after, first)
	}
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "5-1"))
	expect.Kind(t, s.Client.Leave(t.Context(), spec.ID, "5-1"), node.NotExist)
	// Its namespace stays, empty, and anybody may use it.
	if again := s.join(t, node.MemberSpec{Network: spec.ID, Member: "7-1", Namespace: file}); again.IPv4 != first.IPv4 {
		t.Errorf("another one in the same namespace: %+v", again)
	}
	// A member that is gone can leave too.
	s.Unpin(t, file)
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "7-1"))
	expect.NoError(t, s.Client.Leave(t.Context(), spec.ID, "6-1"))
	expect.NoError(t, s.Client.Delete(t.Context(), spec.ID))
}

func networksJoinKeptTwice(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	one := node.MemberSpec{Network: spec.ID, Member: "5-1", Namespace: s.Pin(t, "")}
	first := s.join(t, one)
	if again := s.join(t, one); !reflect.DeepEqual(first, again) {
		t.Errorf("joined twice: %+v, then %+v", first, again)
	}
	one.Namespace = s.Pin(t, "")
	if moved := s.join(t, one); moved.IPv4 != first.IPv4 || moved.Drift != "" {
		t.Errorf("in another namespace: %+v, was %+v", moved, first)
	}
	one.Namespace, one.PID = "", s.Process(t)
	if moved := s.join(t, one); moved.IPv4 != first.IPv4 || moved.Drift != "" {
		t.Errorf("as a process: %+v, was %+v", moved, first)
	}
	one.Namespace, one.PID = s.Pin(t, ""), 0
	if moved := s.join(t, one); moved.IPv4 != first.IPv4 || moved.Drift != "" {
		t.Errorf("by a file again: %+v, was %+v", moved, first)
	}
	if got := s.one(t); len(got.Members) != 1 || got.Drift != "" {
		t.Errorf("listed %+v", got)
	}
	s.Unpin(t, one.Namespace)
	if got := s.one(t); len(got.Members) != 1 || got.Members[0].Drift == "" || got.Drift != "" {
		t.Errorf("its namespace is gone: %+v", got)
	}
	one.Namespace = s.Pin(t, "")
	if back := s.join(t, one); !reflect.DeepEqual(back, first) {
		t.Errorf("back as %+v, was %+v", back, first)
	}
}
