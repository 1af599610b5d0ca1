package fakenode

import (
	"slices"
	"testing"

	"github.com/croft-edge/croft/pkg/bus"
	"github.com/croft-edge/croft/pkg/node"
	"github.com/croft-edge/croft/pkg/node/conformance"
	"github.com/croft-edge/croft/pkg/node/stubs"
	"github.com/croft-edge/croft/pkg/sign"
	"github.com/croft-edge/croft/pkg/workload"
)

// Node is the modules of one node: containers have namespaces that may join its
// networks, those that run zdb have a zdb in ZDB, and the data of a zdb goes with its
// file system.
type Node struct {
	*Calls
	Storage    *Storage
	ZDB        *ZDB
	Containers *Containers
	Images     *Images
	Networks   *Networks
	Debug      *Debug
	Identity   *Identity
	VMs        *VMs
	VMImages   *VMImages
}

// The ports of a Node's zdbs.
const (
	FirstPort = 9900
	LastPort  = 9999
)

// New is an empty node with these pools and a new key.
func New(t *testing.T, pools ...node.Pool) *Node {
	t.Helper()
	key, err := sign.Generate()
	if err != nil {
		t.Fatal(err)
	}
	calls := &Calls{}
	images := NewImages(calls)
	n := &Node{
		Calls: calls, Storage: NewStorage(calls, pools...), ZDB: NewZDB(calls, FirstPort, LastPort),
		Containers: NewContainers(calls, images), Images: images, Networks: NewNetworks(calls), Debug: NewDebug(calls), Identity: NewIdentity(calls, key), VMs: NewVMs(calls),
		VMImages: NewVMImages(calls, VMImageReference),
	}
	n.Containers.places = n.Networks.places
	n.Storage.onErase = n.ZDB.erase
	n.Containers.onStart = n.startZDB
	n.Containers.onEnd = n.ZDB.Kill
	return n
}

// startZDB starts the zdb of a container that runs one.
func (n *Node) startZDB(spec node.ContainerSpec) {
	if len(spec.Entrypoint) == 0 || spec.Entrypoint[0] != "/zdb" {
		return
	}
	flag := func(name string) string {
		if i := slices.Index(spec.Entrypoint, name); i > 0 && i+1 < len(spec.Entrypoint) {
			return spec.Entrypoint[i+1]
		}
		return ""
	}
	for _, m := range spec.Mounts {
		if m.Target == flag("--data") {
			n.ZDB.Start(spec.ID, workload.ZDBMode(flag("--mode")), m.Source)
		}
	}
}

// Stubs speak to a node's modules on a bus.
type Stubs struct {
	Storage    *stubs.StorageStub
	VDisks     *stubs.VDisksStub
	ZDB        *stubs.ZDBNamespacesStub
	Containers *stubs.ContainersStub
	Images     *stubs.ImagesStub
	Networks   *stubs.NetworksStub
	Taps       *stubs.TapsStub
	Debug      *stubs.DebugStub
	Identity   *stubs.IdentityManagerStub
	VMs        *stubs.VMsStub
	VMImages   *stubs.VMImagesStub
}

// Serve serves the node's modules on an in-process bus until the test ends.
func (n *Node) Serve(t *testing.T) Stubs {
	t.Helper()
	return Stubs{
		Storage:    n.Storage.Serve(t),
		VDisks:     VDisks{n.Storage}.Serve(t),
		ZDB:        n.ZDB.Serve(t),
		Containers: n.Containers.Serve(t),
		Images:     n.Images.Serve(t),
		Networks:   n.Networks.Serve(t),
		Taps:       Taps{n.Networks}.Serve(t),
		Debug:      n.Debug.Serve(t),
		Identity:   n.Identity.Serve(t),
		VMs:        n.VMs.Serve(t),
		VMImages:   n.VMImages.Serve(t),
	}
}

// Serve returns the stub of the module on an in-process bus, as do the other parts' Serve.
func (s *Storage) Serve(t *testing.T) *stubs.StorageStub {
	t.Helper()
	return stubs.NewStorageStub(conformance.OnBus[node.Storage](t, node.StorageModule, bus.Object(node.StorageObject, node.StorageVersion), s))
}

// Serve returns the stub of the module.
func (i NetworkInspector) Serve(t *testing.T) *stubs.NetworkInspectorStub {
	t.Helper()
	object := bus.Object(node.NetworkInspectorObject, node.NetworkInspectorVersion)
	return stubs.NewNetworkInspectorStub(conformance.OnBus[node.NetworkInspector](t, node.NetworkModule, object, i))
}

// Serve returns the stub of the module.
func (v VDisks) Serve(t *testing.T) *stubs.VDisksStub {
	t.Helper()
	return stubs.NewVDisksStub(conformance.OnBus[node.VDisks](t, node.StorageModule, bus.Object(node.VDiskObject, node.VDiskVersion), v))
}

// Serve returns the stub of the module.
func (z *ZDB) Serve(t *testing.T) *stubs.ZDBNamespacesStub {
	t.Helper()
	return stubs.NewZDBNamespacesStub(conformance.OnBus[node.ZDBNamespaces](t, node.ZDBModule, bus.Object(node.ZDBObject, node.ZDBVersion), z))
}

// Serve returns the stub of the module.
func (c *Containers) Serve(t *testing.T) *stubs.ContainersStub {
	t.Helper()
	return stubs.NewContainersStub(conformance.OnBus[node.Containers](t, node.ContainerModule, bus.Object(node.ContainerObject, node.ContainerVersion), c))
}

// Serve returns the stub of the module.
func (i *Images) Serve(t *testing.T) *stubs.ImagesStub {
	t.Helper()
	return stubs.NewImagesStub(conformance.OnBus[node.Images](t, node.ContainerModule, bus.Object(node.ImageObject, node.ImageVersion), i))
}

// Serve returns the stub of the module.
func (n *Networks) Serve(t *testing.T) *stubs.NetworksStub {
	t.Helper()
	return stubs.NewNetworksStub(conformance.OnBus[node.Networks](t, node.NetworkModule, bus.Object(node.NetworkObject, node.NetworkVersion), n))
}

// Serve returns the stub of the module.
func (t Taps) Serve(test *testing.T) *stubs.TapsStub {
	test.Helper()
	return stubs.NewTapsStub(conformance.OnBus[node.Taps](test, node.NetworkModule, bus.Object(node.TapObject, node.TapVersion), t))
}

// Serve returns the stub of the module.
func (d *Debug) Serve(t *testing.T) *stubs.DebugStub {
	t.Helper()
	return stubs.NewDebugStub(conformance.OnBus[node.Debug](t, node.DebugModule, bus.Object(node.DebugObject, node.DebugVersion), d))
}

// Serve returns the stub of the module.
func (i *Identity) Serve(t *testing.T) *stubs.IdentityManagerStub {
	t.Helper()
	return stubs.NewIdentityManagerStub(conformance.OnBus[node.IdentityManager](t, node.IdentityModule, bus.Object(node.IdentityObject, node.IdentityVersion), i))
}

// Serve returns the stub of the module.
func (v *VMs) Serve(t *testing.T) *stubs.VMsStub {
	t.Helper()
	return stubs.NewVMsStub(conformance.OnBus[node.VMs](t, node.VMModule, bus.Object(node.VMObject, node.VMVersion), v))
}

// Serve returns the stub of the module.
func (v *VMImages) Serve(t *testing.T) *stubs.VMImagesStub {
	t.Helper()
	return stubs.NewVMImagesStub(conformance.OnBus[node.VMImages](t, node.VMModule, bus.Object(node.VMImageObject, node.VMImageVersion), v))
}
