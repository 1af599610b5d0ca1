package nodetest

import (
	"context"
	"encoding/json"
	"net"
	"os"
	"path/filepath"
	"time"

	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/pkg/vmimage"
	"github.com/croft-edge/croft/pkg/workload"
)

// VMImage makes the image of the small guest in the world's folder, and returns the flags of a node that boots it.
func (w *World) VMImage() []string {
	w.Helper()
	folder := w.Path("vm-image")
	flags := []string{"--kubernetes-image", folder, "--vm-accelerator", "tcg"}
	if _, err := os.Stat(filepath.Join(folder, vmimage.Manifest)); err == nil {
		return flags
	}
	if err := vmguest.MakeImage(folder); err != nil {
		w.Fatal(err)
	}
	return flags
}

// ClusterSecret is the secret of the VMs of Kubernetes.
const ClusterSecret = "a secret of the whole cluster"

// Kubernetes is a reservation of the world's user for a VM of the smallest size on the network net1, with that address.
func (r *Reservations) Kubernetes(n *Node, ip string) *workload.Reservation {
	r.Helper()
	sealed, err := workload.SealSecret(n.ID, r.User.ID(), workload.TypeKubernetes, "cluster_secret", []byte(ClusterSecret))
	if err != nil {
		r.Fatal(err)
	}
	raw, err := json.Marshal(workload.Kubernetes{
		Size: uint8(workload.MaxVMSize), NetworkID: "net1", IP: net.ParseIP(ip).To4(), ClusterSecret: sealed, MasterIPs: []net.IP{}, SSHKeys: []string{"ssh-ed25519 AAAA me@home"},
	})
	if err != nil {
		r.Fatal(err)
	}
	signed := &workload.Reservation{NodeID: n.ID, Type: workload.TypeKubernetes, Created: time.Now(), Duration: time.Hour, Data: raw}
	if err := signed.Sign(r.User.Private()); err != nil {
		r.Fatal(err)
	}
	return signed
}

// KubernetesResult waits for and decodes the result of a running VM.
func (e *ExplorerServer) KubernetesResult(r *workload.Reservation) workload.KubernetesResult {
	e.Helper()
	var out workload.KubernetesResult
	if err := json.Unmarshal(e.Result(r, workload.StateOK).Data, &out); err != nil {
		e.Fatal(err)
	}
	return out
}

// Booted waits until the guest at an address answers from the network namespace of that file, and returns a client of it and
// the number of its boots.
func (w *World) Booted(namespace, ip string) (guest *vmguest.Client, boots int) {
	w.Helper()
	guest = vmguest.NewClient(namespace, ip)
	ctx, cancel := context.WithTimeout(w.Context(), Soon)
	defer cancel()
	boot, err := guest.Wait(ctx)
	if err != nil {
		w.Fatalf("the guest at %s doesn't answer: %v", ip, err)
	}
	return guest, boot.Boots
}

// vmDown ends the stopped node's VMs.
func vmDown(n *Node) {
	left, err := os.ReadDir(filepath.Join(n.RunDir(), "vm"))
	if err != nil || len(left) == 0 {
		return
	}
	if _, err := n.command(n.w.Setup, "vm", "down"); err != nil {
		n.w.Errorf("the VMs of %s stay: %v: %s", n.name, err, stderr(err))
	}
}
