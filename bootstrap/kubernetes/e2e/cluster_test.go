//go:build kubernetes

package e2e_test

import (
	"context"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strconv"
	"strings"
	"testing"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/modules/vm/machine"
)

var (
	image   = flag.String("image", "", "the folder of the image")
	kubectl = flag.String("kubectl", "", "the path of kubectl")
)

var binaries nodetest.Binaries

func TestMain(m *testing.M) {
	flag.Parse()
	os.Exit(run(m))
}

func run(m *testing.M) int {
	dir, err := os.MkdirTemp("/var/tmp", "croft-kubernetes-")
	if err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	defer os.RemoveAll(dir)
	if binaries, err = nodetest.Build(context.Background(), dir, "-trimpath"); err != nil {
		fmt.Fprintln(os.Stderr, err)
		return 1
	}
	return m.Run()
}

// Limits of waits: a machine may be emulated on a busy processor.
const (
	// readyWithin is how long a machine may take from its reservation until it is ready where it is emulated.
	readyWithin = 90 * time.Second
	patience    = 5 * time.Minute
)

// addresses of the machines: the master and the one with the wrong secret on the first node, the worker on the second.
const (
	masterIP   = "10.1.1.10"
	workerIP   = "10.1.2.11"
	strangerIP = "10.1.1.12"
)

// TestCluster makes a cluster of a master and a worker on two nodes, uses it, cuts the master's power, and takes it down. A
// third machine with another secret doesn't join.
func TestCluster(t *testing.T) {
	u := newUser(t)
	u.reserve("master", u.open.ID, fmt.Sprintf("{size: 3, network: net1, ip: %s, cluster_secret: {secret: file:secret}, ssh_keys: [%q]}", masterIP, u.publicKey))
	took := u.ready("master")
	if u.emulated("master") && took > readyWithin {
		t.Errorf("the master was ready after %s, must be within %s", took.Round(time.Second), readyWithin)
	}
	u.kubeconfig()
	u.nodes(1)
	u.runWeb()
	u.byName("client-1")

	u.reserve("worker", u.second.ID, fmt.Sprintf("{size: 15, network: net1, ip: %s, cluster_secret: {secret: file:secret}, master_ips: [%s], ssh_keys: [%q]}", workerIP, masterIP, u.publicKey))
	u.ready("worker")
	u.nodes(2)
	u.pod("client-2", u.names["worker"])
	u.byName("client-2")

	u.reserve("stranger", u.open.ID, fmt.Sprintf("{size: 15, network: net1, ip: %s, cluster_secret: {secret: file:other}, master_ips: [%s], ssh_keys: [%q]}", strangerIP, masterIP, u.publicKey))
	u.says("stranger", "isn't signed with this machine's cluster secret")

	u.reboot("worker")
	u.nodes(2)

	u.powerCut()
	u.nodes(2)
	u.byName("client-1")
	u.byName("client-2")

	u.takeDown()
}

// runWeb runs a web server, a service of it, and a client on the master.
func (u *user) runWeb() {
	u.Helper()
	u.pod("web", u.names["master"])
	u.pod("client-1", u.names["master"])
	u.kubectl("expose", "pod", "web", "--port", "80", "--target-port", "8080")
}

// pod runs the tests' web server on a machine, from an image that is brought there by ssh.
func (u *user) pod(name, on string) {
	u.Helper()
	began := time.Now()
	u.bring(on)
	u.kubectl("run", name, "--image", webImage, "--image-pull-policy", "Never", "--labels", "app="+name,
		"--overrides", fmt.Sprintf(`{"spec":{"nodeName":%q,"terminationGracePeriodSeconds":1}}`, on))
	u.kubectl("wait", "--for", "condition=Ready", "pod/"+name, "--timeout", patience.String())
	u.Logf("pod %s runs on machine %s after %s", name, on, since(began))
}

const webImage = "localhost/web:1"

// bring imports the web server's image on a machine.
func (u *user) bring(on string) {
	u.Helper()
	if u.brought[on] {
		return
	}
	u.brought[on] = true
	tar := u.Path("web.tar")
	if _, err := os.Stat(tar); err != nil {
		if err := imagetest.Server().DockerTar(tar, webImage); err != nil {
			u.Fatal(err)
		}
	}
	archive, err := os.Open(tar)
	if err != nil {
		u.Fatal(err)
	}
	defer archive.Close()
	u.ssh(on, archive, "ctr -n k8s.io images import -")
}

// byName has a pod fetch a page from the service by its name.
func (u *user) byName(pod string) {
	u.Helper()
	began := time.Now()
	path := "/api/v1/namespaces/default/pods/" + pod + ":8080/proxy/get?url=http://web.default.svc.cluster.local/"
	u.eventually("the service answers "+pod, func() error {
		page, err := u.try(u.kubectlLine("get", "--raw", path), nil)
		if err == nil && strings.TrimSpace(page) != "web" {
			err = fmt.Errorf("the page is %q, want the name of pod web", page)
		}
		return err
	})
	u.Logf("the service answers %s by its name after %s", pod, since(began))
}

// nodes waits until the cluster has that many nodes, all ready, and no other.
func (u *user) nodes(count int) {
	u.Helper()
	u.eventually(strconv.Itoa(count)+" ready nodes", func() error {
		out, err := u.try(u.kubectlLine("get", "nodes", "--no-headers"), nil)
		if err != nil {
			return err
		}
		lines := strings.Split(strings.TrimSpace(out), "\n")
		ready := 0
		for _, line := range lines {
			if fields := strings.Fields(line); len(fields) > 1 && fields[1] == "Ready" {
				ready++
			}
		}
		if ready != count || len(lines) != count {
			return fmt.Errorf("the nodes are:\n%s", out)
		}
		return nil
	})
}

// reboot has a machine end its pods and start again, by the usual command.
func (u *user) reboot(name string) {
	u.Helper()
	began, boots := time.Now(), u.boots(name)
	// The connection ends with the machine.
	u.try(u.sshLine(u.names[name], "reboot"), nil) //nolint:errcheck // what follows tells
	u.bootsAfter(name, boots)
	if text := u.croft("logs", "--tail", "2000", name); !strings.Contains(text, "somebody restarts the machine: switching off") {
		u.Errorf("machine %s has started again without an order:\n%s", name, text)
	}
	u.says(name, "ready")
	u.Logf("machine %s is ready %s after its reboot", name, since(began))
}

// boots is how often a machine has booted, as far as its console is kept.
func (u *user) boots(name string) int {
	u.Helper()
	return strings.Count(u.croft("logs", "--tail", "2000", name), bootLine)
}

// bootsAfter waits until a machine has booted again.
func (u *user) bootsAfter(name string, boots int) {
	u.Helper()
	u.eventually(name+" boots again", func() error {
		if n := u.boots(name); n <= boots {
			return fmt.Errorf("its console has %d boots", n)
		}
		return nil
	})
}

// powerCut ends the master's process without a warning. The node starts the machine again; its objects are there.
func (u *user) powerCut() {
	u.Helper()
	u.kubectl("create", "configmap", "kept", "--from-literal", "a=b")
	id := u.names["master"]
	began, boots := time.Now(), u.boots("master")
	u.kill(u.open, id)
	u.bootsAfter("master", boots)
	u.says("master", "ready")
	u.Logf("the master is ready %s after its power cut", since(began))
	if got := u.kubectl("get", "configmap", "kept", "-o", "jsonpath={.data.a}"); got != "b" {
		u.Errorf("after a power cut the config map has %q", got)
	}
	for _, pod := range []string{"web", "client-1", "client-2"} {
		u.kubectl("wait", "--for", "condition=Ready", "pod/"+pod, "--timeout", patience.String())
	}
	u.Logf("the master and its pods are back after %s", since(began))
}

// bootLine is a line that a machine prints once a boot.
const bootLine = "croft: the machine is "

// kill ends the process of a virtual machine.
func (u *user) kill(n *nodetest.Node, id string) {
	u.Helper()
	folder, err := machine.OpenFolder(filepath.Join(n.RunDir(), "vm"))
	if err != nil {
		u.Fatal(err)
	}
	process, there, err := folder.Of(id).Process()
	if err != nil || !there {
		u.Fatalf("the machine has no process: %v", err)
	}
	if err := unix.Kill(process.PID, unix.SIGKILL); err != nil {
		u.Fatal(err)
	}
}

// takeDown deletes all machines; nothing of them is left on the nodes.
func (u *user) takeDown() {
	u.Helper()
	began := time.Now()
	u.croft("delete", "--wait", "--yes", "stranger", "worker", "master")
	u.Logf("the machines are powered off and gone after %s", since(began))
	for n, before := range map[*nodetest.Node][]string{u.open: u.before[0], u.second: u.before[1]} {
		u.Until(nodetest.Soon, "nothing of the machines is left", func() bool { return len(n.LeftSince(before)) == 0 })
	}
}

func since(began time.Time) time.Duration { return time.Since(began).Round(100 * time.Millisecond) }
