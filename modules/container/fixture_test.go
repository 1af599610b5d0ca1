package container

import (
	"context"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/containerd/containerd/v2/client"
	ocispec "github.com/opencontainers/image-spec/specs-go/v1"
	"github.com/pkg/errors"
	"github.com/rs/zerolog"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/modules/container/containerd"
	"github.com/croft-edge/croft/modules/container/image"
	"github.com/croft-edge/croft/modules/container/image/source"
	"github.com/croft-edge/croft/modules/container/secret"
	"github.com/croft-edge/croft/pkg/changes"
	"github.com/croft-edge/croft/pkg/fetch"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/node"
)

// patience is the longest wait for an expected state on a busy machine.
const patience = 5 * time.Minute

func must(t testing.TB, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

func kind(t testing.TB, err error, want node.Kind, says ...string) {
	t.Helper()
	if !errors.Is(err, want) {
		t.Fatalf("error %v of kind %s, want %s", err, node.KindOf(err), want)
	}
	for _, text := range says {
		if !strings.Contains(err.Error(), text) {
			t.Errorf("error %q doesn't say %q", err, text)
		}
	}
}

func eventually(t testing.TB, what string, holds func() bool) {
	t.Helper()
	deadline := time.Now().Add(patience)
	for !holds() {
		if time.Now().After(deadline) {
			t.Fatalf("waited %s for: %s", patience, what)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// fakeImages is an image store of folders.
type fakeImages struct {
	mu  sync.Mutex
	all map[string]image.Layers
}

func (f *fakeImages) Images() node.Images { return noImages{} }

// noImages holds no image.
type noImages struct{ node.Images }

func (noImages) Inspect(string) (node.Image, error) {
	return node.Image{}, node.Errorf(node.NotExist, "there is none")
}

func (f *fakeImages) Close() error { return nil }

func (f *fakeImages) Run(ctx context.Context) error {
	<-ctx.Done()
	return nil
}

func (f *fakeImages) Layers(_ context.Context, label string) (image.Layers, error) {
	f.mu.Lock()
	defer f.mu.Unlock()
	l, ok := f.all[label]
	if !ok {
		return image.Layers{}, node.Errorf(node.NotExist, "cannot find the image of %s", label)
	}
	return l, nil
}

// world is a node's container module, with a containerd of its own.
type world struct {
	testing.TB
	dir    string
	cfg    Config
	images *fakeImages
	module *Module
	told   *changes.Hub
	node.Containers

	// rarely makes the module look at all containers once an hour only.
	rarely  bool
	running context.CancelFunc
	ran     chan struct{}
}

func newWorld(t testing.TB) *world {
	t.Helper()
	return newWorldWith(t, false)
}

// newWorldWith makes a world with real images, or with folders in their place.
func newWorldWith(t testing.TB, images bool) *world {
	t.Helper()
	dir := containerdtest.Folder(t)
	w := &world{TB: t, dir: dir, told: changes.New(), images: &fakeImages{all: map[string]image.Layers{}}}
	run, state := filepath.Join(dir, "r"), filepath.Join(dir, "s")
	log := zerolog.New(zerolog.NewTestWriter(t)).Level(zerolog.WarnLevel)
	w.cfg = Config{
		RunDir: run, StateDir: state, Log: log, CgroupParent: "/croft-test-" + random(),
		Containerd: containerd.Config{Own: true, RunDir: run, StateDir: state, Prefix: "t" + random(), Within: patience, Log: log},
		Logs:       logs.Config{RunDir: run, Command: []string{"/proc/self/exe", carry, run, filepath.Join(state, "logs")}, Within: patience, Log: log},
	}
	if images {
		w.cfg.Image = image.Config{
			Unpacking: image.Unpacking{Command: []string{"/proc/self/exe", "unpack"}},
			Sources:   source.Config{Config: fetch.Config{Dialer: dialer(t)}, Paths: []string{filepath.Join(dir, "images")}}, Log: log,
		}
		w.images = nil
		must(t, os.Mkdir(w.cfg.Image.Sources.Paths[0], 0o755))
	}
	must(t, os.MkdirAll(run, 0o711))
	must(t, os.MkdirAll(state, 0o711))
	t.Cleanup(func() { w.end() })
	t.Cleanup(func() {
		if text, err := os.ReadFile(filepath.Join(run, "log", "log")); err == nil && t.Failed() {
			t.Logf("the log carrier's own log:\n%s", text)
		}
	})
	w.open()
	return w
}

// open opens the module and watches over the containers.
func (w *world) open() {
	w.Helper()
	var err error
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	if w.images == nil {
		w.module, err = Open(ctx, w.cfg, w.told)
	} else {
		w.module, err = open(ctx, w.cfg, w.told, func(Config, *containerd.Daemon, imageUse) (imageStore, error) { return w.images, nil })
	}
	must(w, err)
	w.Containers = w.module.Containers()
	if w.rarely {
		w.module.supervisor.LookEvery = time.Hour
	}
	ctx, w.running = context.WithCancel(context.Background())
	w.ran = make(chan struct{})
	m, ran := w.module, w.ran
	go func() {
		defer close(ran)
		_ = m.Run(ctx)
	}()
}

// close closes the module as an ending agent does: containers go on.
func (w *world) close() {
	w.Helper()
	w.running()
	<-w.ran
	must(w, w.module.Close())
}

// end takes the world down, and checks that nothing is left.
func (w *world) end() {
	w.close()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	containerdtest.Clean(w, w.cfg.Containerd)
	if err := logs.TakeDown(ctx, w.cfg.withDefaults().Logs); err != nil {
		w.Error(err)
	}
	if err := secret.TakeDown(w.cfg.RunDir); err != nil {
		w.Error(err)
	}
	// The kernel counts processes that were killed for a while.
	eventually(w, "the containers' control groups can be removed", w.removeGroups)
}

// removeGroups removes the control groups of the world's containers, and reports whether none is left.
func (w *world) removeGroups() bool {
	parents, _ := filepath.Glob("/sys/fs/cgroup/*" + w.cfg.CgroupParent)
	gone := true
	for _, p := range append(parents, "/sys/fs/cgroup"+w.cfg.CgroupParent) {
		var all []string
		_ = filepath.WalkDir(p, func(path string, d fs.DirEntry, err error) error {
			if err == nil && d.IsDir() {
				all = append(all, path)
			}
			return nil
		})
		for _, group := range slices.Backward(all) {
			gone = os.Remove(group) == nil && gone
		}
	}
	return gone
}

// groups are the control groups of the world's containers.
func (w *world) groups() []string {
	v1, _ := filepath.Glob("/sys/fs/cgroup/*" + w.cfg.CgroupParent + "/*")
	v2, _ := filepath.Glob("/sys/fs/cgroup" + w.cfg.CgroupParent + "/*")
	out := v1[:0]
	for _, g := range append(v1, v2...) {
		if info, err := os.Stat(g); err == nil && info.IsDir() && filepath.Base(g) != filepath.Base(w.cfg.groups().ShimPath()) {
			out = append(out, g)
		}
	}
	return out
}

// image makes an image of the tool for a label, with more files in it.
func (w *world) image(label string, config ocispec.ImageConfig, more map[string]string) {
	w.Helper()
	lower := filepath.Join(w.dir, "image-"+label)
	for _, dir := range []string{"bin", "etc", "tmp", "proc", "sys", "dev"} {
		must(w, os.MkdirAll(filepath.Join(lower, dir), 0o755))
	}
	raw, err := os.ReadFile(tool)
	must(w, err)
	must(w, os.WriteFile(filepath.Join(lower, "bin/tool"), raw, 0o755))
	for path, content := range more {
		must(w, os.WriteFile(filepath.Join(lower, path), []byte(content), 0o755))
	}
	if config.Entrypoint == nil && config.Cmd == nil {
		config.Entrypoint = []string{"/bin/tool"}
	}
	if config.Env == nil {
		config.Env = []string{"PATH=/bin"}
	}
	w.images.mu.Lock()
	defer w.images.mu.Unlock()
	w.images.all[label] = image.Layers{Digest: "sha256:" + label, Lower: []string{lower}, Config: config}
}

// spec is a container that runs the tool with these arguments.
func (w *world) spec(id string, args ...string) node.ContainerSpec {
	w.Helper()
	if _, err := w.images.Layers(context.Background(), id); err != nil {
		w.image(id, ocispec.ImageConfig{}, nil)
	}
	layer := filepath.Join(w.dir, "layer-"+id)
	must(w, os.MkdirAll(layer, 0o755))
	s := node.ContainerSpec{
		ID: id, User: "ada", Layer: layer, Hostname: "host-" + id, DNS: []string{"10.1.2.1"}, CPU: 1, Memory: 256 << 20,
		Env: node.Env{}, Entrypoint: []string{}, Mounts: []node.MountSpec{}, Terminal: []string{},
	}
	if len(args) > 0 {
		s.Entrypoint = append([]string{"/bin/tool"}, args...)
	}
	return s
}

// starts creates and starts a container, which may end at once.
func (w *world) starts(s node.ContainerSpec) node.ContainerInfo {
	w.Helper()
	_, err := w.Create(s)
	must(w, err)
	info, err := w.Start(s.ID)
	must(w, err)
	return info
}

// runs creates and starts a container that goes on.
func (w *world) runs(s node.ContainerSpec) node.ContainerInfo {
	w.Helper()
	info := w.starts(s)
	if info.State != node.ContainerRunning || info.PID == 0 {
		w.Fatalf("a container that was started is %+v", info)
	}
	return info
}

// is waits until a container's info satisfies holds.
func (w *world) is(id, what string, holds func(node.ContainerInfo) bool) (last node.ContainerInfo) {
	w.Helper()
	deadline := time.Now().Add(patience)
	for {
		info, err := w.Inspect(id)
		if err == nil && holds(info) {
			return info
		}
		if time.Now().After(deadline) {
			w.Fatalf("container %s isn't %s: %+v (%v)", id, what, info, err)
		}
		<-time.After(20 * time.Millisecond)
	}
}

// says waits until a container's log has a text.
func (w *world) says(id, text string) {
	w.Helper()
	eventually(w, fmt.Sprintf("%s says %q", id, text), func() bool {
		lines, err := w.Logs(id, 1000)
		must(w, err)
		for _, l := range lines {
			if strings.Contains(l.Text, text) {
				return true
			}
		}
		return false
	})
}

// behind is a client of containerd, such as ctr's, in a user's namespace.
func (w *world) behind(user string) (context.Context, *client.Client) {
	w.Helper()
	c, err := w.module.daemon.Client(context.Background())
	must(w, err)
	return w.module.daemon.Namespace(context.Background(), user), c
}

// task is the task of ada's container.
func (w *world) task(id string) (context.Context, client.Task) {
	w.Helper()
	ctx, c := w.behind("ada")
	found, err := c.LoadContainer(ctx, id)
	must(w, err)
	t, err := found.Task(ctx, nil)
	must(w, err)
	return ctx, t
}

// endLogs ends the log carrier, as a reboot does.
func (w *world) endLogs() {
	w.Helper()
	ctx, cancel := context.WithTimeout(context.Background(), patience)
	defer cancel()
	must(w, logs.TakeDown(ctx, w.cfg.withDefaults().Logs))
}

func number(s string) int {
	n, _ := strconv.Atoi(s)
	return n
}
