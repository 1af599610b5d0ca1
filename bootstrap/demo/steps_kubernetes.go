package main

import (
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"time"

	"golang.org/x/sys/unix"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/modules/vm/machine"
)

// kubernetes is what the demo of the Kubernetes image needs.
type kubernetes struct {
	// image is the image's folder, kubectl the path of that program.
	image, kubectl string
	// file is the project with the machine, id its reservation, address its IP address.
	file, id, address string
}

// kubernetesSteps are those of make demo-kubernetes.
func kubernetesSteps() []step {
	return []step{
		{"start an explorer", startExplorer},
		{"start a node", startNode},
		{"make a user's key", makeKeys},
		{"make a private network with croft's own commands", makeNetwork},
		{"reserve a machine: it boots, and becomes a cluster", bootCluster},
		{"get its kubeconfig over ssh, and its nodes", getNodes},
		{"run a web server in a pod; another pod asks it by name", runPods},
		{"cut its power: its objects are there", cutPower},
		{"end the machine and the network, signed", endCluster},
		{"take the machine back: nothing is left", nothingLeft},
	}
}

// poolSize is that of the node's disk, a file: the control plane's disk has 25 GiB.
func (s *stage) poolSize() string {
	if s.image != "" {
		return "30GiB"
	}
	return "20GiB"
}

const (
	masterPlace = ".10"
	clusterVM   = `
workloads:
  master:
    node: %s
    kubernetes: {size: 3, network: home, ip: %s, cluster_secret: {secret: file:cluster.secret}, ssh_keys: [%q]}
`
)

// bootCluster reserves a control plane and waits until its node is ready.
func bootCluster(ctx context.Context, w *world) error {
	k := w.cluster
	k.file = w.net.file
	k.address = w.net.info.Gateway[:strings.LastIndexByte(w.net.info.Gateway, '.')] + masterPlace
	if err := os.WriteFile(w.stage.path("cluster.secret"), []byte("a secret for this demo alone"), 0o600); err != nil {
		return err
	}
	out, err := exec.CommandContext(ctx, "ssh-keygen", "-q", "-t", "ed25519", "-N", "", "-C", "demo", "-f", w.stage.path("ssh")).CombinedOutput()
	if err != nil {
		return fmt.Errorf("cannot make an ssh key: %w: %s", err, out)
	}
	public, err := os.ReadFile(w.stage.path("ssh.pub"))
	if err != nil {
		return err
	}
	file, err := os.OpenFile(k.file, os.O_APPEND|os.O_WRONLY, 0)
	if err != nil {
		return err
	}
	_, err = fmt.Fprintf(file, clusterVM, w.node.id, k.address, strings.TrimSpace(string(public)))
	if closed := file.Close(); err == nil {
		err = closed
	}
	if err != nil {
		return err
	}
	began := time.Now()
	if _, err := w.user.croft(ctx, "apply", "-f", k.file, "--wait", "--timeout", "5m"); err != nil {
		return err
	}
	rows, err := w.user.status(ctx, k.file)
	if err != nil {
		return err
	}
	for _, r := range rows {
		if r.Name == "master" {
			k.id = r.ID
		}
	}
	say("the machine runs after %.1f s", time.Since(began).Seconds())
	return w.waitReady(ctx, began)
}

// waitReady follows the machine's own reports until it is ready.
func (w *world) waitReady(ctx context.Context, began time.Time) error {
	last := ""
	return until(ctx, 5*time.Minute, "the cluster is ready", func() (bool, error) {
		<-time.After(time.Second) // the machine needs the processors more than this question does
		var rows []struct {
			At *struct {
				VM *struct{ Accelerator, Guest string }
			} `json:"at_node"`
		}
		if err := w.user.decoded(ctx, &rows, "status", w.cluster.id); err != nil {
			return false, err
		}
		if len(rows) != 1 || rows[0].At == nil || rows[0].At.VM == nil {
			return false, fmt.Errorf("croft status has no virtual machine")
		}
		vm := rows[0].At.VM
		if vm.Guest != last {
			last = vm.Guest
			say("%5.1f s: %s (%s)", time.Since(began).Seconds(), last, vm.Accelerator)
		}
		if last != "ready" {
			return false, fmt.Errorf("it reports %q", last)
		}
		return true, nil
	})
}

// inNetwork is a command line that runs at the node's end of the network; its user would join by WireGuard.
func (w *world) inNetwork(line ...string) []string {
	return append([]string{"nsenter", "--net=" + w.net.info.Namespace}, line...)
}

// kube runs kubectl.
func (w *world) kube(ctx context.Context, args ...string) (string, error) {
	line := w.inNetwork(append([]string{w.cluster.kubectl, "--kubeconfig", w.stage.path("kubeconfig")}, args...)...)
	out, err := exec.CommandContext(ctx, line[0], line[1:]...).CombinedOutput()
	if err != nil {
		err = fmt.Errorf("kubectl %s: %w: %s", strings.Join(args, " "), err, out)
	}
	return string(out), err
}

// make runs kubectl to make an object, and again while the control plane of an emulated machine is too busy. An object that is
// there was made by a try whose answer was lost.
func (w *world) make(ctx context.Context, args ...string) error {
	return until(ctx, 3*time.Minute, "kubectl "+args[0], func() (bool, error) {
		_, err := w.kube(ctx, args...)
		if err != nil && (strings.Contains(err.Error(), "AlreadyExists") || strings.Contains(err.Error(), "already exists")) {
			err = nil
		}
		return err == nil, err
	})
}

// getNodes gets the kubeconfig with the user's ssh key, and asks the cluster for its nodes.
func getNodes(ctx context.Context, w *world) error {
	ssh := w.stage.path("ssh-there")
	script := "#!/bin/sh\nexec " + strings.Join(w.inNetwork("ssh"), " ") + " \"$@\"\n"
	if err := os.WriteFile(ssh, []byte(script), 0o700); err != nil {
		return err
	}
	if _, err := w.user.croft(ctx, "kubeconfig", "--ssh", ssh, "--identity", w.stage.path("ssh"), "--out", w.stage.path("kubeconfig"), w.cluster.id); err != nil {
		return err
	}
	out, err := w.kube(ctx, "get", "nodes", "-o", "wide")
	if err != nil {
		return err
	}
	show([]byte(out))
	return nil
}

// runPods runs a web server and a client from an image that is brought by ssh.
func runPods(ctx context.Context, w *world) error {
	const image = "localhost/web:1"
	tar := w.stage.path("web.tar")
	if err := imagetest.Server().DockerTar(tar, image); err != nil {
		return err
	}
	archive, err := os.Open(tar)
	if err != nil {
		return err
	}
	defer archive.Close()
	line := w.inNetwork("ssh", "-o", "BatchMode=yes", "-o", "StrictHostKeyChecking=no", "-o", "UserKnownHostsFile=/dev/null", "-o", "LogLevel=ERROR",
		"-i", w.stage.path("ssh"), "root@"+w.cluster.address, "ctr -n k8s.io images import -")
	cmd := exec.CommandContext(ctx, line[0], line[1:]...)
	cmd.Stdin = archive
	if out, err := cmd.CombinedOutput(); err != nil {
		return fmt.Errorf("cannot bring an image: %w: %s", err, out)
	}
	for _, name := range []string{"web", "client"} {
		if err := w.make(ctx, "run", name, "--image", image, "--image-pull-policy", "Never"); err != nil {
			return err
		}
	}
	if err := w.make(ctx, "expose", "pod", "web", "--port", "80", "--target-port", "8080"); err != nil {
		return err
	}
	if err := w.make(ctx, "wait", "--for", "condition=Ready", "pod/web", "pod/client", "--timeout", "5m"); err != nil {
		return err
	}
	if err := w.askByName(ctx); err != nil {
		return err
	}
	out, err := w.kube(ctx, "get", "pods,services", "-A", "-o", "wide")
	show([]byte(out))
	return err
}

// askByName has the client's pod fetch the web server's page by the name of its service.
func (w *world) askByName(ctx context.Context) error {
	const path = "/api/v1/namespaces/default/pods/client:8080/proxy/get?url=http://web.default.svc.cluster.local/"
	return until(ctx, 3*time.Minute, "the service answers", func() (bool, error) {
		page, err := w.kube(ctx, "get", "--raw", path)
		if err != nil || strings.TrimSpace(page) != "web" {
			return false, fmt.Errorf("the page is %q: %w", page, err)
		}
		say("pod client asks http://web.default.svc.cluster.local/: %q", strings.TrimSpace(page))
		return true, nil
	})
}

// cutPower ends the machine's process without a warning.
func cutPower(ctx context.Context, w *world) error {
	if err := w.make(ctx, "create", "configmap", "kept", "--from-literal", "a=b"); err != nil {
		return err
	}
	folder, err := machine.OpenFolder(w.stage.path("run", "vm"))
	if err != nil {
		return err
	}
	process, there, err := folder.Of(w.cluster.id).Process()
	if err != nil || !there {
		return fmt.Errorf("cannot find the machine's process: %w", err)
	}
	began := time.Now()
	if err := unix.Kill(process.PID, unix.SIGKILL); err != nil {
		return err
	}
	err = until(ctx, time.Minute, "the machine's end is seen", func() (bool, error) {
		var rows []struct {
			At *struct{ VM *struct{ Restarts int } } `json:"at_node"`
		}
		err := w.user.decoded(ctx, &rows, "status", w.cluster.id)
		return err == nil && len(rows) == 1 && rows[0].At != nil && rows[0].At.VM != nil && rows[0].At.VM.Restarts > 0, err
	})
	if err != nil {
		return err
	}
	if err := w.waitReady(ctx, began); err != nil {
		return err
	}
	out, err := w.kube(ctx, "get", "configmap", "kept", "-o", "jsonpath={.data.a}")
	if err != nil || out != "b" {
		return fmt.Errorf("after the power cut the object is %q: %w", out, err)
	}
	return w.askByName(ctx)
}

// endCluster powers the machine off and removes it and the network.
func endCluster(ctx context.Context, w *world) error {
	began := time.Now()
	if _, err := w.user.croft(ctx, "delete", "-f", w.cluster.file, "--wait", "--yes", "--timeout", "3m"); err != nil {
		return err
	}
	say("powered off, and gone with its disk, after %.1f s", time.Since(began).Seconds())
	return nil
}
