package image

import (
	"errors"
	"fmt"
	"maps"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"
	"pgregory.net/rapid"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/atomicfile"
	"github.com/croft-edge/croft/pkg/node"
)

var errDied = errors.New("the process died here")

// fate ends the process at a step, and knows what a power cut there would take.
type fate struct {
	// at is the number of steps that are still taken; less than 0: all.
	at   int
	dead bool
	seen int
	// written are files that aren't durable, renamed the folders in which names aren't.
	written, renamed map[string]bool
	wrong            []string
}

func newFate(at int) *fate {
	return &fate{at: at, written: map[string]bool{}, renamed: map[string]bool{}}
}

// hook is the Config's.
func (f *fate) hook(p atomicfile.Point) error {
	if f.dead {
		return errDied
	}
	if p.After {
		f.done(p)
	} else {
		f.begin(p)
	}
	f.seen++
	if f.at >= 0 && f.seen > f.at {
		f.dead = true
		return errDied
	}
	return nil
}

// begin finds what a rename makes visible before it is durable.
func (f *fate) begin(p atomicfile.Point) {
	if p.Op == atomicfile.Write {
		f.written[p.Path] = true
	}
	if p.Op != atomicfile.Rename {
		return
	}
	folder, name := filepath.Split(p.Path)
	from := filepath.Join(folder, fetchPrefix+strings.TrimPrefix(name, wholePrefix))
	for path := range f.written {
		if path == folder+tempPrefix+name || path == folder+partPrefix+name || strings.HasPrefix(path, from+"/") {
			f.wrong = append(f.wrong, "renamed before it was durable: "+path)
		}
	}
	if f.renamed[from] {
		f.wrong = append(f.wrong, "renamed before its names were durable: "+from)
	}
}

func (f *fate) done(p atomicfile.Point) {
	switch p.Op {
	case atomicfile.Sync:
		delete(f.written, p.Path)
	case atomicfile.Rename:
		f.renamed[filepath.Dir(p.Path)] = true
	case atomicfile.SyncDir:
		delete(f.renamed, p.Path)
	case atomicfile.Remove:
		for path := range maps.Clone(f.written) {
			if path == p.Path || strings.HasPrefix(path, p.Path+"/") {
				delete(f.written, path)
			}
		}
	}
}

// cutPower makes files that aren't durable what a file system may make of them.
func (f *fate) cutPower(t testing.TB) {
	t.Helper()
	for path := range f.written {
		info, err := os.Stat(path)
		if errors.Is(err, os.ErrNotExist) {
			continue
		}
		must(t, err)
		must(t, os.WriteFile(path, make([]byte, info.Size()), 0o600))
	}
}

// beside is another node with the same server.
func (w *world) beside(folder string) *world {
	out := &world{t: w.t, registry: w.registry, flists: w.flists, lists: w.lists, cfg: w.cfg, clock: w.clock, logs: w.logs}
	out.cfg.Folder = folder
	return out
}

// inMemory is a folder in memory: these tests make thousands of files durable.
func inMemory(t *testing.T) string {
	t.Helper()
	dir := t.TempDir()
	must(t, unix.Mount("croft-test", dir, "tmpfs", 0, "size=64m"))
	t.Cleanup(func() { must(t, unix.Unmount(dir, unix.MNT_DETACH)) })
	return dir
}

// A process that dies at any step, with or without the power, leaves the version that was here; the next one fetches the
// new one, and nothing else is left.
func TestDyingAtEveryStep(t *testing.T) { inEach(t, testDyingAtEveryStep) }

func testDyingAtEveryStep(t *testing.T, newWorld func(t testing.TB) *world) {
	points, memory := 0, inMemory(t)
	pool := newWorld(t) // one server for all
	one, two := made(t, "1"), made(t, "2")
	for at := 0; ; at++ {
		died := false
		for _, power := range []bool{true, false} {
			w := pool.beside(filepath.Join(memory, fmt.Sprint(at, power)))
			first := w.pushAs(one, "kubernetes:1")
			must(t, w.round(w.open()))
			second := w.pushAs(two, "kubernetes:1")
			f := newFate(at)
			w.cfg.Hook = f.hook
			err := w.round(w.open())
			if died = f.dead; !died {
				must(t, err)
				if len(f.written)+len(f.renamed) > 0 {
					t.Errorf("afterwards %v and %v aren't durable", f.written, f.renamed)
				}
				break
			}
			points++
			if !errors.Is(err, errDied) {
				t.Fatalf("at step %d it ended with %v", at, err)
			}
			if !power {
				f.cutPower(t)
			}
			if len(f.wrong) > 0 {
				t.Errorf("up to step %d: %q", at, f.wrong)
			}
			w.cfg.Hook = nil
			m := w.open()
			if i, err := m.Current(); err != nil || i.Version != "1" && i.Version != "2" {
				t.Fatalf("after a death at step %d VMs boot %+v, %v", at, i, err)
			} else {
				w.whole(i)
			}
			must(t, w.round(m))
			w.boots(m, "2")
			w.has(first, second)
			must(t, os.RemoveAll(w.cfg.Folder))
		}
		if !died {
			break
		}
	}
	t.Logf("%d deaths", points)
	if points < 60 {
		t.Errorf("only %d deaths: the steps aren't seen", points)
	}
}

// model is a node through pushes, faults, deaths and restarts.
type model struct {
	*world
	images *Images
	// pushed is what the registry has; known whether the node has ever had a version, and since then none was damaged.
	pushed string
	known  bool
	// all are the artifacts that can be pushed.
	all map[string]imagetest.Artifact
	// given are images that were returned, with the time until which they must stay.
	given map[string]given
}

type given struct {
	image node.VMImage
	until time.Duration
}

// TestNothingIsLost: whatever happens, VMs boot a version that the registry had, whole; a node that has one always has one;
// what was returned stays for an hour, and for as long as a VM has it; in the end there is the newest version and nothing
// else.
func TestNothingIsLost(t *testing.T) { inEach(t, testNothingIsLost) }

func testNothingIsLost(t *testing.T, newWorld func(t testing.TB) *world) {
	pool := newWorld(t) // one server for all
	number, memory := 0, inMemory(t)
	all := map[string]imagetest.Artifact{"1": made(t, "1"), "2": made(t, "2"), "3": made(t, "3")}
	rapid.Check(t, func(rt *rapid.T) {
		number++
		w := pool.beside(filepath.Join(memory, fmt.Sprint(number)))
		defer os.RemoveAll(w.cfg.Folder)
		w.cfg.InUse = func() ([]string, bool) { return w.inUse, true }
		m := &model{world: w, all: all, given: map[string]given{}}
		m.push(rt)
		m.images = m.open()
		rt.Repeat(map[string]func(*rapid.T){
			"push": m.push, "round": m.fine, "faulty round": m.faulty, "deadly round": m.deadly, "restart": func(*rapid.T) { m.images = m.open() },
			"boot": m.boot, "use": m.use, "end": func(*rapid.T) { m.inUse = nil },
			"wait": func(rt *rapid.T) {
				w.clock.Advance(time.Duration(rapid.IntRange(1, 90).Draw(rt, "minutes")) * time.Minute)
			},
			"damage": m.damage,
			"":       m.check,
		})
		m.inUse = nil
		m.clock.Advance(2 * time.Hour)
		must(t, m.round(m.images))
		m.boots(m.images, m.pushed)
		must(t, m.round(m.images))
		if left := m.entries(); len(left) != 2 {
			rt.Errorf("in the end there is %q", left)
		}
	})
}

func (m *model) push(rt *rapid.T) {
	m.pushed = rapid.SampledFrom([]string{"1", "2", "3"}).Draw(rt, "version")
	m.pushAs(m.all[m.pushed], "kubernetes:1")
}

func (m *model) fine(*rapid.T) {
	must(m.t, m.round(m.images))
	m.known = true
	m.boots(m.images, m.pushed)
	m.give()
}

// faulty is a round while the registry, the connection or the disk fails.
func (m *model) faulty(rt *rapid.T) {
	bytes := int64(rapid.IntRange(1, 80_000).Draw(rt, "bytes"))
	faults := map[string]imagetest.Faults{
		"cuts": {CutAfter: 10_000 + bytes}, "is busy": {Status: 503}, "is endless": {Endless: true}, "has no room": {},
		"lies": {Change: func(path string, body []byte) []byte {
			if isFile(path, body) {
				body = slices.Clone(body)
				body[bytes%int64(len(body))] ^= 1
			}
			return body
		}},
	}
	which := rapid.SampledFrom(slices.Sorted(maps.Keys(faults))).Draw(rt, "which")
	m.registry.Set(faults[which])
	defer m.registry.Set(imagetest.Faults{})
	if which == "has no room" {
		m.images.shelf.space = func() (uint64, uint64, error) { return 0, 1 << 40, nil }
		defer func() { m.images.shelf.space = m.cfg.Space }()
	}
	if m.round(m.images) == nil {
		m.known = true
	}
}

// deadly is a round in which the process dies, and the next start.
func (m *model) deadly(rt *rapid.T) {
	f := newFate(rapid.IntRange(0, 60).Draw(rt, "steps"))
	m.images.shelf.hook = f.hook
	if m.round(m.images) == nil {
		m.known = true
	}
	if rapid.Bool().Draw(rt, "the power fails") && f.dead {
		f.cutPower(m.t)
	}
	if len(f.wrong) > 0 {
		rt.Errorf("%q", f.wrong)
	}
	m.images = m.open()
}

func (m *model) boot(*rapid.T) { m.give() }

// give has an image returned, if there is one.
func (m *model) give() {
	if i, err := m.images.Current(); err == nil {
		m.given[i.Digest] = given{i, m.clock.Boot() + time.Hour}
	}
}

// use has a VM boot one of the images that were returned.
func (m *model) use(*rapid.T) {
	for _, digest := range slices.Sorted(maps.Keys(m.given)) {
		if g := m.given[digest]; m.clock.Boot() < g.until {
			m.inUse = append(m.inUse, g.image.Kernel)
			return
		}
	}
}

// damage changes a file of the version that VMs boot.
func (m *model) damage(rt *rapid.T) {
	i, err := m.images.Current()
	if err != nil {
		return // there is nothing to damage
	}
	must(m.t, os.WriteFile(i.Initrd, []byte("damage"), 0o600))
	if _, err := m.images.Current(); node.KindOf(err) != node.Transient {
		rt.Errorf("a damaged version: %v", err)
	}
	m.known = false
	delete(m.given, i.Digest)
	m.inUse = nil
}

func (m *model) check(rt *rapid.T) {
	i, err := m.images.Current()
	switch {
	case err != nil && (m.known || node.KindOf(err) != node.Transient):
		rt.Fatalf("VMs boot nothing: %v", err)
	case err == nil:
		m.whole(i)
		m.given[i.Digest] = given{i, m.clock.Boot() + time.Hour}
	}
	for digest, g := range m.given {
		if m.clock.Boot() < g.until || slices.Contains(m.inUse, g.image.Kernel) {
			m.whole(g.image)
		} else {
			delete(m.given, digest)
		}
	}
	if status, err := m.images.Status(); err != nil || (status.Version != "") != (i.Version != "") {
		rt.Errorf("the status is %+v, %v, VMs boot %q", status, err, i.Version)
	}
}
