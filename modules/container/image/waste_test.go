package image_test

import (
	"fmt"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/pkg/limit"
	"github.com/croft-edge/croft/pkg/node"
)

// TestRefusedImagesCostTheirUserTurns wants a user whose images are refused to wait for the next,
// nobody else, and the user's other images not either.
func TestRefusedImagesCostTheirUserTurns(t *testing.T) {
	f := fill(t, empty100)
	f.image("1-0", "good")
	_, err := imagetest.PushManifest(t.Context(), f.registry.Host+"/bad:1", "application/vnd.oci.image.manifest.v1+json", []byte(`{}`), f.registry.Behind())
	must(t, err)
	before := limit.Times()[image.Waste.Name]
	try := func(user string, n int) error {
		s := spec(fmt.Sprint("2-", n), f.ref("bad:1"))
		s.User = user
		_, err := f.result(s)
		return err
	}
	for n := range int(image.Waste.Each) + 1 {
		wantError(t, try(alice, n), node.Invalid)
	}
	wantError(t, try(alice, 100), node.Transient, "cannot pull docker://", "the next can be fetched in 10s")
	if got := limit.Times()[image.Waste.Name]; got == before {
		t.Error("it isn't counted")
	}
	wantError(t, try("bob", 200), node.Invalid)
	f.ready(spec("1-0", f.ref("good:1")))
	f.ready(spec("1-9", f.ref("good:1")))
	f.clock.Advance(9 * time.Second)
	wantError(t, try(alice, 101), node.Transient, "the next can be fetched in 1s")
	f.clock.Advance(time.Second)
	wantError(t, try(alice, 101), node.Invalid)
	wantError(t, try(alice, 102), node.Transient, "10s")
	f.clock.Advance(10 * time.Second)
	f.push(imagetest.New().File("/name", "other", 0o644), "other:1")
	f.ready(spec("1-1", f.ref("other:1")))
	f.ready(spec("1-2", f.ref("other:1")))
}

// TestImagesAtOnceAreCharged wants it to bring nothing to ask for all of them before
// the first is refused.
func TestImagesAtOnceAreCharged(t *testing.T) {
	f := fill(t, empty100)
	_, err := imagetest.PushManifest(t.Context(), f.registry.Host+"/bad:1", "application/vnd.oci.image.manifest.v1+json", []byte(`{}`), f.registry.Behind())
	must(t, err)
	const all = 80
	for n := range all {
		_, err := f.Pull(t.Context(), spec(fmt.Sprint("2-", n), f.ref("bad:1")))
		must(t, err)
	}
	refused, waiting := 0, 0
	for n := range all {
		_, err := f.result(spec(fmt.Sprint("2-", n), f.ref("bad:1")))
		switch {
		case node.KindOf(err) == node.Invalid:
			refused++
		case strings.Contains(err.Error(), "can be fetched in"):
			waiting++
		default: // another one's end has removed what it read
			wantError(t, err, node.Transient)
		}
	}
	if waiting == 0 {
		t.Error("none waits")
	}
	// Those that have a place when the last free second goes may end.
	if most := int(image.Waste.Each + 1 + 2*image.Pulls.Each); refused > most {
		t.Errorf("%d were refused, want %d at most and then none", refused, most)
	}
}

// TestGivenUpImagesCostTheirUserTurns wants a user to gain nothing by deleting what
// would be refused.
func TestGivenUpImagesCostTheirUserTurns(t *testing.T) {
	f := fill(t, empty100)
	f.cfg.Unpacking.Command = []string{"/proc/self/exe", "unpack-unless-hang"}
	f.again()
	_, err := hang().Layout(filepath.Join(f.dir, "hang"))
	must(t, err)
	n := 0
	eventually(t, "the next has to wait", func() bool {
		n++
		s := spec(fmt.Sprint("1-", n), filepath.Join(f.dir, "hang"))
		_, err = f.Pull(t.Context(), s)
		for err == nil {
			if i, _ := f.Inspect(t.Context(), s.Label); i.Unpacking {
				break
			}
			_, err = f.Pull(t.Context(), s)
		}
		if err != nil {
			return true
		}
		f.clock.Advance(time.Minute) // perhaps before it has begun
		must(t, f.Release(t.Context(), s.Label))
		return false
	})
	wantError(t, err, node.Transient, "can be fetched in 5m")
}

// TestUnusedImagesCostTheirUserTurns wants the same of images that are good, for
// containers that never are.
func TestUnusedImagesCostTheirUserTurns(t *testing.T) {
	for name, used := range map[string]bool{"unused": false, "used": true} {
		t.Run(name, func(t *testing.T) {
			f := fill(t, empty100)
			f.push(imagetest.New().File("/name", "good", 0o644), "good:1")
			f.push(imagetest.New().File("/name", "next", 0o644), "next:1")
			stop, stopped := make(chan struct{}), make(chan struct{})
			go func() {
				defer close(stopped)
				for {
					select {
					case <-stop:
						return
					case <-time.After(time.Millisecond):
						f.clock.Advance(10 * time.Second)
					}
				}
			}()
			f.ready(spec("1-1", f.ref("good:1")))
			close(stop)
			<-stopped
			if used {
				_, err := f.Layers(t.Context(), "1-1")
				must(t, err)
			}
			must(t, f.Release(t.Context(), "1-1"))
			_, err := f.result(spec("1-2", f.ref("next:1")))
			if used {
				must(t, err)
			} else {
				wantError(t, err, node.Transient, "can be fetched in")
			}
		})
	}
}

// What a user can waste follows from the time alone, whatever they try.
func TestWasteIsBounded(t *testing.T) {
	rapid.Check(t, func(t *rapid.T) {
		w := image.NewWaste()
		now, spent, last := time.Duration(0), time.Duration(0), time.Duration(0)
		for range rapid.IntRange(1, 60).Draw(t, "steps") {
			now += time.Duration(rapid.IntRange(0, 200).Draw(t, "seconds")) * time.Second
			wait := w.Wait("mallory", now)
			if free := w.Wait("alice", now); free != 0 {
				t.Fatalf("alice waits %s", free)
			}
			most := time.Duration(image.Waste.Each)*time.Second + now/10
			if wait == 0 {
				last = time.Duration(rapid.IntRange(0, 360).Draw(t, "cost")) * time.Second
				w.Add("mallory", now, last)
				spent += last
			}
			if spent-last > most {
				t.Fatalf("after %s %s were wasted before the last of %s, at most %s are allowed", now, spent-last, last, most)
			}
			if again := now + w.Wait("mallory", now); w.Wait("mallory", again) != 0 {
				t.Fatalf("at %s nothing is fetched, though it was said", again)
			}
		}
	})
}

func TestNobodyWaitsForMoreThanAnHour(t *testing.T) {
	w := image.NewWaste()
	for range 3 {
		w.Add("mallory", time.Hour, 900*time.Second)
	}
	w.Add(node.OwnUser, time.Hour, 900*time.Second)
	if wait, own := w.Wait("mallory", time.Hour), w.Wait(node.OwnUser, time.Hour); wait != time.Hour || own != 0 {
		t.Errorf("mallory waits %s, the node itself %s", wait, own)
	}
}
