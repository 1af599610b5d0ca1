package conformance

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/workload"
)

// keep makes a namespace of that hash with a value in it, which opens by "secret".
func (s ZDBSubject) keep(t *testing.T, hash string) (node.ZDBServer, node.ZDBNamespaceSpec) {
	t.Helper()
	at := s.attach(t, zdbOne, workload.ZDBUser)
	spec := node.ZDBNamespaceSpec{Container: zdbOne, Name: "5-1", Size: mib, Password: "secret", Hash: hash}
	if made := s.create(t, spec); made.Hash != hash {
		t.Errorf("made %+v, want hash %q", made, hash)
	}
	inside(t, at, "5-1", "secret").do("SET", "key", "kept")
	return at, spec
}

// wantHash fails unless the only namespace is as keep made it, with that hash.
func (s ZDBSubject) wantHash(t *testing.T, at node.ZDBServer, hash string) {
	t.Helper()
	list, err := s.Client.List(t.Context(), "")
	must(t, err)
	if len(list) != 1 || list[0].Name != "5-1" || list[0].Size != mib || list[0].Hash != hash {
		t.Errorf("there are %+v, want only 5-1 with hash %q", list, hash)
	}
	if value := inside(t, at, "5-1", "secret").do("GET", "key"); value != "kept" {
		t.Errorf("the value is %q", value)
	}
}

func zdbAnotherHash(t *testing.T, s ZDBSubject) {
	at, spec := s.keep(t, oneHash)
	theirs := spec
	theirs.Password, theirs.Size = "theirs", 2*mib
	for _, hash := range []string{anotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			_, err := s.Client.Create(t.Context(), theirs)
			wantKind(t, err, node.Exist)
			wantText(t, err, "5-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, at, oneHash)
	s.create(t, spec)
	// It outlives both of them.
	s.Kill(t, zdbOne)
	s.Start(t, zdbOne, workload.ZDBUser)
	s.Client = s.Restart(t)
	at = s.whole(t)
	s.wantHash(t, at, oneHash)
	// One that was removed is nobody's any more.
	must(t, s.Client.Delete(t.Context(), zdbOne, "5-1"))
	theirs.Hash = anotherHash
	if made := s.create(t, theirs); made.Hash != anotherHash || made.Used != 0 {
		t.Errorf("made anew it is %+v", made)
	}
	must(t, s.Client.Delete(t.Context(), zdbOne, "5-1"))
	theirs.Hash = ""
	if made := s.create(t, theirs); made.Hash != "" {
		t.Errorf("without a hash it is %+v", made)
	}
	theirs.Hash = "no hash"
	_, err := s.Client.Create(t.Context(), theirs)
	wantKind(t, err, node.Invalid)
}

func zdbUnlabelled(t *testing.T, s ZDBSubject) {
	at, spec := s.keep(t, "")
	spec.Hash, spec.Password = oneHash, "theirs"
	_, err := s.Client.Create(t.Context(), spec)
	wantKind(t, err, node.Exist)
	s.wantHash(t, at, "")
}

func zdbAdopted(t *testing.T, s ZDBSubject) {
	at, spec := s.keep(t, "")
	spec.Hash, spec.AdoptUnlabelled = oneHash, true
	if adopted := s.create(t, spec); adopted.Hash != oneHash || adopted.Used == 0 {
		t.Errorf("adopted as %+v", adopted)
	}
	s.wantHash(t, at, oneHash)
	spec.Hash = anotherHash
	_, err := s.Client.Create(t.Context(), spec)
	wantKind(t, err, node.Exist)
	s.wantHash(t, at, oneHash)
}
