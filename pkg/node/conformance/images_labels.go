package conformance

import (
	"testing"

	"github.com/croft-edge/croft/pkg/node"
)

// wantHash fails unless the only label's image has that hash.
func (s ImagesSubject) wantHash(t *testing.T, want node.Image, hash string) {
	t.Helper()
	list, err := s.Client.List(t.Context())
	must(t, err)
	if len(list) != 1 || !list[0].Ready || list[0].Label != want.Label || list[0].Digest != want.Digest || list[0].Hash != hash {
		t.Errorf("there are %+v, want only %+v with hash %q", list, want, hash)
	}
}

func imagesAnotherHash(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	spec.Hash = oneHash
	image := s.ready(t, spec)
	theirs := spec
	for _, hash := range []string{anotherHash, ""} {
		for _, adopt := range []bool{false, true} {
			theirs.Hash, theirs.AdoptUnlabelled = hash, adopt
			_, err := s.pull(t, theirs)
			wantKind(t, err, node.Exist)
			wantText(t, err, "1-1", "isn't this reservation's")
		}
	}
	s.wantHash(t, image, oneHash)
	s.Client = s.Restart(t)
	s.wantHash(t, image, oneHash)
	if again := s.ready(t, spec); again.Hash != oneHash {
		t.Errorf("pulled again it is %+v", again)
	}
	// The reference belongs to nobody: others' labels lead to the same image.
	other := imageSpec("1-2", s.Tag)
	other.Hash = anotherHash
	if got := s.ready(t, other); got.Hash != anotherHash || got.Digest != image.Digest {
		t.Errorf("another label's is %+v", got)
	}
	must(t, s.Client.Release(t.Context(), "1-1"))
	theirs.Hash = anotherHash
	if got := s.ready(t, theirs); got.Hash != anotherHash {
		t.Errorf("once it is released the label's is %+v", got)
	}
	spec.Label, spec.Hash = "1-3", "no hash"
	_, err := s.pull(t, spec)
	wantKind(t, err, node.Invalid)
}

func imagesUnlabelled(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	image := s.ready(t, spec)
	spec.Hash = oneHash
	_, err := s.pull(t, spec)
	wantKind(t, err, node.Exist)
	s.wantHash(t, image, "")
}

func imagesAdopted(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	image := s.ready(t, spec)
	spec.Hash, spec.AdoptUnlabelled = oneHash, true
	if got := s.ready(t, spec); got.Hash != oneHash {
		t.Errorf("adopted as %+v", got)
	}
	s.wantHash(t, image, oneHash)
	s.Client = s.Restart(t)
	s.wantHash(t, image, oneHash)
	spec.Hash = anotherHash
	_, err := s.pull(t, spec)
	wantKind(t, err, node.Exist)
}
