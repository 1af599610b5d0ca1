package image

import (
	"os"
	"path/filepath"
	"testing"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/clock"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/vmimage"
)

func serve(t *testing.T, m *Images) conformance.VMImagesClient {
	t.Helper()
	return stubs.NewVMImagesStub(conformance.OnBus[node.VMImages](t, node.VMModule, bus.Object(node.VMImageObject, node.VMImageVersion), m))
}

// subject is a module with that configuration.
func (w *world) subject(t *testing.T) conformance.VMImagesSubject {
	t.Helper()
	w.cfg.Clock, w.cfg.Times = clock.System{}, quick()
	end := func() {}
	open := func(t *testing.T) conformance.VMImagesClient {
		t.Helper()
		end()
		m := w.open()
		end = w.run(m)
		return serve(t, m)
	}
	none := w.cfg
	none.Source, none.Folder = Source{}, filepath.Join(t.TempDir(), "none")
	given, err := Open(none)
	must(t, err)
	t.Cleanup(given.Close)
	return conformance.VMImagesSubject{
		Client: open(t), None: serve(t, given), Files: true, Fetched: w.cfg.Source.fetched(), Restart: open,
		Offer:  func(t *testing.T, version string) { w.push(version) },
		Unplug: func(*testing.T) { w.registry.Close() },
	}
}

func TestVMImagesConform(t *testing.T) { inEach(t, testVMImagesConform) }

func testVMImagesConform(t *testing.T, newWorld func(t testing.TB) *world) {
	conformance.VMImagesSuite(t, func(t *testing.T) conformance.VMImagesSubject { return newWorld(t).subject(t) })
}

func TestFoldersConform(t *testing.T) {
	conformance.VMImagesSuite(t, func(t *testing.T) conformance.VMImagesSubject {
		w := newWorld(t)
		folder := filepath.Join(t.TempDir(), "own")
		var err error
		w.cfg.Source, err = ParseSource(folder)
		must(t, err)
		s := w.subject(t)
		s.Offer = func(t *testing.T, version string) {
			must(t, os.MkdirAll(folder, 0o755))
			for _, f := range made(t, version).Files {
				if f.Name != vmimage.Manifest {
					replace(t, filepath.Join(folder, f.Name), f.Content)
				}
			}
			must(t, vmimage.Write(folder, vmimage.Image{Name: "kubernetes", Version: version, Kernel: "vmlinuz", Initrd: "initrd", Root: "root.squashfs"}))
		}
		return s
	})
}

// replace replaces a file as an operator should.
func replace(t *testing.T, path, text string) {
	t.Helper()
	must(t, os.WriteFile(path+".new", []byte(text), 0o600))
	must(t, os.Chmod(path+".new", 0o644))
	must(t, os.Rename(path+".new", path))
}
