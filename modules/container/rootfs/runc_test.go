package rootfs

import (
	"bufio"
	"bytes"
	"crypto/rand"
	"encoding/json"
	"os"
	"os/exec"
	"path/filepath"
	"strings"

	"github.com/opencontainers/runtime-spec/specs-go"
)

// bundle writes a container for runc that runs the program with some commands.
func (w *world) bundle(made Made, commands ...string) string {
	w.t.Helper()
	dir, err := os.MkdirTemp(w.dir, "bundle-")
	must(w.t, err)
	ids := []specs.LinuxIDMapping{{ContainerID: 0, HostID: made.Range.Base, Size: made.Range.Size}}
	caps := []string{"CAP_CHOWN", "CAP_DAC_OVERRIDE", "CAP_FOWNER", "CAP_SETUID", "CAP_SETGID", "CAP_MKNOD", "CAP_FSETID"}
	spec := specs.Spec{
		Version: "1.0.2",
		Root:    &specs.Root{Path: made.Root},
		Process: &specs.Process{
			Args: append([]string{"/inside"}, commands...), Cwd: "/", Env: []string{"PATH=/"},
			Capabilities: &specs.LinuxCapabilities{Bounding: caps, Effective: caps, Permitted: caps},
		},
		Mounts: []specs.Mount{
			{Destination: "/proc", Type: "proc", Source: "proc"},
			{Destination: "/dev", Type: "tmpfs", Source: "tmpfs", Options: []string{"nosuid", "mode=755"}},
			{Destination: "/sys", Type: "sysfs", Source: "sysfs", Options: []string{"nosuid", "nodev", "ro"}},
		},
		Linux: &specs.Linux{
			UIDMappings: ids, GIDMappings: ids, RootfsPropagation: "rprivate",
			CgroupsPath: "/croft-test-" + strings.ToLower(rand.Text()),
			Namespaces: []specs.LinuxNamespace{{Type: "user", Path: made.UserNS}, {Type: "network", Path: made.NetNS},
				{Type: "mount"}, {Type: "pid"}, {Type: "ipc"}, {Type: "uts"}},
		},
	}
	raw, err := json.Marshal(spec)
	must(w.t, err)
	must(w.t, os.WriteFile(filepath.Join(dir, "config.json"), raw, 0o600))
	return dir
}

// runc is one where a container's root is mounted.
func runc(w *world, made Made, args ...string) *exec.Cmd {
	return exec.Command("nsenter", append([]string{"--mount=" + made.MountNS, "runc", "--root", w.dir + "/runc"}, args...)...)
}

// inside runs commands in a container, and returns a line for each.
func (w *world) inside(made Made, commands ...string) []string {
	w.t.Helper()
	id := "c" + rand.Text()
	out, err := runc(w, made, "run", "--bundle", w.bundle(made, commands...), id).CombinedOutput()
	if err != nil {
		w.t.Fatalf("runc: %v\n%s", err, out)
	}
	return strings.Split(strings.TrimSpace(string(out)), "\n")
}

// running is a container that says "waiting".
type running struct {
	w    *world
	id   string
	cmd  *exec.Cmd
	said []string
}

// start runs commands in a container, the last of which waits there until stop.
func (w *world) start(made Made, commands ...string) *running {
	w.t.Helper()
	r := &running{w: w, id: "c" + rand.Text()}
	r.cmd = runc(w, made, "run", "--bundle", w.bundle(made, commands...), r.id)
	errors := &bytes.Buffer{}
	r.cmd.Stderr = errors
	out, err := r.cmd.StdoutPipe()
	must(w.t, err)
	must(w.t, r.cmd.Start())
	w.t.Cleanup(r.stop)
	lines := bufio.NewScanner(out)
	for lines.Scan() && lines.Text() != "waiting" {
		r.said = append(r.said, lines.Text())
	}
	if lines.Text() != "waiting" {
		w.t.Fatalf("the container didn't start: %s %s", r.said, errors)
	}
	return r
}

func (r *running) stop() {
	if r.cmd == nil {
		return
	}
	exec.Command("runc", "--root", r.w.dir+"/runc", "kill", r.id, "KILL").Run()
	r.cmd.Wait() // it was killed
	exec.Command("runc", "--root", r.w.dir+"/runc", "delete", "--force", r.id).Run()
	r.cmd = nil
}
