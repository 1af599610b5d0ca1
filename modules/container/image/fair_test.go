package image_test

import (
	"fmt"
	"path/filepath"
	"runtime"
	"strings"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/image/document"
	"github.com/croft-edge/croft/pkg/node"
)

// TestUnpackingTakesTurns wants layers that are never unpacked, of more users than
// there are places for, to keep nobody from having theirs.
func TestUnpackingTakesTurns(t *testing.T) {
	t.Parallel()
	w := open(t, func(c *image.Config) {
		c.Unpacking.Command, c.Unpacking.Turn = []string{"/proc/self/exe", "unpack-unless-hang"}, 5*time.Second
	})
	_, err := hang().Layout(filepath.Join(w.dir, "hang"))
	must(t, err)
	_, err = imagetest.New().File("/a", "a", 0o644).Layer().File("/b", "b", 0o644).Layout(filepath.Join(w.dir, "honest"))
	must(t, err)
	unpacking := func() (n int) {
		list, err := w.List(t.Context())
		must(t, err)
		for _, i := range list {
			if i.Unpacking {
				n++
			}
		}
		return n
	}
	// More of each user than may be fetched at once, too.
	users := 0
	for n := range 12 {
		s := spec(fmt.Sprintf("1-%d", n), filepath.Join(w.dir, "hang"))
		s.User = fmt.Sprintf("hostile%d", n/3)
		_, err := w.Pull(t.Context(), s)
		must(t, err)
		users = n/3 + 1
	}
	eventually(t, "those of all users wait to be unpacked", func() bool { return unpacking() >= users })
	s := spec("2-1", filepath.Join(w.dir, "honest"))
	i := w.ready(s)
	if got := w.file("2-1", "b"); got != "b" || i.Digest == "" {
		t.Errorf("%+v has %q in /b", i, got)
	}
	if unpacking() == 0 {
		t.Error("nothing hangs any more: this shows nothing")
	}
}

// TestHostileManifestsAtOnce wants four users' pulls at once of manifests of the largest
// accepted size to cost little, with all discarded bytes counted.
func TestHostileManifestsAtOnce(t *testing.T) {
	const most = 4 * 32 << 20
	w := open(t)
	raw := []byte(`{"mediaType":"` + ocispec.MediaTypeImageIndex + `","manifests":[` + strings.TrimSuffix(strings.Repeat("{},", (document.MostBytes-200)/3), ",") + "]}")
	_, err := imagetest.PushManifest(t.Context(), w.registry.Host+"/app:1", ocispec.MediaTypeImageIndex, raw, w.registry.Behind())
	must(t, err)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	all := make([]node.ImageSpec, 4)
	for n := range all {
		all[n] = spec(fmt.Sprintf("1-%d", n), w.ref("app:1"))
		all[n].User = fmt.Sprintf("user%d", n)
		_, err := w.Pull(t.Context(), all[n])
		must(t, err)
	}
	for _, s := range all {
		_, err := w.result(s)
		wantError(t, err, node.Invalid, "entries, at most 1000")
	}
	runtime.ReadMemStats(&after)
	took := after.TotalAlloc - before.TotalAlloc
	t.Logf("%d MiB were allocated", took>>20)
	if took > most {
		t.Errorf("%d bytes were allocated, at most %d are wanted", took, most)
	}
}
