package zdb

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
	"github.com/croft-edge/croft/pkg/workload"
)

// keep makes a namespace of that hash with a value in it and the password "secret".
func (s Subject) keep(t *testing.T, hash string) (node.ZDBServer, node.ZDBNamespaceSpec) {
	t.Helper()
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: expect.MiB, Password: "secret", Hash: hash}
	if made := s.create(t, spec); made.Hash != hash {
		t.Errorf("made %+v, want hash %q", made, hash)
	}
	s.inside(t, at, "5-1", "secret").do("SET", "key", "kept")
	return at, spec
}

// wantHash fails unless the only namespace is unchanged since keep, with that hash.
func (s Subject) wantHash(t *testing.T, at node.ZDBServer, hash string) {
	t.Helper()
	list, err := s.Client.List(t.Context(), "")
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Name != "5-1" || list[0].Size != expect.MiB || list[0].Hash != hash {
		t.Errorf("there are %+v, want only 5-1 with hash %q", list, hash)
	}
	if value := s.inside(t, at, "5-1", "secret").do("GET", "key"); value != "kept" {
		t.Errorf("the value is %q", value)
	}
}

func zdbAnotherHash(t *testing.T, s Subject) {
	at, spec := s.keep(t, expect.OneHash)
	theirs := spec
	theirs.Password, theirs.Size = "theirs", 2*expect.MiB
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			_, err := s.Client.Create(t.Context(), theirs)
			expect.Kind(t, err, node.Exist)
			expect.Text(t, err, "5-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, at, expect.OneHash)
	s.create(t, spec)
	// The hash outlives both of them.
	s.Kill(t, zdbOne)
	s.Start(t, zdbOne, workload.ZDBUser)
	s.Client = s.Restart(t)
	at = s.whole(t)
	s.wantHash(t, at, expect.OneHash)
	// A removed namespace belongs to nobody any more.
	expect.NoError(t, s.Client.Delete(t.Context(), zdbOne, "5-1"))
	theirs.Hash = expect.AnotherHash
	if made := s.create(t, theirs); made.Hash != expect.AnotherHash || made.Used != 0 {
		t.Errorf("made anew it is %+v", made)
	}
	expect.NoError(t, s.Client.Delete(t.Context(), zdbOne, "5-1"))
	theirs.Hash = ""
	if made := s.create(t, theirs); made.Hash != "" {
		t.Errorf("without a hash it is %+v", made)
	}
	theirs.Hash = "no hash"
	_, err := s.Client.Create(t.Context(), theirs)
	expect.Kind(t, err, node.Invalid)
}

func zdbUnlabelled(t *testing.T, s Subject) {
	at, spec := s.keep(t, "")
	spec.Hash, spec.Password = expect.OneHash, "theirs"
	_, err := s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, at, "")
}

func zdbAdopted(t *testing.T, s Subject) {
	at, spec := s.keep(t, "")
	spec.Hash, spec.AdoptUnlabelled = expect.OneHash, true
	if adopted := s.create(t, spec); adopted.Hash != expect.OneHash || adopted.Used == 0 {
		t.Errorf("adopted as %+v", adopted)
	}
	s.wantHash(t, at, expect.OneHash)
	spec.Hash = expect.AnotherHash
	_, err := s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, at, expect.OneHash)
}
