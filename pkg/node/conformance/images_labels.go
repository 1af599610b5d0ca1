package conformance

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// wantHash fails unless the only label's image has that hash.
func (s ImagesSubject) wantHash(t *testing.T, want node.Image, hash string) {
	t.Helper()
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 || !list[0].Ready || list[0].Label != want.Label || list[0].Digest != want.Digest || list[0].Hash != hash {
		t.Errorf("there are %+v, want only %+v with hash %q", list, want, hash)
	}
}

func imagesAnotherHash(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	spec.Hash = expect.OneHash
	image := s.ready(t, spec)
	theirs := spec
	for _, hash := range []string{expect.AnotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			_, err := s.pull(t, theirs)
			expect.Kind(t, err, node.Exist)
			expect.Text(t, err, "1-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, image, expect.OneHash)
	s.Client = s.Restart(t)
	s.wantHash(t, image, expect.OneHash)
	if again := s.ready(t, spec); again.Hash != expect.OneHash {
		t.Errorf("pulled again it is %+v", again)
	}
	// The reference belongs to nobody: others' labels refer to the same image.
	other := imageSpec("1-2", s.Tag)
	other.Hash = expect.AnotherHash
	if got := s.ready(t, other); got.Hash != expect.AnotherHash || got.Digest != image.Digest {
		t.Errorf("another label's is %+v", got)
	}
	expect.NoError(t, s.Client.Release(t.Context(), "1-1"))
	theirs.Hash = expect.AnotherHash
	if got := s.ready(t, theirs); got.Hash != expect.AnotherHash {
		t.Errorf("once it is released the label's is %+v", got)
	}
	spec.Label, spec.Hash = "1-3", "no hash"
	_, err := s.pull(t, spec)
	expect.Kind(t, err, node.Invalid)
}

func imagesUnlabelled(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	image := s.ready(t, spec)
	spec.Hash = expect.OneHash
	_, err := s.pull(t, spec)
	expect.Kind(t, err, node.Exist)
	s.wantHash(t, image, "")
}

func imagesAdopted(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	image := s.ready(t, spec)
	spec.Hash, spec.AdoptUnlabelled = expect.OneHash, true
	if got := s.ready(t, spec); got.Hash != expect.OneHash {
		t.Errorf("adopted as %+v", got)
	}
	s.wantHash(t, image, expect.OneHash)
	s.Client = s.Restart(t)
	s.wantHash(t, image, expect.OneHash)
	spec.Hash = expect.AnotherHash
	_, err := s.pull(t, spec)
	expect.Kind(t, err, node.Exist)
}
