package conformance

import (
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance/expect"
)

// ImagesSubject is a new image module, without images.
type ImagesSubject struct {
	Client ImagesClient
	// Tag is a reference by tag to a pullable image, Digest the one by the digest of
	// the same image's manifest for this machine.
	Tag, Digest string
	// Path is the path of an image on the node, Missing a reference to none,
	// Wrong to one whose bytes don't match its digest.
	Path, Missing, Wrong string
	// Move points Tag to another image. Unplug removes the registry: requests to
	// it fail soon.
	Move   func(t *testing.T)
	Unplug func(t *testing.T)
	// Restart kills the module like kill -9, starts it again, and returns the
	// new client.
	Restart func(t *testing.T) ImagesClient
}

// ImagesSuite tests an implementation of node.Images. Each part gets its own
// subject from open.
func ImagesSuite(t *testing.T, open func(t *testing.T) ImagesSubject) {
	parts := []struct {
		name string
		run  func(t *testing.T, s ImagesSubject)
	}{
		{"pull", imagesGet},
		{"twice", imagesTwice},
		{"another hash", imagesAnotherHash},
		{"unlabelled, not adopted", imagesUnlabelled},
		{"unlabelled, adopted", imagesAdopted},
		{"remove what isn't there", imagesRemoveNothing},
		{"release", imagesRelease},
		{"a tag that moves", imagesMove},
		{"without a network", imagesUnplugged},
		{"after a restart", imagesRestart},
		{"final failures", imagesFailures},
		{"bad specs", imagesBadSpecs},
	}
	for _, part := range parts {
		t.Run(part.name, func(t *testing.T) { part.run(t, open(t)) })
	}
}

// imageUser and otherUser pull images in the suite.
const (
	imageUser = "6Y6usApYSWiMRSNvnBFHL6vbSJamoCsjjwJsn6q4mpry"
	otherUser = "4vJ9JU1bJJE96FWSJKvHsmmFADCg4gpZQff4P3bkLKi5"
)

func imageSpec(label, reference string) node.ImageSpec {
	return node.ImageSpec{Label: label, Reference: reference, User: imageUser}
}

// pull pulls until it is ready or fails, and retries errors worth another try.
func (s ImagesSubject) pull(t *testing.T, spec node.ImageSpec) (node.Image, error) {
	t.Helper()
	end := time.Now().Add(3 * expect.Patience)
	for {
		i, err := s.Client.Pull(t.Context(), spec)
		again := err == nil && !i.Ready || node.KindOf(err) == node.Transient || node.KindOf(err) == node.Busy
		if !again || time.Now().After(end) {
			return i, err
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-t.Context().Done():
		}
	}
}

func (s ImagesSubject) ready(t *testing.T, spec node.ImageSpec) node.Image {
	t.Helper()
	i, err := s.pull(t, spec)
	expect.NoError(t, err)
	if !i.Ready || i.Label != spec.Label || i.Reference != spec.Reference || i.User != spec.User || i.Size == 0 || i.Used == 0 || !strings.HasPrefix(i.Digest, "sha256:") || i.Unpacking {
		t.Fatalf("image is %+v, want that of %+v", i, spec)
	}
	return i
}

// digest is the digest in s.Digest.
func (s ImagesSubject) digest() string {
	_, digest, _ := strings.Cut(s.Digest, "@")
	return digest
}

func imagesGet(t *testing.T, s ImagesSubject) {
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Fatalf("there are images already: %+v", list)
	}
	for label, reference := range map[string]string{"1-1": s.Tag, "1-2": s.Digest} {
		i := s.ready(t, imageSpec(label, reference))
		if i.Digest != s.digest() {
			t.Errorf("%s has digest %s, want %s", reference, i.Digest, s.digest())
		}
		same, err := s.Client.Inspect(t.Context(), label)
		expect.NoError(t, err)
		if same != i {
			t.Errorf("Inspect says %+v, Pull %+v", same, i)
		}
	}
	s.ready(t, imageSpec("1-3", s.Path))
	list, err = s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 3 {
		t.Errorf("there are %d images, want 3: %+v", len(list), list)
	}
	st, err := s.Client.Status(t.Context())
	expect.NoError(t, err)
	if st.Images == 0 || st.Size == 0 || st.Total == 0 || st.Used == 0 {
		t.Errorf("status is %+v", st)
	}
}

func imagesTwice(t *testing.T, s ImagesSubject) {
	spec := imageSpec("1-1", s.Tag)
	// Both at once.
	for range 2 {
		_, err := s.Client.Pull(t.Context(), spec)
		expect.NoError(t, err)
	}
	first := s.ready(t, spec)
	if second := s.ready(t, spec); second.Digest != first.Digest {
		t.Errorf("the second is %+v, the first %+v", second, first)
	}
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 {
		t.Errorf("there are %d images, want 1", len(list))
	}
	// A label keeps its image: it refuses another reference and another
	// user.
	_, err = s.pull(t, imageSpec("1-1", s.Path))
	expect.Kind(t, err, node.Exist)
	other := imageSpec("1-1", s.Tag)
	other.User = otherUser
	_, err = s.pull(t, other)
	expect.Kind(t, err, node.Exist)
}

func imagesRemoveNothing(t *testing.T, s ImagesSubject) {
	expect.Kind(t, s.Client.Release(t.Context(), "1-1"), node.NotExist)
	_, err := s.Client.Inspect(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
}

func imagesRelease(t *testing.T, s ImagesSubject) {
	s.ready(t, imageSpec("1-1", s.Tag))
	s.ready(t, imageSpec("1-2", s.Tag))
	expect.NoError(t, s.Client.Release(t.Context(), "1-1"))
	expect.Kind(t, s.Client.Release(t.Context(), "1-1"), node.NotExist)
	_, err := s.Client.Inspect(t.Context(), "1-1")
	expect.Kind(t, err, node.NotExist)
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 1 || list[0].Label != "1-2" {
		t.Errorf("there are %+v, want 1-2 only", list)
	}
	// A label may be used again.
	s.ready(t, imageSpec("1-1", s.Path))
}

func imagesMove(t *testing.T, s ImagesSubject) {
	first := s.ready(t, imageSpec("1-1", s.Tag))
	s.Move(t)
	if i := s.ready(t, imageSpec("1-1", s.Tag)); i.Digest != first.Digest {
		t.Errorf("the label has %s, want what it was given, %s", i.Digest, first.Digest)
	}
	if i := s.ready(t, imageSpec("1-2", s.Tag)); i.Digest == first.Digest {
		t.Errorf("a new label has %s, want what the tag leads to now", i.Digest)
	}
}

func imagesUnplugged(t *testing.T, s ImagesSubject) {
	first := s.ready(t, imageSpec("1-1", s.Tag))
	s.Unplug(t)
	for label, reference := range map[string]string{"1-1": s.Tag, "1-2": s.Tag, "1-3": s.Digest} {
		if i := s.ready(t, imageSpec(label, reference)); i.Digest != first.Digest {
			t.Errorf("%s has digest %s, want %s", reference, i.Digest, first.Digest)
		}
	}
}

func imagesRestart(t *testing.T, s ImagesSubject) {
	first := s.ready(t, imageSpec("1-1", s.Tag))
	s.Client = s.Restart(t)
	s.Unplug(t)
	i, err := s.Client.Inspect(t.Context(), "1-1")
	expect.NoError(t, err)
	if i != first {
		t.Errorf("image is %+v after the restart, was %+v", i, first)
	}
	if again := s.ready(t, imageSpec("1-1", s.Tag)); again != first {
		t.Errorf("image is %+v after the restart, was %+v", again, first)
	}
	expect.NoError(t, s.Client.Release(t.Context(), "1-1"))
}

func imagesFailures(t *testing.T, s ImagesSubject) {
	for reference, kind := range map[string]node.Kind{s.Missing: node.Invalid, s.Wrong: node.Refused} {
		spec := imageSpec("1-1", reference)
		for range 2 {
			_, err := s.pull(t, spec)
			expect.Kind(t, err, kind)
		}
		_, err := s.Client.Inspect(t.Context(), "1-1")
		expect.Kind(t, err, node.NotExist)
	}
	list, err := s.Client.List(t.Context())
	expect.NoError(t, err)
	if len(list) != 0 {
		t.Errorf("there are %+v, want nothing", list)
	}
	// Its requester releases it, and may ask for another.
	expect.NoError(t, s.Client.Release(t.Context(), "1-1"))
	s.ready(t, imageSpec("1-1", s.Tag))
}

func imagesBadSpecs(t *testing.T, s ImagesSubject) {
	for _, name := range expect.BadNames() {
		for _, spec := range []node.ImageSpec{
			{Label: name, User: imageUser, Reference: s.Tag}, {Label: "1-1", User: name, Reference: s.Tag},
		} {
			_, err := s.Client.Pull(t.Context(), spec)
			expect.Kind(t, err, node.Invalid)
		}
		_, err := s.Client.Inspect(t.Context(), name)
		expect.Kind(t, err, node.Invalid)
		expect.Kind(t, s.Client.Release(t.Context(), name), node.Invalid)
	}
	for _, reference := range []string{
		"", "alpine", "docker://", "docker://UPPER/Case", "docker://a@sha256:12", "https://hub.example.org/a.flist", "/etc/passwd",
		"../image", s.Path + "/../../etc", s.Path + "\x00", "docker://" + strings.Repeat("a", 1<<16),
	} {
		_, err := s.Client.Pull(t.Context(), imageSpec("1-1", reference))
		expect.Kind(t, err, node.Invalid)
		expect.Text(t, err, "data.flist", "allowed")
	}
	bad := imageSpec("1-1", s.Tag)
	bad.Auth = "nocolon"
	_, err := s.Client.Pull(t.Context(), bad)
	expect.Kind(t, err, node.Invalid)
	expect.Text(t, err, "data.image_auth")
}
