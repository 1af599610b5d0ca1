package fakenode

import (
	"strings"
	"sync"
	"testing"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
)

// VMImages is the vm module's VMImages; nothing is fetched. It implements node.VMImages.
type VMImages struct {
	calls *Calls
	mu    sync.Mutex
	// reference is empty for a node that is given no image.
	reference string
	have      node.VMImage
}

var _ node.VMImages = (*VMImages)(nil)

// VMImageReference is the image that a Node's vm module is given.
const VMImageReference = "oci://hub.example/kubernetes:1"

// NewVMImages is given an image that isn't there yet; none when reference is empty.
func NewVMImages(calls *Calls, reference string) *VMImages {
	return &VMImages{calls: calls, reference: reference}
}

// Offer puts an image of that version on the node.
func (v *VMImages) Offer(version string) node.VMImage {
	v.mu.Lock()
	defer v.mu.Unlock()
	folder := "/vm-images/" + version + "/"
	v.have = node.VMImage{
		Name: "kubernetes", Version: version, Digest: "sha256:" + strings.Repeat(version[:1], 64),
		Kernel: folder + "vmlinuz", Initrd: folder + "initrd", Root: folder + "root", Arguments: "quiet",
	}
	return v.have
}

// Remove takes the image away, and the operator's setting too unless it is only missing.
func (v *VMImages) Remove(missing bool) {
	v.mu.Lock()
	defer v.mu.Unlock()
	v.have = node.VMImage{}
	if !missing {
		v.reference = ""
	}
}

// Current implements node.VMImages.
func (v *VMImages) Current() (node.VMImage, error) {
	return answer(v.calls, "VMImages.Current", "", func() (node.VMImage, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		switch {
		case v.reference == "":
			return node.VMImage{}, node.Errorf(node.NotExist, "cannot find an image of virtual machines: the node is given none")
		case v.have.Version == "":
			return node.VMImage{}, node.Errorf(node.Transient, "cannot boot VMs yet: the node's image for Kubernetes VMs is being fetched (0.0 MiB so far)")
		}
		return v.have, nil
	})
}

// Status implements node.VMImages.
func (v *VMImages) Status() (node.VMImageStatus, error) {
	return answer(v.calls, "VMImages.Status", "", func() (node.VMImageStatus, error) {
		v.mu.Lock()
		defer v.mu.Unlock()
		out := node.VMImageStatus{Reference: v.reference, State: node.VMImageReady, Version: v.have.Version, Digest: v.have.Digest}
		switch {
		case v.reference == "":
			out.State = node.VMImageNone
		case v.have.Version == "":
			out.State = node.VMImageFetching
		}
		return out, nil
	})
}

// Serve returns the stub of the module.
func (v *VMImages) Serve(t *testing.T) *stubs.VMImagesStub {
	t.Helper()
	return stubs.NewVMImagesStub(conformance.OnBus[node.VMImages](t, node.VMModule, bus.Object(node.VMImageObject, node.VMImageVersion), v))
}
