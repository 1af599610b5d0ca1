package conformance

import (
	"reflect"
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// networksAnotherHash tests that a network belongs to its user, by its name: the newest
// reservation's label replaces the earlier one.
func networksAnotherHash(t *testing.T, s NetworksSubject) {
	spec := NetworkSpec(t, "net1", "10.1.2.0/24", s.Port(t))
	for _, label := range []struct{ id, hash string }{{"1-1", ""}, {"1-1", expect.OneHash}, {"2-1", expect.AnotherHash}} {
		spec.Label, spec.Hash = label.id, label.hash
		made, err := s.Client.Create(t.Context(), spec)
		expect.NoError(t, err)
		if made.Label != label.id || made.Hash != label.hash || made.Drift != "" {
			t.Errorf("made %+v, want %s with hash %q", made, label.id, label.hash)
		}
	}
	s.Client, s.Taps = s.Restart(t)
	if got := s.one(t); got.Label != "2-1" || got.Hash != expect.AnotherHash {
		t.Errorf("after a restart it is %+v", got)
	}
	spec.Hash = "no hash"
	_, err := s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Invalid)
}

// wantMember fails unless the only member is that one.
func (s NetworksSubject) wantMember(t *testing.T, want node.Member) {
	t.Helper()
	got := s.one(t)
	if len(got.Members) != 1 || !reflect.DeepEqual(got.Members[0], want) || got.Drift != "" {
		t.Errorf("there are %+v with drift %q, want only %+v", got.Members, got.Drift, want)
	}
}

func membersAnotherHash(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t), Name: "five", Hash: expect.OneHash}
	member := s.join(t, ask)
	if member.Hash != expect.OneHash {
		t.Errorf("joined as %+v", member)
	}
	theirs := ask
	theirs.PID = s.Process(t)
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			_, err := s.Client.Join(t.Context(), theirs)
			expect.Kind(t, err, node.Exist)
			expect.Text(t, err, "5-1", "isn't this reservation's")
		}
	}
	s.wantMember(t, member)
	s.Client, s.Taps = s.Restart(t)
	s.wantMember(t, member)
	if again := s.join(t, ask); !reflect.DeepEqual(again, member) {
		t.Errorf("joined again it is %+v, was %+v", again, member)
	}
	theirs.Hash = "no hash"
	_, err := s.Client.Join(t.Context(), theirs)
	expect.Kind(t, err, node.Invalid)
}

func membersUnlabelled(t *testing.T, s NetworksSubject) {
	spec, _ := s.create(t, "net1", "10.1.2.0/24")
	ask := node.MemberSpec{Network: spec.ID, Member: "5-1", PID: s.Process(t)}
	member := s.join(t, ask)
	ask.Hash = expect.OneHash
	_, err := s.Client.Join(t.Context(), ask)
	expect.Kind(t, err, node.Exist)
	s.wantMember(t, member)
	ask.AdoptUnlabelled = true
	adopted := s.join(t, ask)
	if member.Hash = expect.OneHash; !reflect.DeepEqual(adopted, member) {
		t.Errorf("adopted as %+v, want %+v", adopted, member)
	}
	s.wantMember(t, member)
	ask.Hash = expect.AnotherHash
	_, err = s.Client.Join(t.Context(), ask)
	expect.Kind(t, err, node.Exist)
}
