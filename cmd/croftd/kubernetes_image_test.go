package main_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/croft-edge/croft/internal/testing/imagetest"
	"github.com/croft-edge/croft/internal/testing/nodetest"
	"github.com/croft-edge/croft/internal/testing/vmguest"
	"github.com/croft-edge/croft/modules/vm/image"
	"github.com/croft-edge/croft/pkg/netns"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/vmimage"
)

// smallImage is the artifact of the small guest, as a version.
func (b *boxes) smallImage(version string) imagetest.Artifact {
	b.Helper()
	folder := b.Path("vm-artifact")
	if _, err := os.Stat(folder); err != nil {
		if err := vmguest.MakeImage(folder); err != nil {
			b.Fatal(err)
		}
	}
	made := vmimage.Image{Name: "small", Version: version, Kernel: "vmlinuz", Initrd: "initrd", Arguments: "quiet panic=1 " + vmguest.CheapBoot}
	if err := vmimage.Write(folder, made); err != nil {
		b.Fatal(err)
	}
	a := imagetest.Artifact{Type: image.Type}
	for _, name := range []string{vmimage.Manifest, "vmlinuz", "initrd"} {
		raw, err := os.ReadFile(filepath.Join(folder, name))
		if err != nil {
			b.Fatal(err)
		}
		a.Files = append(a.Files, imagetest.ArtifactFile{Name: name, Content: string(raw)})
	}
	return a
}

// vmImage is the state of the image that VMs boot.
func (b *boxes) vmImage() (out node.VMImageStatus) {
	s, err := b.n.TryStatus()
	if err != nil {
		return out
	}
	return s.VMImage
}

// vmCheck is what /readyz says of VMs.
func (b *boxes) vmCheck() string {
	ready, _ := b.n.Ready()
	for _, c := range ready.Checks {
		if c.Name == "vm" {
			return string(c.Level) + ": " + c.Detail
		}
	}
	return ""
}

// TestAnImageIsFetchedAheadOfVMs: a VM waits for the artifact of its image, which the node fetches over a slow link, across a kill
// of the agent; a newer version comes by itself, and without the registry VMs boot what is there.
func TestAnImageIsFetchedAheadOfVMs(t *testing.T) {
	const reference = "oci://" + registryAddress + "/kubernetes:1"
	b := &boxes{internet: newInternet(t)}
	b.n, _ = b.node("n1", "203.0.113.11", "--pool-size", "24GiB", "--cpu-overcommit", "8", "--vm-accelerator", "tcg",
		"--kubernetes-image", reference, "--image-plain-http", registryAddress)
	b.furnish()
	box, _ := b.run(nil)
	inBox := netns.OfProcess(b.n.WaitRunning(box).PID)
	vm := b.Push(b.Kubernetes(b.n, "10.1.2.40"))
	const waits = "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched"
	b.Until(nodetest.Soon, "the VM waits for its image", func() bool { return strings.Contains(b.shown(vm).Error, waits) })
	b.Until(nodetest.Soon, "the failure is shown", func() bool {
		i := b.vmImage()
		return i.State == node.VMImageFailed && i.Reference == reference && i.Next != 0 && strings.Contains(i.Error, "cannot pull "+reference)
	})
	if said := b.vmCheck(); !strings.HasPrefix(said, "warning: no image for Kubernetes VMs: cannot pull ") {
		t.Errorf("readiness says %q", said)
	}

	reg, _ := b.registry()
	push := func(version string) string {
		d, err := b.smallImage(version).Push(t.Context(), registryAddress+"/kubernetes:1", reg.Behind())
		if err != nil {
			t.Fatal(err)
		}
		return d.String()
	}
	first := push("1")
	const after = 1 << 20
	reg.Set(imagetest.Faults{HangAfter: after})
	b.restart() // it looks at once
	b.Until(nodetest.Soon, "some of it is here", func() bool {
		i := b.vmImage()
		return i.State == node.VMImageFetching && i.Done >= after && i.Total > i.Done
	})
	mentions(t, "readiness", b.vmCheck(), "warning: the image for Kubernetes VMs is being fetched: ", " MiB of ")
	reg.Set(imagetest.Faults{})
	reg.Forget()
	b.restart()
	b.KubernetesResult(vm)
	b.Booted(inBox, "10.1.2.40")
	if len(reg.Seen().Ranges) == 0 {
		t.Error("the fetch was begun anew")
	}
	if i := b.vmImage(); i != (node.VMImageStatus{Reference: reference, State: node.VMImageReady, Version: "1", Digest: first}) {
		t.Errorf("the status is %+v", i)
	}
	mentions(t, "croftd status", b.n.Croftd("status"), "VM IMAGE", reference, first[:len("sha256:")+12])
	mentions(t, "readiness", b.vmCheck(), "ok: 1 virtual machines")

	second := push("2")
	b.restart()
	b.Until(nodetest.Soon, "the newer version", func() bool { i := b.vmImage(); return i.State == node.VMImageReady && i.Digest == second })
	for _, d := range []string{first, second} { // a VM has the first
		if _, err := os.Stat(filepath.Join(b.n.StateDir(), "kubernetes-image", strings.Replace(d, ":", "-", 1), vmimage.Manifest)); err != nil {
			t.Error(err)
		}
	}
	reg.Set(imagetest.Faults{Silent: true})
	b.restart()
	other := b.Push(b.Kubernetes(b.n, "10.1.2.41"))
	b.KubernetesResult(other)
	b.Booted(inBox, "10.1.2.41")
	b.gone(other)
	b.gone(vm)
}

// restart kills the agent and starts it again.
func (b *boxes) restart() {
	b.Helper()
	b.n.Kill()
	b.n.Start()
	b.n.WaitReady()
}
