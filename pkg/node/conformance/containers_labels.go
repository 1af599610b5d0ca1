package conformance

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// runAs makes a running container of that hash.
func (s ContainersSubject) runAs(t *testing.T, hash string) (node.ContainerSpec, node.ContainerInfo) {
	t.Helper()
	spec := s.spec(t, "1-1", s.Serve)
	spec.Hash = hash
	_, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	info, err := s.Client.Start(t.Context(), "1-1")
	expect.NoError(t, err)
	return spec, info
}

// wantHash fails unless the only container still runs unchanged, with that hash.
func (s ContainersSubject) wantHash(t *testing.T, was node.ContainerInfo, hash string) {
	t.Helper()
	all, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(all) != 1 || all[0].PID != was.PID || all[0].State != node.ContainerRunning || all[0].Hash != hash {
		t.Errorf("there are %+v, want only %+v with hash %q", all, was, hash)
	}
	if one, err := s.Client.Inspect(t.Context(), "1-1"); err != nil || one.Hash != hash {
		t.Errorf("Inspect says %+v (%v), want hash %q", one, err, hash)
	}
}

func containersAnotherHash(t *testing.T, s ContainersSubject) {
	spec, running := s.runAs(t, expect.OneHash)
	theirs := spec
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			theirs.Hostname = "another"
			_, err := s.Client.Create(t.Context(), theirs)
			expect.Kind(t, err, node.Exist)
			expect.Text(t, err, "1-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, running, expect.OneHash)
	s.Client, s.Images = s.Restart(t)
	s.wantHash(t, running, expect.OneHash)
	_, err := s.Client.Create(t.Context(), theirs)
	expect.Kind(t, err, node.Exist)
	_, err = s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	s.wantHash(t, running, expect.OneHash)
	expect.NoError(t, s.Client.Delete(t.Context(), "1-1"))
	theirs.Hash = expect.AnotherHash
	if made, err := s.Client.Create(t.Context(), theirs); err != nil || made.Hash != expect.AnotherHash {
		t.Errorf("once it is gone the other one is %+v (%v)", made, err)
	}
	spec.Hash = "no hash"
	_, err = s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Invalid)
}

func containersUnlabelled(t *testing.T, s ContainersSubject) {
	spec, running := s.runAs(t, "")
	spec.Hash = expect.OneHash
	_, err := s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, running, "")
}

// containersAdopted tests that a running container gets its hash without a stop.
func containersAdopted(t *testing.T, s ContainersSubject) {
	spec, running := s.runAs(t, "")
	spec.Hash, spec.AdoptUnlabelled = expect.OneHash, true
	made, err := s.Client.Create(t.Context(), spec)
	expect.NoError(t, err)
	if made.Hash != expect.OneHash || made.PID != running.PID {
		t.Errorf("adopted as %+v, was %+v", made, running)
	}
	s.wantHash(t, running, expect.OneHash)
	s.Client, s.Images = s.Restart(t)
	s.wantHash(t, running, expect.OneHash)
	spec.Hash = expect.AnotherHash
	_, err = s.Client.Create(t.Context(), spec)
	expect.Kind(t, err, node.Exist)
}
