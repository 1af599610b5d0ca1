//go:build kubernetes

package e2e_test

import (
	"encoding/json"
	"fmt"
	"io"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/croft-edge/croft/internal/testing/netlab"
	"github.com/croft-edge/croft/internal/testing/nodetest"
)

// user is a person with a laptop on the internet, a project and a network on two nodes.
type user struct {
	*nodetest.Internet
	open, second *nodetest.Node
	// before is what the nodes had before the first machine.
	before [2][]string
	laptop *netlab.Namespace
	// dir has the user's files: keys, secrets, the project.
	dir, publicKey string
	// names are the machines' reservations by their names in the project.
	names   map[string]string
	brought map[string]bool
	asked   map[string]time.Time
}

func newUser(t *testing.T) *user {
	t.Helper()
	for name, path := range map[string]string{"image": *image, "kubectl": *kubectl} {
		if _, err := os.Stat(path); err != nil {
			t.Fatalf("cannot use -%s: %v; make test-kubernetes gives it", name, err)
		}
	}
	u := &user{
		Internet: nodetest.NewInternet(t, binaries), dir: t.TempDir(), names: map[string]string{}, brought: map[string]bool{}, asked: map[string]time.Time{},
	}
	args := []string{"--cpu-overcommit", "8", "--kubernetes-image", *image, "--pool-size"}
	u.open, _ = u.PlugNode("n1", "203.0.113.11", append(args, "40GiB")...)
	u.second, _ = u.PlugNode("n2", "203.0.113.12", append(args, "12GiB")...)
	u.laptop = u.Host("laptop", "203.0.113.50")
	for name, secret := range map[string]string{"secret": "the secret of the cluster", "other": "the secret of another one"} {
		if err := os.WriteFile(filepath.Join(u.dir, name), []byte(secret), 0o600); err != nil {
			t.Fatal(err)
		}
	}
	u.run(nil, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "me", "-f", filepath.Join(u.dir, "key"))
	public, err := os.ReadFile(filepath.Join(u.dir, "key.pub"))
	if err != nil {
		t.Fatal(err)
	}
	u.publicKey = strings.TrimSpace(string(public))
	u.croft("id", "create")
	u.croft("network", "create", "net1")
	u.croft("network", "add-node", "net1", u.open.ID, "--endpoint", "203.0.113.11")
	u.croft("network", "add-node", "net1", u.second.ID, "--endpoint", "203.0.113.12")
	file := u.croft("network", "add-access", "net1", "laptop")
	u.croft("apply", "--wait", "--yes")
	u.WGQuick(u.laptop, "laptop", file)
	u.before = [2][]string{u.open.Left(), u.second.Left()}
	return u
}

// try runs a program on the laptop.
func (u *user) try(line []string, input io.Reader) (string, error) {
	cmd := exec.CommandContext(u.Context(), "nsenter", append([]string{"--net=" + u.laptop.Path()}, line...)...)
	cmd.Dir, cmd.Stdin = u.dir, input
	cmd.Env = append(os.Environ(), "HOME="+u.dir)
	var errs strings.Builder
	cmd.Stderr = &errs
	out, err := cmd.Output()
	if err != nil {
		err = fmt.Errorf("%s: %w: %s", strings.Join(line, " "), err, errs.String())
	}
	return string(out), err
}

// run is try that must succeed.
func (u *user) run(input io.Reader, line ...string) string {
	u.Helper()
	out, err := u.try(line, input)
	if err != nil {
		u.Fatal(err)
	}
	return out
}

func (u *user) croftLine(args ...string) []string {
	return append([]string{u.Croft, "--explorer", u.URL, "--id", filepath.Join(u.dir, "id.seed")}, args...)
}

func (u *user) croft(args ...string) string {
	u.Helper()
	return u.run(nil, u.croftLine(args...)...)
}

func (u *user) kubectlLine(args ...string) []string {
	return append([]string{*kubectl, "--kubeconfig", filepath.Join(u.dir, "kubeconfig"), "--request-timeout", "60s"}, args...)
}

// kubectl runs a command of kubectl, and again while it fails, as while the control plane starts again. An object that is there
// was made by a try whose answer was lost.
func (u *user) kubectl(args ...string) string {
	u.Helper()
	var out string
	u.eventually("kubectl "+args[0], func() (err error) {
		out, err = u.try(u.kubectlLine(args...), nil)
		if err != nil && (strings.Contains(err.Error(), "AlreadyExists") || strings.Contains(err.Error(), "already exists")) {
			err = nil
		}
		return err
	})
	return out
}

// eventually tries something until it succeeds, or there is no patience left.
func (u *user) eventually(what string, try func() error) {
	u.Helper()
	var last error
	for end, tell := time.Now().Add(patience), time.Now().Add(time.Minute); time.Now().Before(end); {
		if last = try(); last == nil {
			return
		}
		if time.Now().After(tell) {
			tell = tell.Add(time.Minute)
			u.Logf("%s: not yet: %v", what, last)
		}
		select {
		case <-u.Context().Done():
			u.Fatalf("%s: %v: %v", what, u.Context().Err(), last)
		case <-time.After(time.Second):
		}
	}
	u.Fatalf("%s: not within %s: %v", what, patience, last)
}

// reserve adds a machine to the project and reserves it.
func (u *user) reserve(name, node, data string) {
	u.Helper()
	file, err := os.OpenFile(filepath.Join(u.dir, "croft.yaml"), os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		u.Fatal(err)
	}
	defer file.Close()
	if len(u.asked) == 0 {
		fmt.Fprint(file, "\nworkloads:\n")
	}
	if _, err := fmt.Fprintf(file, "  %s:\n    node: %s\n    kubernetes: %s\n", name, node, data); err != nil {
		u.Fatal(err)
	}
	u.asked[name] = time.Now()
	u.croft("apply", "--wait", "--yes", "--timeout", "5m")
	u.Logf("machine %s is started %s after its reservation", name, since(u.asked[name]))
	u.names[name] = u.status(name).ID
}

// row is what croft status has of a machine.
type row struct {
	Name string
	ID   string
	At   *struct {
		Problem string
		VM      *struct{ Accelerator, Guest string }
	} `json:"at_node"`
}

func (u *user) status(name string) row {
	u.Helper()
	var rows []row
	if err := json.Unmarshal([]byte(u.croft("-o", "json", "status", name)), &rows); err != nil || len(rows) != 1 {
		u.Fatalf("croft status of %s has %d rows: %v", name, len(rows), err)
	}
	return rows[0]
}

// emulated reports whether a machine's processor is emulated.
func (u *user) emulated(name string) bool {
	u.Helper()
	at := u.status(name).At
	if at == nil || at.VM == nil {
		u.Fatalf("croft status has no virtual machine for %s", name)
	}
	u.Logf("machine %s runs with %s", name, at.VM.Accelerator)
	return at.VM.Accelerator == "tcg"
}

// ready waits until a machine reports that it is ready, and returns how long that took since its reservation.
func (u *user) ready(name string) time.Duration {
	u.Helper()
	u.says(name, "ready")
	took := time.Since(u.asked[name])
	u.Logf("machine %s is ready %s after its reservation", name, took.Round(100*time.Millisecond))
	return took
}

// says waits until a machine's last report is this.
func (u *user) says(name, report string) {
	u.Helper()
	u.eventually(name+" reports "+report, func() error {
		at := u.status(name).At
		switch {
		case at == nil || at.VM == nil:
			return fmt.Errorf("croft status has no virtual machine")
		case report == "ready" && at.VM.Guest != report, !strings.Contains(at.VM.Guest, report):
			return fmt.Errorf("its last report is %q", at.VM.Guest)
		}
		return nil
	})
}

// kubeconfig gets the admin kubeconfig over ssh, with the user's key.
func (u *user) kubeconfig() {
	u.Helper()
	began := time.Now()
	u.croft("kubeconfig", "--identity", filepath.Join(u.dir, "key"), "--out", filepath.Join(u.dir, "kubeconfig"), "master")
	u.Logf("croft kubeconfig took %s", since(began))
}

// ssh runs a command in a machine.
func (u *user) ssh(on string, input io.Reader, command string) {
	u.Helper()
	u.run(input, u.sshLine(on, command)...)
}

func (u *user) sshLine(on, command string) []string {
	address := masterIP
	if on == u.names["worker"] {
		address = workerIP
	}
	return []string{
		"ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"-i", filepath.Join(u.dir, "key"), "root@" + address, command,
	}
}
