package bench

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// rival runs the same image with another program, in a network namespace that was made beforehand.
type rival struct {
	b         *testing.B
	i         *nodetest.Internet
	namespace string
	run       func(k int)
	remove    func(k int)
}

// round is the time until the k-th container answers.
func (r *rival) round(k int) time.Duration {
	r.b.Helper()
	began := time.Now()
	r.run(k)
	answers(r.b, r.i, r.namespace)
	took := time.Since(began)
	r.remove(k)
	return took
}

// rivalImage is the other programs' name of the image.
const rivalImage = "bench.test/server:1"

func rivalTar(b *testing.B, i *nodetest.Internet) string {
	b.Helper()
	path := i.Path("server.tar")
	if err := imagetest.Server().DockerTar(path, rivalImage); err != nil {
		b.Fatal(err)
	}
	return path
}

// command runs a program to its end. It is safe for concurrent use.
func command(b *testing.B, program string, args ...string) {
	b.Helper()
	out, err := exec.CommandContext(b.Context(), program, args...).CombinedOutput()
	if err != nil {
		b.Errorf("%s %q: %v: %s", program, args, err, out)
	}
}

// newCtr is ctr with the node's own containerd, in a separate containerd namespace.
func newCtr(b *testing.B, i *nodetest.Internet, n *nodetest.Node) *rival {
	b.Helper()
	const namespace = "bench"
	group := filepath.Base(i.Dir) + "-ctr"
	ctr := func(args ...string) []string {
		return append([]string{"--address", n.ContainerdSocket(), "--namespace", namespace}, args...)
	}
	name := func(k int) string { return fmt.Sprint("c", k) }
	r := &rival{b: b, i: i, namespace: i.Lab.Namespace("ctr").Path()}
	r.run = func(k int) {
		b.Helper()
		command(b, "ctr", ctr("run", "-d", "--runc-root", i.Path("ctr"), "--cgroup", "/"+group+"/"+name(k), "--with-ns", "network:"+r.namespace, rivalImage, name(k))...)
	}
	r.remove = func(k int) {
		b.Helper()
		command(b, "ctr", ctr("tasks", "delete", "--force", name(k))...)
		command(b, "ctr", ctr("containers", "delete", name(k))...)
	}
	command(b, "ctr", ctr("images", "import", rivalTar(b, i))...)
	b.Cleanup(func() { clearCtr(ctr, group) })
	return r
}

// clearCtr removes the remains of ctr: the containers of a failed benchmark, and the control groups.
func clearCtr(ctr func(...string) []string, group string) {
	_ = exec.Command("sh", append([]string{"-c",
		`for c in $("$@" containers list -q); do "$@" tasks delete --force "$c"; "$@" containers delete "$c"; done
		 for i in $("$@" images list -q); do "$@" images delete --sync "$i"; done`, "sh", "ctr"}, ctr()...)...).Run()
	removeGroups(group)
}

// removeGroups removes a control group and its children. Their processes may end a moment later.
func removeGroups(group string) {
	for deadline := time.Now().Add(10 * time.Second); time.Now().Before(deadline); time.Sleep(10 * time.Millisecond) {
		left := 0
		for _, at := range []string{"/sys/fs/cgroup/", "/sys/fs/cgroup/*/"} {
			for _, below := range []string{"/*", ""} {
				found, _ := filepath.Glob(at + group + below)
				for _, dir := range found {
					if os.Remove(dir) != nil && below == "" {
						left++
					}
				}
			}
		}
		if left == 0 {
			return
		}
	}
}

// newPodman is podman with runc, with all of its files in the world's folder.
func newPodman(b *testing.B, i *nodetest.Internet) *rival {
	b.Helper()
	dir := i.Path("podman")
	group := filepath.Base(i.Dir) + "-podman"
	podman := func(args ...string) []string {
		return append([]string{
			"--root", filepath.Join(dir, "root"), "--runroot", filepath.Join(dir, "run"), "--tmpdir", filepath.Join(dir, "run", "tmp"),
			"--storage-driver", "overlay", "--cgroup-manager", "cgroupfs", "--events-backend", "none", "--runtime", "runc",
		}, args...)
	}
	name := func(k int) string { return fmt.Sprint("p", k) }
	r := &rival{b: b, i: i, namespace: i.Lab.Namespace("podman").Path()}
	r.run = func(k int) {
		b.Helper()
		command(b, "podman", podman("run", "-d", "--name", name(k), "--cgroup-parent", "/"+group, "--network", "ns:"+r.namespace,
			"--ulimit", "nofile=1024:1024", "--ulimit", "nproc=1024:1024", rivalImage)...)
	}
	r.remove = func(k int) {
		b.Helper()
		command(b, "podman", podman("rm", "--force", "--time", "0", name(k))...)
	}
	command(b, "podman", podman("load", "--input", rivalTar(b, i))...)
	b.Cleanup(func() {
		_ = exec.Command("podman", podman("rm", "--all", "--force", "--time", "0")...).Run()
		removeGroups(group)
	})
	return r
}
