package container

import (
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"syscall"
	"testing"
	"time"

	ocispec "github.com/opencontainers/image-spec/specs-go/v1"

	"github.com/croft-edge/croft/internal/testing/containerdtest"
	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/container/spec"
	"github.com/croft-edge/croft/pkg/logs"
	"github.com/croft-edge/croft/pkg/mounts"
	"github.com/croft-edge/croft/pkg/node"
)

func TestContainerLifecycle(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve", "hello")
	created, err := w.Create(s)
	must(t, err)
	if created.State != node.ContainerCreated || created.PID != 0 || created.Image != "sha256:1-1" || created.User != "ada" || created.Namespace == "" {
		t.Errorf("created: %+v", created)
	}
	running, err := w.Start("1-1")
	must(t, err)
	if running.State != node.ContainerRunning || running.Namespace != created.Namespace || syscall.Kill(int(running.PID), 0) != nil {
		t.Errorf("running: %+v", running)
	}
	w.says("1-1", "serving hello")
	if len(w.groups()) == 0 {
		t.Errorf("it isn't in a control group below %s", w.cfg.CgroupParent)
	}

	s.Mounts, s.Env, s.Terminal, s.DNS = nil, nil, nil, []string{"10.1.2.1"} // the same
	again, err := w.Create(s)
	must(t, err)
	if again.PID != running.PID {
		t.Errorf("created twice, process %d became %d", running.PID, again.PID)
	}
	if again, err = w.Start("1-1"); err != nil || again.PID != running.PID || again.Restarts != 0 {
		t.Errorf("started twice, process %d became %+v (%v)", running.PID, again, err)
	}
	all, err := w.List()
	if err != nil || len(all) != 1 || all[0].ID != "1-1" || all[0].State != node.ContainerRunning || all[0].Drift != "" {
		t.Errorf("list %+v (%v)", all, err)
	}
	must(t, w.Delete("1-1"))
	kind(t, w.Delete("1-1"), node.NotExist)
	_, err = w.Inspect("1-1")
	kind(t, err, node.NotExist)
	if syscall.Kill(int(running.PID), 0) == nil {
		t.Error("its process still runs")
	}
	w.nothingLeft("1-1")
}

// The limits of package spec hold in a container that this module starts, also
// where the runtime may not set them itself.
func TestLimitsOfAContainerHold(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	info := w.runs(w.spec("1-1", "serve", "hello"))
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.FormatUint(info.PID, 10), "limits"))
	must(t, err)
	found := map[string][]string{}
	for _, line := range strings.Split(string(raw), "\n") {
		for _, name := range []string{"Max core file size", "Max open files", "Max processes"} {
			if values, ok := strings.CutPrefix(line, name); ok {
				found[name] = strings.Fields(values)[:2]
			}
		}
	}
	if !slices.Equal(found["Max core file size"], []string{"0", "0"}) {
		t.Errorf("core files: %v", found["Max core file size"])
	}
	for name, most := range map[string]uint64{"Max open files": 65536, "Max processes": spec.DefaultPIDs} {
		if soft, err := strconv.ParseUint(found[name][0], 10, 64); err != nil || soft == 0 || soft > most {
			t.Errorf("%s: %v, want at most %d (%v)", name, found[name], most, err)
		}
	}
}

// A container without capabilities has none, even as root; a running one with them is made
// anew when they are taken away.
func TestNoCapabilities(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("zdb-ssd0-user", "serve", "hello")
	s.User = node.OwnUser
	info := w.runs(s)
	if got := capabilitiesOf(t, info.PID); got["CapBnd"] == 0 || got["CapEff"] == 0 {
		t.Fatalf("a container has the capabilities %x: this test shows nothing", got)
	}
	s.NoCapabilities = true
	again := w.runs(s)
	if again.PID == info.PID {
		t.Error("asked for without capabilities, it goes on with them")
	}
	w.says(s.ID, "serving hello")
	for set, mask := range capabilitiesOf(t, again.PID) {
		if mask != 0 {
			t.Errorf("%s is %x", set, mask)
		}
	}
	if same := w.runs(s); same.PID != again.PID {
		t.Errorf("asked for again, process %d became %d", again.PID, same.PID)
	}
	must(t, w.Delete(s.ID))
	w.nothingLeft(s.ID)
}

// capabilitiesOf reads the five sets of a process.
func capabilitiesOf(t *testing.T, pid uint64) map[string]uint64 {
	t.Helper()
	raw, err := os.ReadFile(filepath.Join("/proc", strconv.FormatUint(pid, 10), "status"))
	must(t, err)
	out := map[string]uint64{}
	for line := range strings.Lines(string(raw)) {
		if set, mask, ok := strings.Cut(line, ":\t"); ok && strings.HasPrefix(set, "Cap") {
			out[set], err = strconv.ParseUint(strings.TrimSpace(mask), 16, 64)
			must(t, err)
		}
	}
	if len(out) != 5 {
		t.Fatalf("process %d has the sets %v", pid, out)
	}
	return out
}

// nothingLeft fails when a part of a container is left, other than its layer.
func (w *world) nothingLeft(ids ...string) {
	w.Helper()
	if g := w.groups(); len(g) != 0 {
		w.Errorf("control groups %v are left", g)
	}
	// containerd runs its shim's program once more, to clean up.
	eventually(w, "no shim is left", func() bool { return len(containerdtest.Shims(w.cfg.RunDir)) == 0 })
	mounted, err := mounts.Read()
	must(w, err)
	for _, id := range ids {
		if left := mounted.Within(w.cfg.RunDir + "/container/" + id); len(left) != 0 {
			w.Errorf("mounts of %s are left: %v", id, left)
		}
		for _, pattern := range []string{"r/container/" + id, "r/supervised/" + id + "*", "r/log/c/" + id, "s/logs/" + id} {
			if left, _ := filepath.Glob(filepath.Join(w.dir, pattern)); len(left) != 0 {
				w.Errorf("%v is left", left)
			}
		}
		if _, err := os.Stat(filepath.Join(w.dir, "layer-"+id)); err != nil {
			w.Errorf("its layer went too: %v", err)
		}
	}
	users, err := w.module.daemon.Users(w.Context())
	if err != nil || len(users) != 0 {
		w.Errorf("namespaces of %v are left (%v)", users, err)
	}
}

func TestStopSignal(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	for id, signal := range map[string]string{"1-1": "", "1-2": "SIGQUIT", "1-3": "no-such-signal"} {
		w.image(id, ocispec.ImageConfig{StopSignal: signal}, nil)
		w.runs(w.spec(id, "serve"))
		w.says(id, "serving")
		follow := make(chan string, 1000)
		want := map[string]string{"1-1": "stopped by terminated", "1-2": "stopped by quit", "1-3": "stopped by terminated"}[id]
		go func() {
			streams := newStreams(w.cfg.withDefaults(), w.module.daemon, logs.NewFollowers())
			_ = streams.Logs(t.Context(), id, LogOptions{Tail: 10, Follow: true}, func(l node.LogLine) error {
				follow <- l.Text
				return nil
			})
			close(follow)
		}()
		if first := <-follow; !strings.HasPrefix(first, "serving") {
			t.Fatalf("it said %q", first)
		}
		start := time.Now()
		must(t, w.Delete(id))
		took := time.Since(start)
		said := ""
		for line := range follow {
			said = line
		}
		if said != want {
			t.Errorf("signal %q: it said %q, want %q", signal, said, want)
		}
		if took > 9*time.Second {
			t.Errorf("one that stops by itself took %s", took)
		}
	}
	w.runs(w.spec("1-4", "stubborn"))
	w.says("1-4", "stubborn")
	start := time.Now()
	must(t, w.Delete("1-4"))
	if took := time.Since(start); took < 9*time.Second {
		t.Errorf("a stubborn one was killed after %s, want 10 s", took)
	}
	w.nothingLeft("1-1", "1-2", "1-3", "1-4")
}

func TestChangedSpecKeepsLayer(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve", "first")
	first := w.runs(s)
	code, out, _ := w.exec("1-1", "write", "/kept", "precious")
	if code != 0 {
		t.Fatalf("writing: %d %s", code, out)
	}
	s.Entrypoint = []string{"/bin/tool", "serve", "second"}
	changed, err := w.Create(s)
	must(t, err)
	if changed.State != node.ContainerCreated || syscall.Kill(int(first.PID), 0) == nil {
		t.Errorf("changed: %+v", changed)
	}
	second, err := w.Start("1-1")
	must(t, err)
	if second.PID == first.PID {
		t.Error("it is still the first one")
	}
	w.says("1-1", "serving second")
	if _, out, _ := w.exec("1-1", "read", "/kept"); out != "precious" {
		t.Errorf("its layer holds %q", out)
	}
	bob := s
	bob.User = "bob"
	_, err = w.Create(bob)
	kind(t, err, node.Exist, "another user's")
	if strings.Contains(err.Error(), "ada") {
		t.Errorf("one user learns who the other is: %v", err)
	}
}

func TestUnstartableImages(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	elf := func(machine byte) string {
		raw, err := os.ReadFile(tool)
		must(t, err)
		raw[18], raw[19] = machine, 0
		return string(raw)
	}
	w.image("1-1", ocispec.ImageConfig{}, map[string]string{
		"bin/foreign": elf(8), "bin/junk": "no program", "bin/script": "#!/bin/nothing\n", "bin/plain": "#!/bin/tool\n", "bin/none": "",
	})
	lower := w.images.all["1-1"].Lower[0]
	must(t, os.Chmod(filepath.Join(lower, "bin/plain"), 0o644))
	for program, says := range map[string]string{
		"/nope": "/nope", "nope": "nope", "/bin/foreign": "MIPS", "/bin/junk": "neither", "/bin/script": "/bin/nothing", "/bin/plain": "mode", "/bin": "/bin", "/bin/none": "empty",
	} {
		s := w.spec("1-1")
		s.Entrypoint = []string{program}
		_, err := w.Create(s)
		must(t, err)
		_, err = w.Start("1-1")
		kind(t, err, node.Invalid, says)
		info, err := w.Inspect("1-1")
		must(t, err)
		if info.PID != 0 || info.State != node.ContainerCreated || !strings.Contains(info.Cause, says) || info.Next != 0 {
			t.Errorf("%s: %+v", program, info)
		}
	}
	if shims := containerdtest.Shims(w.cfg.RunDir); len(shims) != 0 {
		t.Errorf("shims %v are left", shims)
	}
	must(t, w.Delete("1-1"))

	w.image("1-2", ocispec.ImageConfig{User: "nobody-of-that-name"}, nil)
	_, err := w.Create(w.spec("1-2", "serve"))
	kind(t, err, node.Invalid, "nobody-of-that-name")
	w.image("1-3", ocispec.ImageConfig{WorkingDir: "/bin/tool/x"}, nil)
	if _, err = w.Create(w.spec("1-3", "serve")); err == nil {
		_, err = w.Start("1-3")
	}
	kind(t, err, node.Invalid)
	if err := w.Delete("1-3"); err != nil {
		kind(t, err, node.NotExist)
	}
	w.nothingLeft("1-1", "1-2", "1-3")
}

func TestInteractiveNeedsInit(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	s.Interactive, s.Terminal, s.Names = true, []string{"10.1.2.3", "fd00::3"}, []string{"1-1", "1-1.net"}
	_, err := w.Create(s)
	kind(t, err, node.Refused, "not installed")
	w.nothingLeft("1-1")

	// The tool stands in for croft's init: it prints its arguments.
	w.close()
	w.cfg.Init = filepath.Join(w.dir, "init")
	must(t, os.WriteFile(w.cfg.Init, []byte("#!/bin/tool say"), 0o755))
	w.open()
	_, err = w.Create(s)
	must(t, err)
	_, err = w.Start("1-1")
	must(t, err)
	w.says("1-1", "/.croft/init --listen 10.1.2.3:7681,[fd00::3]:7681 --name 1-1,1-1.net -- /bin/tool serve")
	must(t, w.Delete("1-1"))

	// Without a program there is the terminal alone; one that can't be started
	// is refused as it is elsewhere.
	lone := w.spec("1-2")
	lone.Interactive, lone.Terminal = s.Interactive, s.Terminal
	w.images.mu.Lock()
	nothing := w.images.all["1-2"]
	nothing.Config.Entrypoint, nothing.Config.Cmd = nil, nil
	w.images.all["1-2"] = nothing
	w.images.mu.Unlock()
	_, err = w.Create(lone)
	must(t, err)
	_, err = w.Start("1-2")
	must(t, err)
	w.says("1-2", "/.croft/init --listen 10.1.2.3:7681,[fd00::3]:7681 --")
	must(t, w.Delete("1-2"))
	must(t, os.WriteFile(filepath.Join(nothing.Lower[0], "bin/junk"), []byte("no program"), 0o755))
	for program, says := range map[string]string{"/nope": "/nope", "/bin/junk": "neither", "": "say what to run"} {
		lone.Entrypoint = []string{program}
		if _, err = w.Create(lone); err == nil {
			_, err = w.Start("1-2")
		}
		kind(t, err, node.Invalid, says)
	}
	must(t, w.Delete("1-2"))
	w.nothingLeft("1-1", "1-2")
}

func TestVolumes(t *testing.T) {
	t.Parallel()
	w := newWorld(t)
	s := w.spec("1-1", "serve")
	for _, v := range []string{"v1", "v2"} {
		must(t, os.Mkdir(filepath.Join(w.dir, v), 0o755))
	}
	s.Mounts = []node.MountSpec{
		{Volume: "7-1", Source: filepath.Join(w.dir, "v1"), Target: "/data"},
		{Volume: "7-2", Source: filepath.Join(w.dir, "v2"), Target: "/read", ReadOnly: true},
	}
	info := w.runs(s)
	if !slices.Equal(info.Volumes, []string{"7-1", "7-2"}) {
		t.Errorf("volumes %v", info.Volumes)
	}
	if code, out, _ := w.exec("1-1", "write", "/data/x", "y"); code != 0 {
		t.Errorf("writing to a volume: %s", out)
	}
	if raw, err := os.ReadFile(filepath.Join(w.dir, "v1", "x")); string(raw) != "y" {
		t.Errorf("the volume holds %q (%v)", raw, err)
	}
	if code, _, _ := w.exec("1-1", "write", "/read/x", "y"); code == 0 {
		t.Error("a read-only volume can be written")
	}
	if _, out, _ := w.exec("1-1", "read", "/etc/resolv.conf"); out != "nameserver 10.1.2.1\n" {
		t.Errorf("resolv.conf is %q", out)
	}
	if _, out, _ := w.exec("1-1", "read", "/etc/hosts"); !strings.Contains(out, "host-1-1") {
		t.Errorf("hosts is %q", out)
	}
}

// The user's namespace goes with the last container and its image, without waiting for a look
// at all containers.
func TestLastContainerRemovesUserNamespace(t *testing.T) {
	t.Parallel()
	w := newWorldWith(t, true)
	w.close()
	w.rarely = true
	w.open()
	reference := filepath.Join(w.cfg.Image.Sources.Paths[0], "server")
	_, err := imagetest.Server().Layout(reference)
	must(t, err)
	images := w.module.Images()
	for _, id := range []string{"1-1", "1-2"} {
		eventually(t, "its image is there", func() bool {
			i, err := images.Pull(node.ImageSpec{Label: id, Reference: reference, User: "ada"})
			return err == nil && i.Ready
		})
		_, err := w.Create(node.ContainerSpec{ID: id, User: "ada", Layer: w.folder(t), Hostname: "h", CPU: 1, Memory: 64 << 20})
		must(t, err)
	}
	users := func() int {
		all, err := w.module.daemon.Users(t.Context())
		must(t, err)
		return len(all)
	}
	for _, id := range []string{"1-1", "1-2"} {
		must(t, w.Delete(id))
		if users() != 1 {
			t.Errorf("%s: the namespace is gone before its image is", id)
		}
	}
	must(t, images.Release("1-1"))
	if users() != 1 {
		t.Error("the namespace is gone before the last image is")
	}
	must(t, images.Release("1-2"))
	if left := users(); left != 0 {
		t.Errorf("%d users are left", left)
	}
}
