package container

import (
	"context"
	"net/netip"
	"os"
	"path/filepath"
	"sync"
	"testing"

	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/dial"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// direct speaks to the module without a bus.
type direct struct{ node.Containers }

func (d direct) Create(_ context.Context, s node.ContainerSpec) (node.ContainerInfo, error) {
	return d.Containers.Create(s)
}

func (d direct) Start(_ context.Context, id string) (node.ContainerInfo, error) {
	return d.Containers.Start(id)
}

func (d direct) Inspect(_ context.Context, id string) (node.ContainerInfo, error) {
	return d.Containers.Inspect(id)
}
func (d direct) Delete(_ context.Context, id string) error            { return d.Containers.Delete(id) }
func (d direct) List(context.Context) ([]node.ContainerInfo, error)   { return d.Containers.List() }
func (d direct) Status(context.Context) (node.ContainerStatus, error) { return d.Containers.Status() }
func (d direct) Logs(_ context.Context, id string, n uint64) ([]node.LogLine, error) {
	return d.Containers.Logs(id, n)
}

func (d direct) Stats(_ context.Context, id string) (node.ContainerStats, error) {
	return d.Containers.Stats(id)
}

type directImages struct{ node.Images }

func (d directImages) Pull(_ context.Context, s node.ImageSpec) (node.Image, error) {
	return d.Images.Pull(s)
}

func (d directImages) Inspect(_ context.Context, label string) (node.Image, error) {
	return d.Images.Inspect(label)
}
func (d directImages) Release(_ context.Context, label string) error    { return d.Images.Release(label) }
func (d directImages) List(context.Context) ([]node.Image, error)       { return d.Images.List() }
func (d directImages) Status(context.Context) (node.ImageStatus, error) { return d.Images.Status() }

// clients make the clients of a conformance suite.
type clients func(t *testing.T, m *Module) (conformance.ContainersClient, conformance.ImagesClient)

func directly(_ *testing.T, m *Module) (conformance.ContainersClient, conformance.ImagesClient) {
	return direct{m.Containers()}, directImages{m.Images()}
}

func throughStubs(t *testing.T, m *Module) (conformance.ContainersClient, conformance.ImagesClient) {
	t.Helper()
	containers := conformance.OnBus(t, node.ContainerModule, bus.Object(node.ContainerObject, node.ContainerVersion), m.Containers())
	images := conformance.OnBus(t, node.ContainerModule, bus.Object(node.ImageObject, node.ImageVersion), m.Images())
	return stubs.NewContainersStub(containers), stubs.NewImagesStub(images)
}

func TestContractDirectly(t *testing.T) { theContract(t, directly) }
func TestContractOnTheBus(t *testing.T) { theContract(t, throughStubs) }

func theContract(t *testing.T, speak clients) {
	conformance.ContainersSuite(t, func(t *testing.T) conformance.ContainersSubject {
		w := newWorldWith(t, true)
		reference := filepath.Join(w.cfg.Image.Sources.Paths[0], "server")
		made, err := serverImage()
		must(t, err)
		must(t, os.CopyFS(reference, os.DirFS(made)))
		s := conformance.ContainersSubject{
			Reference: reference, Serve: []string{imagetest.ServerPath, "-say", "hello"},
			Fail:  []string{imagetest.ServerPath, "-say", "bye", "-listen", "nowhere"},
			Layer: w.folder, Volume: w.folder,
		}
		s.Client, s.Images = speak(t, w.module)
		s.Restart = func(t *testing.T) (conformance.ContainersClient, conformance.ImagesClient) {
			t.Helper()
			w.close()
			w.open()
			return speak(t, w.module)
		}
		return s
	})
}

// serverImage is the folder of the server's image, made once for all tests, with a layer that isn't packed:
// packing takes seconds with the race detector.
var serverImage = sync.OnceValues(func() (string, error) {
	dir := filepath.Join(filepath.Dir(tool), "server")
	_, err := imagetest.Server().Plain().Layout(dir)
	return dir, err
})

// folder is a new folder of the world.
func (w *world) folder(t *testing.T) string {
	t.Helper()
	dir := filepath.Join(w.dir, "folder-"+random())
	must(t, os.Mkdir(dir, 0o755))
	return dir
}

// dialer refuses all addresses: images come from the disk.
func dialer(t testing.TB) *dial.Dialer {
	t.Helper()
	d, err := dial.New(dial.Config{Own: func() []netip.Prefix { return nil }, Log: zerolog.Nop()})
	must(t, err)
	return d
}
